"""What the network knows of its links, and who is believed."""

from __future__ import annotations

import msgspec
from tests.kit.engines import ad, report

from mangrove.model.questions.session_quality import Quality
from mangrove.overlay.network.link_state import LinkStateDatabase
from mangrove.overlay.protocol.control_messages import (
    MAX_ASKED_CLASSES,
    LinkStateAck,
)


def database() -> LinkStateDatabase:
    return LinkStateDatabase("a", 1, [("a", "b"), ("b", "c"), ("a", "c")])


def test_failures_are_told_at_once_and_delays_only_when_they_matter() -> None:
    own = database()
    assert own.advertise({"b": report(), "c": report()}, 0.0) is not None
    assert own.advertise({"b": report(delay_ms=10.5), "c": report()}, 1.0) is None
    assert own.advertise({"b": report(delay_ms=30), "c": report()}, 1.1) is not None
    assert own.advertise({"b": report(delay_ms=60), "c": report()}, 1.2) is None, "not too often"
    assert own.advertise({"b": report(up=False), "c": report()}, 1.21) is not None
    assert own.advertise({"b": report(up=False), "c": report()}, 10.0) is not None, "now and then anyway"
    assert own.failed_links() == {("a", "b")}


def test_a_link_is_down_if_one_end_says_so() -> None:
    own = database()
    own.advertise({"b": report(), "c": report()}, 0.0)
    assert own.receive(ad("b", 1, a=report(), c=report()))
    assert own.failed_links() == frozenset()
    assert own.receive(ad("b", 2, a=report(up=False), c=report(delay_ms=25)))
    assert own.failed_links() == {("a", "b")}
    assert own.measured().delays_ms["b", "c"] == 25


def test_stale_forged_and_foreign_advertisements_are_ignored() -> None:
    own = database()
    assert own.receive(ad("b", 5, a=report()))
    assert not own.receive(ad("b", 5, a=report(up=False))), "replayed"
    assert not own.receive(ad("b", 4, a=report(up=False))), "stale"
    assert not own.receive(ad("a", 9, b=report(up=False))), "nobody else speaks for this gateway"
    assert not own.receive(ad("z", 1, b=report())), "unknown gateway"
    assert not own.receive(ad("b", 6, z=report())), "unknown link"
    assert own.ignored == 3
    said = own.advertise({"b": report()}, 1.0)
    assert said is not None
    assert not own.receive(said)
    assert own.ignored == 3, "an echo is no forgery"
    assert own.receive(ad("b", 1, epoch=2, a=report())), "a restarted gateway is not taken for a replay"


def test_flooding_is_repeated_until_acknowledged() -> None:
    own = database()
    mine = own.advertise({"b": report(), "c": report()}, 0.0)
    assert mine is not None
    assert own.peer_up("b", 0.0) == [mine]
    assert own.waiting("b")
    assert own.repeats(0.1) == []
    assert own.repeats(0.2) == [("b", mine)]
    own.acknowledge("b", LinkStateAck(origin="a", epoch=1, sequence=mine.sequence))
    assert not own.waiting("b")
    assert own.repeats(9.0) == []


def test_what_waits_and_what_fails_is_advertised() -> None:
    own = database()
    own.advertise({"b": report(), "c": report()}, 0.0)
    crowded = report(waits_ms={0: 40.0}, availability=0.9)
    assert own.advertise({"b": crowded, "c": report()}, 1.0) is not None, "a wait is a marked change"
    assert own.advertise({"b": crowded, "c": report()}, 2.0) is None
    measured = own.measured()
    assert measured.waits_ms == {("a", "b"): {0: 40.0}}
    assert measured.availability == {("a", "b"): 0.9}


def test_what_subscribers_ask_for_is_told_soon_and_heard_of_others() -> None:
    own = database()
    links = {"b": report(), "c": report()}
    own.advertise(links, 0.0)
    two = {0: Quality(paths=2)}
    assert own.advertise(links, 0.05, None, two) is None, "not too often"
    told = own.advertise(links, 0.2, None, two)
    assert told is not None
    assert told.asks == two
    assert own.advertise(links, 0.4, None, two) is None, "told already"
    assert own.receive(msgspec.structs.replace(ad("b", 1, a=report()), asks=two))
    assert own.asks() == {"b": two}, "and not its own"
    assert own.receive(ad("b", 2, a=report()))
    assert own.asks() == {}
    many = {number: Quality(paths=2) for number in range(MAX_ASKED_CLASSES + 1)}
    bounded = own.advertise(links, 1.0, None, many)
    assert bounded is not None
    assert len(bounded.asks) == MAX_ASKED_CLASSES
