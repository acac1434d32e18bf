"""Registrations are taken, refused with a reason, and end with their leases."""

from __future__ import annotations

import math

import pytest

from mangrove.control.clients import registry
from mangrove.control.clients.leases import LeaseWheel
from mangrove.control.clients.registry import STALE, UNKNOWN, Clients, Upsert, wish_problem
from mangrove.model.agents.registration import LEASE_S, ClientRole, Registration, Wish


def wish(
    key: str = "s",
    subject: str = "a.b",
    role: ClientRole = ClientRole.SUBSCRIBER,
    deadline_ms: float | None = None,
    weight: float = 1.0,
    queue: str = "",
) -> Wish:
    return Wish(key=key, role=role, subject=subject, deadline_ms=deadline_ms, weight=weight, queue=queue)


def register(
    clients: Clients,
    sequence: int,
    *wishes: Wish,
    client: str = "c1",
    complete: bool = True,
    ended: tuple[str, ...] = (),
    rtt_ms: dict[str, float] | None = None,
    now: float = 0.0,
) -> Upsert:
    registration = Registration(
        client=client,
        sequence=sequence,
        public_key=b"",
        exchange_key=b"",
        complete=complete,
        wishes=wishes,
        ended=ended,
        rtt_ms=rtt_ms or {},
    )
    upsert = clients.register(registration, now)
    for served in upsert.added:
        clients.place(served, "edge1")
    assert clients.problems() == []
    return upsert


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (wish(subject=""), "empty"),
        (wish(subject="a..b"), "empty token"),
        (wish(subject="a b"), "white space"),
        (wish(subject="$SYS.x"), "machinery"),
        (wish(subject="_INBOX.x"), "machinery"),
        (wish(subject="a.*", role=ClientRole.PUBLISHER), "wildcard"),
        (wish(key=""), "key"),
        (wish(key="k" * 300), "key"),
        (wish(deadline_ms=-1.0), "deadline"),
        (wish(deadline_ms=0.0), "deadline"),
        (wish(deadline_ms=math.nan), "deadline"),
        (wish(deadline_ms=math.inf), "deadline"),
        (wish(weight=-1.0), "weight"),
        (wish(weight=math.nan), "weight"),
        (wish(weight=1e9), "weight"),
        (wish(queue="two words"), "queue"),
    ],
)
def test_a_bad_wish_is_refused_and_harms_no_other(bad: Wish, word: str) -> None:
    clients = Clients(["edge1"])
    upsert = register(clients, 1, bad, wish(key="good"))
    assert word in next(iter(upsert.refused.values()))
    assert [served.wish.key for served in upsert.added] == ["good"]
    assert sum(clients.refused.values()) == 1


@pytest.mark.parametrize("good", [wish(), wish(subject=">"), wish(subject="unheard.of.*"), wish(weight=0.0)])
def test_whatever_can_be_subscribed_to_is_taken(good: Wish) -> None:
    assert wish_problem(good) == ""


def test_two_wishes_of_one_key() -> None:
    upsert = register(Clients([]), 1, wish("s", "a"), wish("s", "b"))
    assert [served.topic for served in upsert.added] == ["a"]
    assert "s" in upsert.refused


def test_a_sequence_number_is_good_once_even_after_the_client_has_left() -> None:
    clients = Clients([])
    register(clients, 5, wish())
    assert register(clients, 5, wish()).problem == STALE
    assert clients.heard("c1", 5, 1.0) == STALE
    assert clients.heard("c1", 6, 1.0) == ""
    clients.leave("c1")
    assert register(clients, 6, wish()).problem == STALE
    assert register(clients, 7, wish()).client is not None
    assert clients.refused[STALE] == 3


def test_changes_alone_need_a_known_client() -> None:
    clients = Clients([])
    assert register(clients, 1, wish(), complete=False).problem == UNKNOWN
    assert clients.heard("c1", 2, 0.0) == UNKNOWN


