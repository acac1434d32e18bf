"""Where a topology comes from: a JSON, BRITE or federation file, or a real backbone by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.errors import InputError

if TYPE_CHECKING:
    from mangrove.routing.network.graph import Graph

BACKBONE_PREFIX = "topohub:"
HELP = "Topology: FILE.json, FILE.brite, a federation FILE.yaml, or topohub:GROUP/NAME."


def load_topology(source: str, failures: Path | None = None) -> Graph:
    """The graph of a topology argument, with the failure probabilities of another file if there is one.

    Every mistake in a file is reported at once, with its place.
    """
    graph = _load(source)
    if failures is None:
        return graph
    from mangrove.routing.network.topology import with_failures

    return with_failures(graph, _text(failures), str(failures))


def _load(source: str) -> Graph:
    if source.startswith(BACKBONE_PREFIX):
        from mangrove.evaluation.separation.backbones import backbone

        return backbone(source.removeprefix(BACKBONE_PREFIX))
    path = Path(source)
    if path.suffix in (".yaml", ".yml"):
        return _federation(path)
    if path.suffix == ".brite":
        from mangrove.routing.network.brite import parse_brite

        return parse_brite(_text(path), source)
    from mangrove.routing.network.topology import parse_topology

    return parse_topology(_text(path), source)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _federation(path: Path) -> Graph:
    """The overlay of a federation file, checked by the config room, with the gateways' weights."""
    from mangrove.config import load_federation
    from mangrove.routing.network.topology import graph_of_federation

    return graph_of_federation(load_federation(path))
