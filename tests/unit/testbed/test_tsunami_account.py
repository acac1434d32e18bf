"""The account of a tsunami: every delivery that is due is found again under exactly one heading."""

from __future__ import annotations

from array import array
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mangrove.model.status import Drop
from mangrove.testbed.accounting import Span
from mangrove.testbed.tsunami.account import Ledger, Stretch, TopicAccount
from mangrove.testbed.tsunami.centres import (
    LOCAL,
    NATIONAL,
    REGIONAL,
    Flow,
    Kind,
    Reader,
    centres,
    flows,
    readers,
)
from mangrove.testbed.tsunami.workers import Heard, Said

MS = 1_000_000
FLOWS = [Flow("sensor.x", Kind.SENSOR, LOCAL, 1.0), Flow("alert.x", Kind.ALERT, LOCAL, 1.0)]
READERS = [
    Reader("sensor.x", NATIONAL),
    Reader("sensor.x", NATIONAL),
    Reader("sensor.x", REGIONAL),
    Reader("alert.x", NATIONAL),
]
HALF = 5_000 * MS
STRETCHES = [Stretch(Span(0, HALF), tightened=False), Stretch(Span(HALF, 2 * HALF), tightened=True)]


def said(count: int, withheld: int = 0) -> Said:
    return Said(
        array("q", range(0, count * 100 * MS, 100 * MS)), Counter({"limited": withheld} if withheld else {})
    )


def heard(flow: int, numbers: list[int], late_ms: int = 10) -> Heard:
    times = [number * 100 * MS + late_ms * MS for number in numbers]
    return Heard(array("q", [flow] * len(numbers)), array("q", numbers), array("q", times))


def adds_up(account: TopicAccount) -> bool:
    gone = sum(account.withheld.values()) + sum(account.dropped.values())
    return account.due == account.delivered + gone + account.lost


@given(
    st.lists(st.lists(st.integers(0, 49), unique=True).map(sorted), min_size=4, max_size=4),
    st.integers(0, 20),
    st.integers(0, 5),
)
def test_whatever_arrives_the_account_adds_up(arrived: list[list[int]], withheld: int, dropped: int) -> None:
    parts = [heard(READERS[place].topic == "alert.x", numbers) for place, numbers in enumerate(arrived)]
    ledger = Ledger(FLOWS, READERS, [said(50, withheld), said(50)], parts)
    drops = {NATIONAL: [Drop(topic="sensor.x", reason="congestion", count=dropped)], LOCAL: []}
    sensor, alert = ledger.accounts(STRETCHES, drops)
    assert adds_up(sensor)
    assert adds_up(alert)
    assert sensor.due == 3 * (50 + withheld)
    assert sensor.delivered == sum(map(len, arrived[:3]))
    assert sum(sensor.dropped.values()) == 2 * dropped, "two listen at the gateway that dropped it"
    assert alert.lost == 50 - len(arrived[3])


def test_a_drop_where_it_was_published_concerns_all_who_listen_elsewhere() -> None:
    numbers = list(range(1, 50))
    ledger = Ledger(FLOWS, READERS, [said(50), said(50)], [heard(0, numbers)] * 3 + [heard(1, [*range(50)])])
    drops = {LOCAL: [Drop(topic="sensor.x", reason="rate limited", count=1)]}
    sensor, alert = ledger.accounts(STRETCHES, drops)
    assert (sensor.dropped, sensor.lost, sensor.explained) == ({"rate limited": 3}, 0, True)
    assert alert.explained


def test_more_drops_than_are_missing_do_not_add_up_unless_they_are_second_copies() -> None:
    everything = [heard(0, [*range(50)])] * 3 + [heard(1, [*range(50)])]
    ledger = Ledger(FLOWS, READERS, [said(50), said(50)], everything)
    drops = {NATIONAL: [Drop(topic=topic, reason="expired", count=2) for topic in ("sensor.x", "alert.x")]}
    sensor, alert = ledger.accounts(STRETCHES, drops)
    assert (sensor.lost, sensor.explained) == (-4, False)
    assert (alert.lost, alert.explained, alert.copies_dropped, alert.dropped) == (0, True, 2, {})


def test_alerts_are_judged_by_the_contract_in_force_when_they_were_sent() -> None:
    slow = heard(1, [*range(100)], late_ms=700)
    ledger = Ledger(
        FLOWS, READERS, [said(100), said(100)], [heard(0, [*range(100)], late_ms=700)] * 3 + [slow]
    )
    sensor, alert = ledger.accounts(STRETCHES, {})
    assert alert.in_time == 50, "1000 ms at first, then 500 ms"
    assert sensor.in_time == 300
    assert ledger.share(Kind.ALERT, STRETCHES[0]).in_time == 50
    assert ledger.share(Kind.ALERT, STRETCHES[1]).in_time == 0


def test_who_listens_is_served_by_the_contracts() -> None:
    for rabbitmq in (True, False):
        federation = centres(rabbitmq=rabbitmq)
        for flow in flows():
            contract = federation.topics.contract_of(flow.topic)
            assert contract.deadline_ms is not None
            assert contract.protected == (flow.kind is Kind.ALERT)
        assert {reader.topic for reader in readers()} == {flow.topic for flow in flows()}
        assert {reader.site for reader in readers()} <= set(federation.domains)