def test_complete_and_incremental_registrations() -> None:
    clients = Clients([])
    register(clients, 1, wish("a"), wish("b"))
    more = register(clients, 2, wish("c"), complete=False)
    assert (len(more.added), len(more.ended)) == (1, 0)
    less = register(clients, 3, complete=False, ended=("a", "unknown"))
    assert [served.wish.key for served in less.ended] == ["a"]
    all_of_it = register(clients, 4, wish("c"))
    assert [served.wish.key for served in all_of_it.kept] == ["c"]
    assert [served.wish.key for served in all_of_it.ended] == ["b"]
    changed = register(clients, 5, wish("c", "other.topic"))
    assert [served.topic for served in changed.added] == ["other.topic"]
    assert [served.topic for served in changed.ended] == ["a.b"]


def test_a_restarted_client_under_the_same_key_keeps_its_place() -> None:
    clients = Clients([])
    register(clients, 1, wish())
    again = register(clients, 100, wish())
    assert [served.broker for served in again.kept] == ["edge1"]
    assert len(clients) == 1


def test_numbers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MAX_WISHES", 3)
    monkeypatch.setattr(registry, "MAX_ALL_WISHES", 4)
    monkeypatch.setattr(registry, "MAX_CLIENTS", 2)
    clients = Clients([])
    first = register(clients, 1, *(wish(str(number)) for number in range(5)))
    assert (len(first.added), len(first.refused)) == (3, 2)
    second = register(clients, 1, wish("a"), wish("b"), client="c2")
    assert (len(second.added), len(second.refused)) == (1, 1)
    assert "clients already" in register(clients, 1, wish(), client="c3").problem


def test_round_trips_that_cannot_be_are_left_out() -> None:
    clients = Clients(["edge1", "edge2"])
    rtts = {"edge1": 3.0, "edge2": -1.0, "edge9": 1.0, "": math.nan}
    client = register(clients, 1, rtt_ms=rtts).client
    assert client is not None
    assert client.rtt_ms == {"edge1": 3.0}
    assert clients.refused["round trips that cannot be"] == 3


def test_a_lease_lasts_for_its_length_since_the_client_was_heard_of() -> None:
    clients = Clients([])
    register(clients, 1, wish(), now=0.0)
    register(clients, 1, wish(), client="c2", now=1.0)
    clients.heard("c1", 2, 10.0)
    assert clients.expired(LEASE_S + 0.5) == []
    assert clients.expired(LEASE_S + 2.5) == ["c2"]
    clients.leave("c2")
    assert clients.expired(24.0) == []
    assert clients.expired(10.0 + LEASE_S + 2.0) == ["c1"]
    assert clients.timer() == math.inf


def test_leases_are_looked_at_once_in_their_length() -> None:
    """Leases that are renewed all the time are in one slot each, not in one for each renewal."""
    wheel = LeaseWheel(15.0)
    for now in range(30):
        for number in range(1000):
            wheel.renew(str(number), float(now))
        assert wheel.expired(float(now), 10) == []
    assert sum(map(len, wheel._slots.values())) == 1000


def test_leases_run_out_in_lots() -> None:
    wheel = LeaseWheel(15.0)
    for number in range(25):
        wheel.renew(str(number), 0.0)
    lots = [len(wheel.expired(20.0, 10)) for _ in range(4)]
    assert lots == [10, 10, 5, 0]
    assert wheel.timer() == math.inf


def test_a_client_that_says_nothing_is_not_counted_on_although_its_lease_lasts() -> None:
    clients = Clients([])
    register(clients, 1, wish(), now=0.0)
    assert clients.heard_lately("c1", 3.0)
    assert not clients.heard_lately("c1", 3.1)
    assert clients.expired(3.1) == []
    clients.heard("c1", 2, 4.0)
    assert clients.heard_lately("c1", 5.0)
    assert not clients.heard_lately("unknown", 0.0)
