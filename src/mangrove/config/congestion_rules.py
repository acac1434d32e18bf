"""Rules across the fields of `congestion`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from mangrove.errors import Mistake
from mangrove.model.congestion.parameters import SELECTIONS, Congestion

DEFAULTS = Congestion()


def congestion_mistakes(raw: dict[str, Any]) -> Iterator[Mistake]:
    """Ranges and limits that do not fit together, and names that nothing has."""
    congestion = raw.get("congestion")
    if not isinstance(congestion, dict):
        return
    selection = congestion.get("selection", SELECTIONS[0])
    if isinstance(selection, str) and selection not in SELECTIONS:
        yield Mistake("congestion.selection", f"found {selection!r}", ", ".join(SELECTIONS))
    regions, ladder = _list(congestion, "regions"), _list(congestion, "ladder")
    for key, values in (("regions", regions), ("ladder", ladder)):
        if all(map(_number, values)) and any(one >= two for one, two in pairwise(values)):
            yield Mistake(f"congestion.{key}", f"found {values}", "numbers that rise")
    if len(ladder) != len(regions) + 1:
        place = "congestion.ladder" if "ladder" in congestion else "congestion.regions"
        found = f"{len(regions)} ends of ranges and {len(ladder)} limits"
        yield Mistake(place, found, "one limit more than there are ends")


def _list(congestion: dict[str, Any], key: str) -> list[Any]:
    value = congestion.get(key, getattr(DEFAULTS, key))
    return list(value) if isinstance(value, list | tuple) else []


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
