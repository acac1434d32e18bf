"""The map as it is now: detours, colours, waits in their direction."""

from __future__ import annotations

import msgspec
from tests.kit.engines import federation

from mangrove.model.federation import Link, Prepare, RiskGroup
from mangrove.overlay.network.link_state import LinkMeasurements
from mangrove.overlay.network.live_map import LiveMap


def test_shortest_paths_prefer_the_cheaper_detour() -> None:
    shape = federation(("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"))
    costs = dict(zip(("ab", "bc", "ac", "cd"), (1.0, 1.0, 5.0, 1.0), strict=True))
    links = tuple(Link(between=link.between, delay_ms=costs["".join(link.between)]) for link in shape.links)
    live = LiveMap(msgspec.structs.replace(shape, links=links), "a")
    assert live.forwarding.split(0b1110) == (("b", 0b1110),)
    assert live.rest_ms(0b1000, 0) == 3.0
    assert live.table_ms("d", 0) == 3.0
    live.update(frozenset({("a", "b")}), LinkMeasurements(delays_ms={("a", "c"): 9.0}))
    assert live.forwarding.split(0b1110) == (("c", 0b1110),)
    assert live.table_ms("d", 0) == 10.0
    live.update(frozenset({("a", "b"), ("c", "d")}), LinkMeasurements())
    assert not live.exact, "two links that share no site have no colour"
    assert live.forwarding.split(0b1110) == (("c", 0b0110),)
    assert live.forwarding.reachable() == 0b0110


def test_pairs_and_risk_groups_have_next_hops_of_their_own_when_asked_for() -> None:
    ring = federation(("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("a", "e"), ("b", "e"), ("a", "c"))
    duct = RiskGroup(links=(("a", "b"), ("b", "c"), ("d", "e")))
    plain = LiveMap(ring, "a")
    grouped = LiveMap(msgspec.structs.replace(ring, risk_groups={"duct": duct}), "a")
    paired = LiveMap(msgspec.structs.replace(ring, prepare=Prepare.PAIRS), "a")
    states = [live.table_figures().states for live in (plain, grouped, paired)]
    assert states == [1 + 7 + 5, 1 + 7 + 5 + 1, 1 + 7 + 5 + 12 * 11 // 2]
    two, three = frozenset(duct.links[1:]), frozenset(duct.links)
    for failed, exact in ((two, [False, False, True]), (three, [False, True, False])):
        for live in (plain, grouped, paired):
            live.update(failed, LinkMeasurements())
        assert [live.exact for live in (plain, grouped, paired)] == exact
        assert plain.forwarding.split(0b11110) == grouped.forwarding.split(0b11110)
        assert plain.forwarding.split(0b11110) == paired.forwarding.split(0b11110)
        assert [live.table_ms("b", 0) for live in (plain, grouped, paired)] == [
            1.0 if failed == two else 2.0
        ] * 3


def test_waits_count_in_their_direction_and_for_their_topics() -> None:
    live = LiveMap(federation(("a", "b"), ("b", "c"), ("a", "c")), "a")
    crowded, free, back = {0: 50.0}, {1: 0.7}, {0: 500.0}
    waits = {("a", "c"): crowded, ("b", "c"): free, ("c", "a"): back}
    assert live.update(frozenset(), LinkMeasurements(waits_ms=waits)) == (False, True)
    assert live.table_ms("c", 0) == 51.0
    assert live.table_ms("c", 1) == 1.0
    assert live.rest_ms(0b100, 0) == 2.0, "through b"
    assert live.path_ms(("a", "b", "c"), 1) == 2.7
    assert live.path_ms(("c", "a"), 0) == 501.0
    assert live.update(frozenset(), LinkMeasurements(waits_ms=waits)) == (False, False)
