"""What a disaster would do to a federation, from what its gateways say."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest

from mangrove.agent.live_disaster import Outcome, live_disaster
from mangrove.evaluation.drawings.maps import draw_disaster
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.status import GatewayStatus, WayStatus
from mangrove.model.topics import Contract, TopicRules
from mangrove.routing.network.regions import Region
from mangrove.routing.paths.disaster import Fate
from mangrove.routing.paths.planner import require_places

PLACES = {"a": (0.0, 0.0), "m": (0.0, 10.0), "n": (10.0, 10.0), "d": (0.0, 20.0), "e": (0.0, 30.0)}
DELAYS_MS = {("a", "m"): 10.0, ("m", "d"): 10.0, ("a", "n"): 15.0, ("n", "d"): 15.0, ("d", "e"): 5.0}
FEDERATION = Federation(
    name="f",
    domains={name: Domain(name=name, base_port=1, location=place) for name, place in PLACES.items()},
    links=tuple(Link(between=pair, delay_ms=delay) for pair, delay in DELAYS_MS.items()),
    topics=TopicRules((Contract(match="tight", deadline_ms=25), Contract(match="twice", paths=2))),
)
MIDDLE, NORTH = ("a", "m", "d"), ("a", "n", "d")


def gateway(*ways: WayStatus, failed: tuple[tuple[str, str], ...] = ()) -> GatewayStatus:
    plain = {
        field.name: field.default
        for field in msgspec.structs.fields(GatewayStatus)
        if field.default is not msgspec.NODEFAULT
    }
    blank = {"links": (), "interest": {}, "routes": (), "arrivals": (), "drops": (), "head_connected": True}
    numbers = {
        field.name: 0
        for field in msgspec.structs.fields(GatewayStatus)
        if field.name not in (*plain, *blank, "domain", "failed_links", "ways")
        and field.default is msgspec.NODEFAULT
        and field.default_factory is msgspec.NODEFAULT
    }
    return GatewayStatus(domain="a", failed_links=failed, ways=ways, **blank, **numbers)  # type: ignore[arg-type]


def way(topic: str, destination: str, *paths: tuple[str, ...]) -> WayStatus:
    return WayStatus(topic=topic, destination=destination, paths=paths, by_table=len(paths) == 1)


def test_each_topic_has_its_fate() -> None:
    status = gateway(
        way("tight", "d", MIDDLE),
        way("twice", "d", MIDDLE, NORTH),
        way("(no contract)", "m", ("a", "m")),
        way("(no contract)", "n", ("a", "n")),
    )
    found = live_disaster(FEDERATION, {"a": status, "d": None}, Region.disc(PLACES["m"], 300))
    fates = {(fate.topic, fate.destination): fate for fate in found.fates}
    tight = fates["tight", "d"]
    assert (tight.outcome, tight.lost, tight.remaining) == (Outcome.MOVES, (MIDDLE,), (NORTH,))
    assert tight.delay_ms == pytest.approx(30)
    assert tight.late
    twice = fates["twice", "d"]
    assert (twice.outcome, twice.lost, twice.remaining, twice.late) == (
        Outcome.SURVIVES,
        (MIDDLE,),
        (NORTH,),
        False,
    )
    assert fates["(no contract)", "m"].outcome is Outcome.STRUCK
    assert fates["(no contract)", "n"].outcome is Outcome.UNTOUCHED
    assert found.silent == ("d",)
    drawn = found.report()
    assert sorted(entry.fate.value for entry in drawn.fates) == ["saved", "saved", "struck"]
    assert drawn.having(Fate.SAVED)[0].paths == (found.graph.indices(MIDDLE), found.graph.indices(NORTH))


def test_links_that_are_down_now_are_no_way_around() -> None:
    status = gateway(way("tight", "d", MIDDLE), way("tight", "e", (*MIDDLE, "e")), failed=(("a", "n"),))
    found = live_disaster(FEDERATION, {"a": status}, Region.disc(PLACES["m"], 300))
    assert {fate.outcome for fate in found.fates} == {Outcome.CUT_OFF}
    assert all(fate.delay_ms is None and not fate.late for fate in found.fates)


def test_a_fibre_is_cut_only_if_asked_for() -> None:
    status = gateway(way("tight", "d", MIDDLE))
    region = Region.disc((0.0, 5.0), 100)
    assert live_disaster(FEDERATION, {"a": status}, region).fates[0].outcome is Outcome.UNTOUCHED
    cut = live_disaster(FEDERATION, {"a": status}, region, cut_links=True)
    assert cut.fates[0].outcome is Outcome.MOVES
    assert math.isclose(cut.fates[0].delay_ms or 0, 30)


def test_a_domain_that_has_left_is_nowhere_and_stops_nothing(tmp_path: Path) -> None:
    """A gateway that has not heard of it yet may still tell of a way through it."""
    numbers = ("a", "d", "e", "m", "n", "z~5")
    federation = msgspec.structs.replace(FEDERATION, numbers=numbers)
    status = gateway(way("twice", "d", MIDDLE, ("a", "z", "d")), way("tight", "d", ("a", "z", "d")))
    found = live_disaster(federation, {"a": status}, Region.disc(PLACES["m"], 300))
    assert {fate.topic: fate.lost for fate in found.fates} == {"twice": (MIDDLE,), "tight": ()}
    require_places(found.graph, linked=True)
    draw_disaster(found.graph, found.report(), tmp_path / "map.png", title="f")
    assert (tmp_path / "map.png").stat().st_size > 1000
