"""The file that `failures` names: probabilities of failure, as `pipeline availability` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mangrove.errors import Mistake
from mangrove.model.site_pair import SitePair, site_pair

ALLOWED = "a probability, 0 to 1"
ENTRY = "[domain, domain, probability]"


@dataclass(slots=True)
class FailuresFile:
    """What the file says of sites and links, and what is wrong with it."""

    sites: dict[str, float] = field(default_factory=dict)
    links: dict[SitePair, float] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)


def read_failures(raw: Any, directory: Path) -> FailuresFile:
    """The failures file of a federation file in raw form; empty when it names none."""
    found = FailuresFile()
    name = raw.get("failures") if isinstance(raw, dict) else None
    if not isinstance(name, str):
        return found
    path = directory / name
    try:
        document = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        found.mistakes.append(Mistake("failures", f"cannot read {path}: {problem}"))
        return found
    except (ValueError, RecursionError) as error:
        found.mistakes.append(Mistake("failures", f"{path} is not JSON: {error}"))
        return found
    if not isinstance(document, dict):
        expected = '{"node_failure": {"a": 0.01}, "edge_failure": [["a", "b", 0.02]]}'
        found.mistakes.append(Mistake("failures", f"{path} holds no object", expected))
        return found
    found.mistakes += _unknown_keys(document)
    _read_sites(document.get("node_failure", {}), _mapping(raw.get("domains")), found)
    _read_links(document.get("edge_failure", []), _linked(raw), found)
    return found


def _unknown_keys(document: dict[str, Any]) -> Iterator[Mistake]:
    for key in document:
        if key not in ("node_failure", "edge_failure"):
            yield Mistake(f"failures: {key}", "unknown key", "node_failure, edge_failure")


def _read_sites(given: Any, domains: dict[str, Any], found: FailuresFile) -> None:
    if not isinstance(given, dict):
        found.mistakes.append(Mistake("failures: node_failure", "is no object", "probabilities by domain"))
        return
    for name, value in given.items():
        where = f"failures: node_failure.{name}"
        if name not in domains:
            known = ", ".join(map(str, domains))
            found.mistakes.append(Mistake(where, f"there is no domain {name!r}", known))
        elif not _probability(value):
            found.mistakes.append(Mistake(where, f"found {value!r}", ALLOWED))
        else:
            found.sites[name] = float(value)


def _read_links(given: Any, linked: set[SitePair], found: FailuresFile) -> None:
    if not isinstance(given, list):
        found.mistakes.append(
            Mistake("failures: edge_failure", "is no list", "[domain, domain, probability]")
        )
        return
    for position, entry in enumerate(given):
        where = f"failures: edge_failure[{position}]"
        if not (isinstance(entry, list) and len(entry) == 3):
            found.mistakes.append(Mistake(where, f"found {entry!r}", ENTRY))
            continue
        pair = site_pair(str(entry[0]), str(entry[1]))
        if pair not in linked:
            found.mistakes.append(Mistake(where, f"no link joins {entry[0]} and {entry[1]}"))
        elif pair in found.links:
            found.mistakes.append(Mistake(where, f"{entry[0]} and {entry[1]} are named twice"))
        elif not _probability(entry[2]):
            found.mistakes.append(Mistake(f"{where}[2]", f"found {entry[2]!r}", ALLOWED))
        else:
            found.links[pair] = float(entry[2])


def _linked(raw: dict[str, Any]) -> set[SitePair]:
    links = raw.get("links")
    return {
        site_pair(*map(str, link["between"]))
        for link in (links if isinstance(links, list) else [])
        if isinstance(link, dict) and isinstance(link.get("between"), list) and len(link["between"]) == 2
    }


def _probability(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value <= 1


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
