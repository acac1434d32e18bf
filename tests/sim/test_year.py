"""The year of `evaluate resilience`, and its model against packets on a short span."""

from __future__ import annotations

from functools import partial

import pytest

from mangrove.evaluation.resilience.outages import Change, Damaged, outages
from mangrove.evaluation.resilience.year import RULES, SCHEMES, Year, make_network, run_year
from mangrove.model.federation import Federation
from mangrove.simulation.overlay_network import SimulatedOverlay

DAY = 86400.0


def test_everything_is_down_for_its_share_of_the_time() -> None:
    federation = make_network(1)
    down: dict[tuple[str, ...], float] = {}
    since: dict[tuple[str, ...], float] = {}
    for change in outages(federation, 3000 * DAY, 4 * 3600.0, seed=3):
        if change.up:
            down[change.where] = down.get(change.where, 0.0) + change.at - since[change.where]
        since[change.where] = change.at
    for link in federation.links:
        assert down[link.pair] / (3000 * DAY) == pytest.approx(link.failure_probability, rel=0.5)


def test_links_of_a_site_that_is_down_carry_nothing() -> None:
    federation = make_network(1)
    state = Damaged(federation)
    state.apply(Change(1.0, ("n00",), False))
    assert state.failed == {link.pair for link in federation.links_of("n00")}
    state.apply(Change(2.0, ("n00",), True))
    assert state.failed == frozenset()


def test_promises_are_kept_for_a_season() -> None:
    found = run_year([1], duration_s=90 * DAY)
    assert [scheme.scheme for scheme in found.schemes] == list(SCHEMES)
    assert found.missed() == []
    live = {scheme.scheme: scheme.live.mean for scheme in found.schemes}
    assert live["promise_9999"] >= live["one_path"] > live["ospf"]
    paths = {scheme.scheme: scheme.paths for scheme in found.schemes}
    assert 1 <= paths["promise_999"] <= paths["promise_9999"] <= 4


def packets(federation: Federation, source: str, receiver: str, changes: list[Change], end: float) -> float:
    """Share of messages that arrive within 50 ms, of those sent while all is decided by the network."""
    net = SimulatedOverlay(federation, seed=1)
    subject = "promise_999"
    net.subscribe(receiver, subject)
    begin = 5.0
    net.run(begin)
    sent: list[tuple[float, bytes]] = []

    def publish() -> None:
        body = f"{len(sent)}".encode()
        if net.publish(source, subject, body):
            sent.append((net.now, body))
        if net.now < begin + end:
            net.at(net.now + 0.01, publish)

    def apply(change: Change) -> None:
        net.black_hole(change.where[0], change.where[1], not change.up)

    publish()
    for change in changes:
        net.at(begin + change.at, partial(apply, change))
    net.run(begin + end + 12.0)
    on_time = sum(net.delivered_at.get((receiver, body), 1e9) - at <= 0.05 for at, body in sent)
    return on_time / len(sent)


def test_the_model_agrees_with_packets_on_a_short_span() -> None:
    """Both paths of a set fail, one after the other and together; then everything is cut off for a while."""
    federation = make_network(5, sites=6, links=8)
    pair = ("n00", "n03")
    year = Year(federation, [pair], duration_s=60.0)
    scripted = []
    year_changes: list[Change] = []
    links = [link.pair for link in federation.links_of("n00")]
    for number, link in enumerate(links):
        scripted += [Change(10.0 + number, link, False), Change(30.0 + number, link, True)]
    for link in links[:1]:
        scripted += [Change(45.0, link, False), Change(50.0, link, True)]
    year_changes += sorted(scripted)
    year.run_changes(year_changes)
    (account,) = (year.accounts[key] for key in year.accounts if key == ("promise_999", *pair))
    assert RULES.contracts[1].match == "promise_999"
    measured = packets(federation, *pair, year_changes, 60.0)
    assert account.live == pytest.approx(measured, abs=0.03)
    assert account.live < 0.75, "cut off for a third of the time"
