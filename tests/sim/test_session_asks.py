"""Sessions that ask for more than a contract: sources far away send along more paths until nobody asks."""

from __future__ import annotations

import msgspec
import pytest
from tests.kit.engines import federation

from mangrove.model.questions.session_quality import LEASE_S, AskRequest, Quality, Role
from mangrove.model.topics import Contract, SessionLimits, TopicRules
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.routes.session_asks import AskRefusedError
from mangrove.overlay.stimuli.replay import replay
from mangrove.overlay.stimuli.stimulus import Stimulus
from mangrove.simulation.overlay_network import SimulatedOverlay

PLAIN = TopicRules((Contract(match="x", limits=SessionLimits(paths=2, deadline_ms=1)),))
RING = (("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"))
TWO = {("a", "b", "d"), ("a", "c", "d")}


def asking(session: str, role: Role = Role.SUBSCRIBER, end: bool = False) -> AskRequest:
    return AskRequest(session=session, role=role, subject="x", quality=Quality(paths=2), end=end)


def ring() -> SimulatedOverlay:
    net = SimulatedOverlay(federation(*RING, topics=PLAIN), seed=1)
    net.subscribe("d", "x")
    net.run(2.0)
    assert net.engines["a"].active_paths(0, "d") == []
    return net


def test_a_subscriber_asks_for_two_paths_and_gets_them_until_its_lease_ends() -> None:
    net = ring()
    net.ask("d", asking("s"))
    net.run(net.now + 1.0)
    for source in "abc":
        assert len(net.engines[source].active_paths(0, "d")) == 2
    assert set(net.engines["a"].active_paths(0, "d")) == TWO
    (told,) = net.engines["d"].status(net.now).asks
    assert (told.topic, told.role, told.sessions, told.paths) == ("x", "subscriber", 1, 2)
    for number in range(200):
        net.publish("a", "x", str(number).encode())
        net.run(net.now + 0.002)
    net.run(net.now + LEASE_S + 1.0)
    assert net.engines["a"].active_paths(0, "d") == []
    assert net.engines["d"].status(net.now).asks == ()
    assert len(net.delivered) == 200
    assert not net.duplicates
    net.validate()


def test_asks_that_are_renewed_last_and_end_when_ended() -> None:
    net = ring()
    for _ in range(10):
        net.ask("d", asking("s"))
        net.ask("d", asking("t"))
        net.run(net.now + LEASE_S / 3)
    assert set(net.engines["a"].active_paths(0, "d")) == TWO
    net.ask("d", asking("s", end=True))
    net.run(net.now + 1.0)
    assert set(net.engines["a"].active_paths(0, "d")) == TWO, "another still asks"
    net.ask("d", asking("t", end=True))
    net.run(net.now + 1.0)
    assert net.engines["a"].active_paths(0, "d") == []
    net.validate()


def test_a_publisher_raises_what_its_own_domain_sends_and_no_other() -> None:
    net = ring()
    net.ask("a", asking("p", Role.PUBLISHER))
    net.run(net.now + 1.0)
    assert set(net.engines["a"].active_paths(0, "d")) == TWO
    assert net.engines["b"].active_paths(0, "d") == []
    assert net.engines["a"].status(net.now).asks[0].role == "publisher"
    net.validate()


def test_a_gateway_that_starts_anew_hears_of_asks_again() -> None:
    net = ring()
    net.ask("d", asking("s"))
    net.run(net.now + 1.0)
    net.crash("a", silent=False)
    net.run(net.now + 1.0)
    net.start("a")
    net.run(net.now + 2.0)
    assert set(net.engines["a"].active_paths(0, "d")) == TWO, "others tell it what they heard"
    net.crash("d", silent=True)
    net.run(net.now + 1.0)
    net.start("d")
    net.run(net.now + 2.0)
    assert net.engines["a"].active_paths(0, "d") == [], "nobody has asked the new gateway yet"
    net.ask("d", asking("s"))
    net.run(net.now + 1.0)
    assert set(net.engines["a"].active_paths(0, "d")) == TWO
    net.validate()


def test_a_deadline_that_is_asked_for_moves_what_the_tables_would_send_too_slowly() -> None:
    rules = TopicRules((Contract(match="x", deadline_ms=500, limits=SessionLimits(deadline_ms=10)),))
    net = SimulatedOverlay(federation(*RING, topics=rules), seed=1)
    net.subscribe("d", "x")
    net.run(1.0)
    slow = net.link("b", "d")
    slow.delay_s = 0.1
    net.run(net.now + 12.0)
    assert net.engines["a"].active_paths(0, "d") == [], "the deadline of the contract is met"
    net.ask("d", AskRequest(session="s", subject="x", quality=Quality(deadline_ms=50)))
    net.run(net.now + 2.0)
    assert net.engines["a"].active_paths(0, "d") == [("a", "c", "d")]
    net.validate()


def test_a_resiliency_that_is_asked_for_is_kept_by_as_many_paths_as_it_needs() -> None:
    rules = TopicRules((Contract(match="x", limits=SessionLimits(resiliency=0.99)),))
    shape = federation(*RING, topics=rules)
    links = tuple(msgspec.structs.replace(link, failure_probability=0.05) for link in shape.links)
    net = SimulatedOverlay(msgspec.structs.replace(shape, links=links), seed=1)
    net.subscribe("d", "x")
    net.run(2.0)
    assert net.engines["a"].active_paths(0, "d") == []
    net.ask("d", AskRequest(session="s", subject="x", quality=Quality(resiliency=0.98)))
    net.run(net.now + 1.0)
    assert set(net.engines["a"].active_paths(0, "d")) == TWO, "one path is up with 0.9025, two with 0.9905"
    net.run(net.now + LEASE_S + 1.0)
    assert net.engines["a"].active_paths(0, "d") == []
    net.validate()


def test_asks_are_replayed() -> None:
    recorded: list[tuple[Stimulus, int]] = []
    net = SimulatedOverlay(
        federation(*RING, topics=PLAIN),
        seed=1,
        record={"d": lambda told, answer: recorded.append((told, answer))},
    )
    net.subscribe("d", "x")
    net.run(1.0)
    net.ask("d", asking("s"))
    with pytest.raises(AskRefusedError, match="beyond"):
        net.ask("d", AskRequest(session="s", subject="x", quality=Quality(paths=9)))
    net.run(net.now + LEASE_S + 1.0)
    written = [msgspec.msgpack.encode(each) for each in recorded]
    recorded = [msgspec.msgpack.decode(each, type=tuple[Stimulus, int]) for each in written]
    again = replay(OverlayEngine(net.federation, "d", net.engines["d"].epoch), recorded)
    assert again.identical, again.differences
    assert again.stimuli["SessionAsked"] == 2
