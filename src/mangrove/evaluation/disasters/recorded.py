"""Disasters that happened: earthquakes and storms with their places, reach and where these are recorded."""

from __future__ import annotations

import math
from importlib.resources import files
from pathlib import Path
from typing import Literal

import msgspec

from mangrove.errors import InputError, Mistakes
from mangrove.model.unreadable import UNREADABLE
from mangrove.routing.network.regions import Region

MAX_RADIUS_KM = 2000.0


class RecordedDisaster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One disaster: a centre, or the points of a track, and how far from them it destroyed."""

    name: str
    kind: Literal["earthquake", "storm"]
    date: str
    """Year, month and day in universal time."""
    points: tuple[tuple[float, float], ...]
    """Latitude and longitude."""
    radius_km: float
    source: str
    magnitude: float | None = None

    @property
    def region(self) -> Region:
        """What it covered."""
        return Region(self.points, self.radius_km)

    @property
    def title(self) -> str:
        """Name and year."""
        return f"{self.name} {self.date[:4]}"


class DisasterList(msgspec.Struct, frozen=True):
    """A file of disasters."""

    about: str
    disasters: tuple[RecordedDisaster, ...]


def recorded_disasters(file: Path | None = None) -> tuple[RecordedDisaster, ...]:
    """The list that comes with the package, or another one of the same form."""
    name = str(file) if file is not None else "recorded_disasters.json"
    try:
        data = (file or files("mangrove").joinpath("data", name)).read_bytes()
        listed = msgspec.json.decode(data, type=DisasterList)
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}") from error
    except UNREADABLE as error:
        raise InputError(f"{name}: {error}") from error
    _check(name, listed.disasters)
    return listed.disasters


def _check(name: str, disasters: tuple[RecordedDisaster, ...]) -> None:
    mistakes = Mistakes(name)
    if not disasters:
        mistakes.note("disasters", "none", "one or more")
    for index, disaster in enumerate(disasters):
        where = f"disasters[{index}]"
        if not disaster.points:
            mistakes.note(f"{where}.points", "none", "one or more places")
        for latitude, longitude in disaster.points:
            if not (abs(latitude) <= 90 and abs(longitude) <= 180):
                mistakes.note(f"{where}.points", f"[{latitude:g}, {longitude:g}]", "a place on the globe")
        if not (math.isfinite(disaster.radius_km) and 0 < disaster.radius_km <= MAX_RADIUS_KM):
            allowed = f"above 0 and up to {MAX_RADIUS_KM:g}"
            mistakes.note(f"{where}.radius_km", f"{disaster.radius_km:g}", allowed)
        if not disaster.source.strip():
            mistakes.note(f"{where}.source", "empty", "where this is recorded")
    mistakes.raise_if_any()
