"""Looking at the subscriptions of a broker: what counts, how often, and how much is kept."""

from __future__ import annotations

from collections import Counter

import pytest

from mangrove.broker.nats.subscriptions import (
    MAX_INTERVAL_S,
    Subscriptions,
    SubscriptionWatch,
    interval_s,
)
from mangrove.broker.nats.subscriptions_page import ListedConnection, ListedSubscription, Look
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.shared_names import TAP_NAME


def connection(
    cid: int, *subscriptions: tuple[str, str, int], name: str = "", kind: str = "Client"
) -> ListedConnection:
    detail = [ListedSubscription(subject=subject, sid=sid, msgs=msgs) for subject, sid, msgs in subscriptions]
    return ListedConnection(cid=cid, name=name, kind=kind, subscriptions_list_detail=detail)


def test_a_subscription_counts_from_its_first_sight() -> None:
    first = Look()
    first.add(connection(1, ("a", "1", 100), ("b", "2", 0)), None)
    assert (first.count, first.handed) == ({"a": 1, "b": 1}, {}), "nobody knows since when"
    second = Look()
    second.add(connection(1, ("a", "1", 130), ("b", "2", 4)), first)
    second.add(connection(2, ("a", "1", 7)), first)
    assert second.handed == {"a": 37, "b": 4}, "what was not there had been handed nothing"


def test_a_subscription_that_an_incomplete_look_may_have_missed_brings_no_history() -> None:
    first = Look(skipped=1)
    first.add(connection(1, ("a", "1", 100)), None)
    second = Look()
    second.add(connection(1, ("a", "1", 101)), first)
    second.add(connection(2, ("b", "1", 5000)), first)
    assert second.handed == {"a": 1}


def test_a_broker_that_was_started_anew_counts_from_zero() -> None:
    first = Look()
    first.add(connection(1, ("a", "1", 100)), None)
    second = Look()
    second.add(connection(1, ("a", "1", 3)), first)
    assert second.handed == {"a": 3}


def test_taps_leaf_nodes_and_internal_subjects_are_nobodys_interest() -> None:
    look = Look()
    look.add(connection(1, ("a", "1", 1), name=TAP_NAME), None)
    look.add(connection(2, ("a", "1", 1), kind="Leafnode"), None)
    look.add(connection(3, ("_INBOX.x", "1", 1), ("$SYS.>", "2", 1)), None)
    assert look.count == {}


def test_subscriptions_of_leaf_nodes_cost_but_do_not_count() -> None:
    look = Look()
    look.add(connection(1, ("a", "1", 1), ("b", "2", 1), kind="Leafnode"), None)
    look.add(connection(2, ("a", "1", 1)), None)
    assert (look.listed, look.foreign, look.count.total()) == (3, 2, 1)


def test_many_subscriptions_are_looked_at_less_often() -> None:
    assert interval_s(0) == interval_s(1000) == 1.0
    assert interval_s(100_000) == 50.0
    assert interval_s(10**9) == MAX_INTERVAL_S


def test_matching_finds_literals_and_wildcards() -> None:
    held = Subscriptions(count={"a.b": 1, "a.*": 2, "a.>": 1, "*.c": 3})  # type: ignore[arg-type]
    assert held.matching("a.b") == {"a.b", "a.*", "a.>"}
    assert held.matching("x.c") == {"*.c"}
    assert held.matching("x") == set()


async def test_between_two_looks_the_mean_of_what_was_handed_out_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pages = [
        Look(Counter(a=1), listed=3000),
        Look(Counter(a=1), Counter(a=40), listed=3000),
        Look(Counter(a=1), Counter(a=40)),
        Look(Counter(a=1), Counter(a=7)),
        Look(Counter(a=1), Counter(a=60)),
    ]
    asked: list[float] = []

    async def answer(*_: object, **__: object) -> Look:
        return pages[len(asked) - 1]

    monkeypatch.setattr("mangrove.broker.nats.subscriptions.look_at_subscriptions", answer)
    watch = SubscriptionWatch(BrokerEndpoints(name="b", host="127.0.0.1", client_port=1, monitor_port=2))
    found = []
    for now in (100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 115.0):
        asked.append(now)
        before = watch.looks
        await watch.look(now)
        if watch.looks == before:
            asked.pop()
        assert watch.found is not None
        found.append(watch.found.handed_per_s.get("a", 0.0))
    assert asked == [100.0, 102.0, 104.0, 105.0, 115.0], "3,000 are looked at every other second"
    assert found == [0.0, 0.0, 20.0, 20.0, 20.0, 7.0, 6.0]
