"""Regions that an operator has declared endangered: how a gateway is told, and what it reports of them."""

from __future__ import annotations

import math
import re

import msgspec

from mangrove.errors import InputError

MAX_RADIUS_KM = 20_038.0
"""Half of the way around the earth."""
DEFAULT_FOR_S = 24 * 3600.0
MAX_FOR_S = 30 * 24 * 3600.0
MAX_REGIONS = 32
"""Endangered at the same time."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


class AvoidRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Declare a region endangered for a time; without a centre, the one of this name is safe again."""

    name: str
    centre: tuple[float, float] | None = None
    radius_km: float = 0.0
    for_s: float = DEFAULT_FOR_S

    def check(self) -> None:
        """InputError if it makes no sense anywhere."""
        if not NAME.fullmatch(self.name):
            raise InputError(
                f"{self.name!r} is not a name for a region", hint="letters, digits, - and _, at most 63"
            )
        if self.centre is None:
            return
        latitude, longitude = self.centre
        if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
            raise InputError(
                f"the centre {latitude:g},{longitude:g} is not on the globe",
                hint="latitude -90 to 90, longitude -180 to 180: --centre LAT,LON",
            )
        if not (math.isfinite(self.radius_km) and 0 < self.radius_km <= MAX_RADIUS_KM):
            raise InputError(
                f"the radius must be above 0 and at most {MAX_RADIUS_KM:,.0f} km, not {self.radius_km:g}"
            )
        if not (math.isfinite(self.for_s) and 0 < self.for_s <= MAX_FOR_S):
            raise InputError("a region can be endangered for at most 30 days, and not for no time")


class EndangeredRegion(msgspec.Struct, frozen=True, kw_only=True):
    """A region that is avoided, and what of the network it touches."""

    name: str
    centre: tuple[float, float]
    radius_km: float
    left_s: float
    """Until it is taken to be safe again."""
    told_at: str
    """The domain whose gateway was told of it."""
    sites: tuple[str, ...]
    links: tuple[tuple[str, str], ...]


class ExposedPath(msgspec.Struct, frozen=True, kw_only=True):
    """A path that carries messages of a contract through endangered regions, and why it still does."""

    topic: str
    destination: str
    path: tuple[str, ...]
    regions: tuple[str, ...]
    reason: str
    """Empty while the messages are about to leave it."""


class AvoidAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a request: the region as it is now, or what was wrong."""

    region: EndangeredRegion | None = None
    problem: str = ""
    hint: str = ""


def gateway_avoid_subject(domain: str) -> str:
    """Where a gateway is told, on its domain's management broker, what is endangered."""
    return f"mangrove.{domain}.gateway.avoid"
