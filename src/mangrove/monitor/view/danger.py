"""What a disaster would do: a circle on the map, asked of what is carried now."""

from __future__ import annotations

import math

import msgspec

from mangrove.agent.live_disaster import LiveDisaster, Outcome, TopicFate, live_disaster
from mangrove.model.site_pair import SitePair, site_pair
from mangrove.monitor.view.sight import Sight
from mangrove.monitor.view.wording import name_key
from mangrove.routing.network.regions import Region

MAX_RADIUS_KM = 20_000.0
MAX_FATES = 40
_ORDER = (Outcome.CUT_OFF, Outcome.STRUCK, Outcome.MOVES, Outcome.SURVIVES, Outcome.UNTOUCHED)


class FateRow(msgspec.Struct, frozen=True, kw_only=True):
    """A topic between two domains that it would touch."""

    topic: str
    source: str
    destination: str
    outcome: str
    delay_ms: float | None
    late: bool
    lost: tuple[tuple[str, ...], ...]
    remaining: tuple[tuple[str, ...], ...]


class DangerView(msgspec.Struct, frozen=True, kw_only=True):
    """The answer; `problem` says why there is none."""

    sites: tuple[str, ...] = ()
    links: tuple[SitePair, ...] = ()
    outcomes: dict[str, int] = {}
    fates: tuple[FateRow, ...] = ()
    more: int = 0
    silent: tuple[str, ...] = ()
    problem: str = ""


def danger(sight: Sight, latitude: float, longitude: float, radius_km: float) -> DangerView:
    """What becomes of topics if all within the circle is lost, fibres that pass through it included."""
    if not all(map(math.isfinite, (latitude, longitude, radius_km))) or not (
        abs(latitude) <= 90 and abs(longitude) <= 180 and 0 < radius_km <= MAX_RADIUS_KM
    ):
        return DangerView(problem="that is no circle on this earth")
    nowhere = [name for name, domain in sight.federation.domains.items() if domain.location is None]
    if nowhere:
        return DangerView(problem=f"{', '.join(nowhere[:5])}: the federation file does not say where")
    region = Region.disc((latitude, longitude), radius_km)
    found = live_disaster(sight.federation, sight.gateways, region, cut_links=True)
    return _view(found)


def _view(found: LiveDisaster) -> DangerView:
    graph = found.graph
    touched = [fate for outcome in _ORDER[:-1] for fate in found.having(outcome)]
    return DangerView(
        sites=tuple(name for name, gone in zip(graph.names, found.damage.nodes, strict=True) if gone),
        links=tuple(
            site_pair(*graph.named((int(ends[0]), int(ends[1]))))
            for ends, gone in zip(graph.ends, found.damage.links, strict=True)
            if gone
        ),
        outcomes={outcome.value: len(found.having(outcome)) for outcome in _ORDER},
        fates=tuple(map(_row, touched[:MAX_FATES])),
        more=max(0, len(touched) - MAX_FATES),
        silent=found.silent,
    )


def _row(fate: TopicFate) -> FateRow:
    return FateRow(
        topic=name_key(fate.topic),
        source=fate.source,
        destination=fate.destination,
        outcome=fate.outcome.value,
        delay_ms=fate.delay_ms,
        late=fate.late,
        lost=fate.lost,
        remaining=fate.remaining,
    )
