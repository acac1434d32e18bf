"""Places, distances and map files as options give them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mangrove.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from mangrove.routing.network.graph import Graph


def positive(option: str, value: float) -> float:
    """A distance that makes sense; InputError names the option."""
    if not (value > 0 and math.isfinite(value)):
        raise InputError(f"{option} must be a positive distance, not {value:g}")
    return value


def place_on(graph: Graph, text: str) -> tuple[float, float]:
    """A place on the graph's plane, out of two numbers with a comma."""
    from mangrove.routing.network.geography import Plane

    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--centre {text!r} is not a place", hint="write --centre 40.7,-74.0") from None
    if graph.plane is Plane.GEO and not (abs(first) <= 90 and abs(second) <= 180):
        raise InputError(
            f"--centre {text} is not on the earth",
            hint="latitude (-90 to 90) comes first, then longitude (-180 to 180)",
        )
    if not (math.isfinite(first) and math.isfinite(second)):
        raise InputError(f"--centre {text} is not a place: both numbers must be finite")
    return first, second


def named_png(file: Path | None) -> None:
    """InputError if a map would go into a file that is not named as a PNG."""
    if file is not None and file.suffix.lower() != ".png":
        raise InputError(f"the map is a PNG file, and {file} is not named so")
