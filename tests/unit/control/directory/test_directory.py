"""Records are of later and later epochs, told and stored in lots; publishers follow their audience."""

from __future__ import annotations

from mangrove.control.clients.placements import Placements, Served
from mangrove.control.directory.directory import Directory
from mangrove.control.directory.publish_places import STAY_S, STEADY_S, PublishPlaces
from mangrove.control.site import Site
from mangrove.model.agents.directory import DirectoryRecord
from mangrove.model.agents.registration import ClientRole, Wish
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.events.event_log import EventLog
from mangrove.model.federation import Domain, Edge, Federation


def test_what_is_of_an_older_epoch_or_another_domain_is_ignored() -> None:
    directory = Directory("oslo")
    records = [
        DirectoryRecord(topic="a", domain="oslo", epoch=9, edges=("e1",)),
        DirectoryRecord(topic="a", domain="oslo", epoch=8, edges=("e2",)),
        DirectoryRecord(topic="b", domain="bonn", epoch=9, edges=("e1",)),
        DirectoryRecord(topic="c", domain="oslo", epoch=9),
        DirectoryRecord(topic="d", domain="oslo", epoch=5 << 32, edges=("e1",)),
    ]
    directory.begin(4, records)
    assert directory.edges("a") == ("e1",)
    assert len(directory) == 1
    assert directory.ignored == 3


def test_every_decision_is_later_than_those_before_it() -> None:
    directory = Directory("oslo")
    directory.begin(2, [DirectoryRecord(topic="a", domain="oslo", epoch=(1 << 32) + 99, edges=("e1",))])
    first = directory.decide("a", edges=("e2",), decision="x", since=0.0)
    assert first is not None
    assert first.epoch == (2 << 32) + 1
    assert directory.decide("a", edges=("e2",), decision="x", since=0.0) is None
    assert directory.epoch("unknown") >= first.epoch
    directory.renew("a", "y", 1.0)
    assert directory.epoch("a") > first.epoch
    withdrawn = directory.decide("a", edges=(), decision="z", since=0.0)
    assert withdrawn is not None
    assert withdrawn.epoch > first.epoch
    assert directory.get("a") is None
    assert directory.epoch("a") >= withdrawn.epoch, "what is said later of it is not older"


def test_only_the_last_record_of_a_topic_is_told_and_stored() -> None:
    directory = Directory("oslo")
    directory.begin(1, ())
    directory.decide("a", edges=("e1",), decision="", since=0.0)
    taken = directory.take_unstored(10)
    directory.decide("a", edges=("e2",), decision="", since=0.0)
    directory.store_again(taken)
    (record,) = directory.take_unstored(10)
    assert record.edges == ("e2",)
    assert [each.edges for each in directory.take_untold(10)] == [("e2",)]
    assert not directory.unstored


class Places:
    """A domain of two edges whose publishers follow their audience."""

    def __init__(self) -> None:
        domain = Domain(name="oslo", base_port=4000, edges=(Edge(), Edge()))
        self.site = Site(Federation(name="f", domains={"oslo": domain}), fixed_endpoints(domain))
        self.placements = Placements()
        self.directory = Directory("oslo")
        self.directory.begin(1, ())
        self.elsewhere = False
        self.log = EventLog("oslo-agent")
        self.places = PublishPlaces(
            self.site, self.placements, self.directory, self.log, lambda _: self.elsewhere, 0.0
        )
        self.publisher = Served("p", Wish(key="p", role=ClientRole.PUBLISHER, subject="a.b"), "oslo-head")
        self.placements.add(self.publisher)
        self.places.published(["a.b"], 0.0)

    def subscriber(self, client: str, pattern: str, broker: str) -> Served:
        served = Served(client, Wish(key="s", role=ClientRole.SUBSCRIBER, subject=pattern), broker)
        self.placements.add(served)
        self.places.subscribed(pattern)
        return served

    def after(self, seconds: float) -> str:
        while self.places.timer() <= seconds:
            self.places.handle_timer(self.places.timer())
        return self.directory.publish_at("a.b")


def test_a_topic_of_one_edge_is_published_there_after_a_while() -> None:
    case = Places()
    case.subscriber("c1", "a.*", "oslo-edge2")
    assert case.after(STEADY_S) == ""
    assert case.after(STEADY_S + 2.0) == "oslo-edge2"
    (event,) = case.log.take()
    assert event.happening.sentence() == "a.b is published at oslo-edge2: all its subscribers are there"


def test_it_returns_to_the_head_when_others_want_it_and_does_not_flap() -> None:
    case = Places()
    case.subscriber("c1", "a.b", "oslo-edge2")
    assert case.after(15.0) == "oslo-edge2"
    case.elsewhere = True
    assert case.after(30.0) == "oslo-edge2", "it was moved a moment ago"
    assert case.after(15.0 + STAY_S + STEADY_S) == ""
    case.elsewhere = False
    second = case.subscriber("c2", ">", "oslo-edge1")
    assert case.after(150.0) == ""
    case.placements.remove(second)
    case.places.subscribed(">")
    assert case.after(200.0) == "oslo-edge2"


def test_nobody_publishes_it_any_more() -> None:
    case = Places()
    case.subscriber("c1", "a.b", "oslo-edge2")
    assert case.after(15.0) == "oslo-edge2"
    case.placements.remove(case.publisher)
    assert case.after(20.0) == ""
    assert case.places.timer() == float("inf")
