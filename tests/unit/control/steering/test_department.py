"""Agents of two linked domains in virtual time: who is led where, and who is called back."""

from __future__ import annotations

import msgspec
import pytest

from mangrove.control.events.steering_happenings import (
    GuestsRecalled,
    SteeringDecided,
    SteeringRefused,
    SubscribersSteered,
)
from mangrove.control.steering.department import TOPICS_A_LOOK
from mangrove.control.stimuli import OperatorAsked
from mangrove.evaluation.steering.trial import Playing
from mangrove.evaluation.steering.workload import Setting, Subscriber, Topic, Workload
from mangrove.model.agents.directory import DirectoryQuestion, ServedTopic
from mangrove.model.agents.operations import PauseAsked
from mangrove.model.agents.peers import AdmissionTold, PeerMessage
from mangrove.model.events.happening import Happening

HERE, THERE = "here", "there"


def two(
    *subscribers: Subscriber, rate: float = 50.0, capacity_msg_s: float = 600.0, here: tuple[str, ...] = ()
) -> Playing:
    """`t` is published in one domain, 2 ms away from the other, where subscribers register, and those of
    `here` are."""
    workload = Workload(
        seed=2,
        setting=Setting(domains=2, edges=1, capacity_msg_s=capacity_msg_s),
        places={HERE: (0.0, 0.0), THERE: (400.0, 0.0)},
        links=((HERE, THERE),),
        topics=(Topic("t", THERE, rate), *(Topic(name, HERE, 0.01) for name in here)),
        subscribers=subscribers,
    )
    playing = Playing(workload, steer=True)
    playing.start()
    return playing


def near(name: str, at_s: float = 5.0) -> Subscriber:
    return Subscriber(name, HERE, THERE, "t", at_s)


def happenings(playing: Playing, kind: type[Happening]) -> list[Happening]:
    return [each.happening for each in playing.domains[HERE].events if isinstance(each.happening, kind)]


def directory(playing: Playing) -> ServedTopic:
    brain = playing.domains[HERE].brain
    assert brain is not None
    (found,) = brain.directory_page(DirectoryQuestion(topic="t"), playing.world.now).topics
    return found


def test_who_comes_a_little_later_goes_the_same_way_and_the_directory_tells_why() -> None:
    ones = near("c1"), near("c2", 5.5)
    playing = two(*ones)
    playing.world.run(20.0)
    assert [playing.served_in(each) for each in ones] == [THERE, THERE]
    for decided in happenings(playing, SteeringDecided):
        assert isinstance(decided, SteeringDecided)
        assert (decided.clients, decided.home_crossings, decided.crossings) == (1, 1, 0)
        assert decided.slack_ms == decided.home_ms == 2.0
    for told in happenings(playing, SubscribersSteered):
        assert isinstance(told, SubscribersSteered)
        assert (told.moved, told.stayed) == (1, {})
    found = directory(playing)
    assert found.elsewhere == {"there-edge1": 2}
    assert found.steering == "led to there: its messages cross 0 links to there and 1 to here, in 0 and 2 ms"
    assert found.steered_by == "here-agent-" + found.steered_by.rpartition("-")[2]


def test_who_is_far_stays_and_so_does_who_comes_after_him() -> None:
    """What comes home for one in any case spares no link if another goes."""
    far = Subscriber("c1", HERE, HERE, "t", 5.0)
    late = near("c2", 30.0)
    playing = two(far, late)
    playing.world.run(25.0)
    assert playing.served_in(far) == HERE
    assert directory(playing).steering == "at home: it is too far"
    playing.world.run(45.0)
    assert playing.served_in(late) == HERE
    assert directory(playing).steering == "at home: others here have it in any case"
    assert len(happenings(playing, SteeringDecided)) == 1


def test_nobody_is_led_to_an_edge_that_would_lose_its_reserve() -> None:
    playing = two(near("c1"), rate=500.0)
    playing.world.run(80.0)
    assert playing.served_in(near("c1")) == HERE
    refused = happenings(playing, SteeringRefused)
    assert 0 < len(refused) <= 3, "a domain that takes nothing is left alone for a while"


@pytest.mark.parametrize("lie", [{"url": "nats://[there"}, {"management_url": "nats://there:99999"}])
def test_nobody_is_led_to_what_is_no_place(monkeypatch: pytest.MonkeyPatch, lie: dict[str, str]) -> None:
    playing = two(near("c1"))
    domain = playing.domains[HERE]
    listen = domain.tell_from

    def tell_from(peer: str, message: PeerMessage) -> None:
        if isinstance(message, AdmissionTold):
            urls = {topic: (broker, lie.get("url", url)) for topic, (broker, url) in message.urls.items()}
            management_url = lie.get("management_url", message.management_url)
            message = msgspec.structs.replace(message, urls=urls, management_url=management_url)
        listen(peer, message)

    monkeypatch.setattr(domain, "tell_from", tell_from)
    playing.world.run(15.0)
    assert playing.served_in(near("c1")) == HERE
    (refused,) = happenings(playing, SteeringRefused)
    assert isinstance(refused, SteeringRefused)
    assert refused.why == "it gives no URL that clients can connect to"


def test_who_was_led_to_a_domain_that_is_overloaded_comes_home_for_good() -> None:
    playing = two(near("c1"))
    playing.world.run(20.0)
    assert playing.served_in(near("c1")) == THERE
    playing.traffic.set_rate("t", 5000.0)
    playing.world.run(45.0)
    assert playing.served_in(near("c1")) == HERE
    (recalled,) = happenings(playing, GuestsRecalled)
    assert isinstance(recalled, GuestsRecalled)
    assert (recalled.domain, recalled.topics, recalled.clients) == (THERE, ("t",), 1)
    playing.traffic.set_rate("t", 50.0)
    playing.world.run(150.0)
    assert playing.served_in(near("c1")) == HERE
    assert len(happenings(playing, SteeringDecided)) == 1


def test_nobody_is_led_anywhere_while_decisions_are_paused() -> None:
    playing = two(near("c1"))
    playing.world.run(4.0)
    playing.domains[HERE].tell(OperatorAsked(PauseAsked(paused=True, by="test"), 1))
    playing.world.run(80.0)
    assert playing.served_in(near("c1")) == HERE
    assert happenings(playing, SteeringDecided) == []


def test_an_agent_that_dies_on_the_way_leaves_nobody_in_doubt() -> None:
    """Whatever instruction was its last, the client is served somewhere, and a new agent knows where."""
    for step in range(12):
        playing = two(near("c1"))
        playing.world.run(6.9)
        playing.domains[HERE].die_after = step
        playing.world.run(60.0)
        where = playing.served_in(near("c1"))
        brain = playing.domains[HERE].brain
        assert brain is not None
        assert brain.problems() == []
        found = directory(playing)
        assert (found.elsewhere == {"there-edge1": 1}) == (where == THERE)
        assert msgspec.to_builtins(found)


def test_those_who_stay_take_no_look_from_those_who_come_behind_them() -> None:
    """More new topics than are looked at at a time, of which the first stay at home: all have their turn."""
    staying = [Subscriber(f"s{number}", HERE, HERE, f"u{number}", 5.0) for number in range(2 * TOPICS_A_LOOK)]
    last = near("last", 5.5)
    playing = two(*staying, last, here=tuple(each.topic for each in staying))
    playing.world.run(40.0)
    assert playing.served_in(last) == THERE
    assert {playing.served_in(each) for each in staying} == {HERE}
