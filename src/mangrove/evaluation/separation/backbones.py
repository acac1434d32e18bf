"""Real backbone topologies, out of the `topohub` collection (SNDlib, Topology Zoo, CAIDA and others)."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

from mangrove.errors import InputError
from mangrove.routing.network.geography import Plane
from mangrove.routing.network.graph import Graph, make_graph


def backbone(name: str) -> Graph:
    """A backbone by its name in the collection, such as `sndlib/germany50`; distances in kilometres.

    Links weigh the distance between their ends, on the great circle wherever the collection knows the places.
    Parallel links are one link here.
    """
    group, _, _ = name.partition("/")
    if name not in {f"{group}/{known}" for known in backbone_names(group)}:
        near = difflib.get_close_matches(name, [f"{g}/{n}" for g in _groups() for n in backbone_names(g)], 5)
        raise InputError(
            f"there is no backbone {name!r}",
            hint=f"did you mean {' or '.join(near)}?" if near else f"groups: {', '.join(_groups())}",
        )
    document = json.loads((_data() / f"{name}.json").read_bytes())
    number = {node["id"]: index for index, node in enumerate(document["nodes"])}
    ends = sorted(
        {
            (min(pair), max(pair))
            for edge in document["edges"]
            for pair in [(number[edge["source"]], number[edge["target"]])]
            if pair[0] != pair[1]
        }
    )
    across_up = [(float(node["pos"][0]), float(node["pos"][1])) for node in document["nodes"]]
    # Some entries of SNDlib are drawn on a sheet of paper: their coordinates are no longitudes and latitudes.
    on_earth = all(abs(across) <= 180 and abs(up) <= 90 for across, up in across_up)
    names = _unique([str(node.get("name", node["id"])) for node in document["nodes"]])
    if not on_earth:
        return make_graph(names, across_up, ends, plane=Plane.EUCLIDEAN)
    return make_graph(names, [(up, across) for across, up in across_up], ends, plane=Plane.GEO)


def backbone_names(group: str) -> list[str]:
    """Names within a group of the collection; empty for a group that does not exist."""
    folder = _data() / group
    return sorted(
        path.relative_to(folder).as_posix().removesuffix(".json") for path in folder.rglob("*.json")
    )


def _unique(names: list[str]) -> list[str]:
    """Names with a number added to those that occur more than once."""
    taken: dict[str, None] = {}
    for name in names:
        free = next(n for n in (name, *(f"{name} {k}" for k in range(2, len(names) + 2))) if n not in taken)
        taken[free] = None
    return list(taken)


def _groups() -> list[str]:
    return sorted(path.name for path in _data().iterdir() if path.is_dir())


def _data() -> Path:
    """The folder of the collection's files; `topohub.get` reads the same ones, but leaves them open."""
    try:
        import topohub
    except ImportError as error:
        raise InputError(
            "real backbones need the package topohub", hint="pip install 'mangrove-messaging[evaluation]'"
        ) from error
    return Path(str(topohub.__file__)).parent / "data"
