"""What clients report becomes bundles with exact relief and cost; what cannot be right is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mangrove.control.offloading.problem import Acceptor, Audience, Bundle, cost_at
from mangrove.control.profile.audiences import audience_of, class_name
from mangrove.control.profile.bundles import publisher_relief
from mangrove.control.profile.profile import LoadProfile
from mangrove.control.stimuli import PlainClient, PlainClientsSeen
from mangrove.model.agents.load import UNLIMITED, Amounts, BrokerLoad, LoadState
from mangrove.model.agents.registration import ClientRole, Report, Traffic, Wish
from mangrove.model.balancing import Balancing
from mangrove.model.topics import Contract, TopicRules

PUB, SUB = ClientRole.PUBLISHER, ClientRole.SUBSCRIBER


class Domain:
    """A profile, with clients that say what they carry."""

    def __init__(self, rules: TopicRules | None = None, **parameters: Any) -> None:
        self.profile = LoadProfile(Balancing(**parameters), rules or TopicRules())
        self.sequence = 0

    def subscribe(self, client: str, subject: str, broker: str = "e1", key: str = "", **other: Any) -> None:
        wish = Wish(key=key or subject, role=SUB, subject=subject, **other)
        assert self.profile.place(client, wish, broker)

    def publish(self, client: str, subject: str, broker: str = "head", **other: Any) -> None:
        assert self.profile.place(client, Wish(key=subject, role=PUB, subject=subject, **other), broker)

    def report(
        self,
        client: str,
        received: dict[str, tuple[int, int]] | None = None,
        published: dict[str, tuple[int, int]] | None = None,
        span_s: float = 1.0,
    ) -> str:
        self.sequence += 1
        return self.profile.report(
            Report(
                client=client,
                sequence=self.sequence,
                span_s=span_s,
                received={key: Traffic(*each) for key, each in (received or {}).items()},
                published={key: Traffic(*each) for key, each in (published or {}).items()},
            )
        )

    def bundles(self, broker: str = "e1", **other: Any) -> dict[str, Bundle]:
        found = self.profile.subscribers(broker, lambda _: Audience.LOCAL, **other)
        return {bundle.topic: bundle for bundle in found}

    def published(self, audience: Audience, fed: int) -> Bundle:
        (bundle,) = self.profile.publishers("head", lambda _: audience, lambda _: fed)
        return bundle


def measured(bytes_out_s: float = 0.0, bytes_in_s: float = 0.0) -> BrokerLoad:
    low = LoadState.LOW
    return BrokerLoad(
        broker="e1", role="edge", state=low, measured=low, bytes_out_s=bytes_out_s, bytes_in_s=bytes_in_s
    )


def test_a_topic_comes_in_once_and_goes_out_to_each() -> None:
    domain = Domain()
    for client, received in (("c1", (100, 10_000)), ("c2", (90, 9_000)), ("c3", (100, 10_500))):
        domain.subscribe(client, "t")
        domain.report(client, {"t": received})
    bundle = domain.bundles()["t"]
    assert bundle.load == Amounts(10_500, 29_500, 100)
    assert bundle.stream == Amounts(10_500, 0, 100)
    assert bundle.output == 29_500
    assert {(each.client, each.key): each.load for each in bundle.members} == {
        ("c1", "t"): Amounts(0, 10_000, 0),
        ("c2", "t"): Amounts(0, 9_000, 0),
        ("c3", "t"): Amounts(0, 10_500, 0),
    }


def test_what_an_acceptor_pays_depends_on_what_it_serves() -> None:
    domain = Domain()
    domain.subscribe("c1", "t")
    domain.report("c1", {"t": (100, 10_000)})
    bundle = domain.bundles()["t"]
    new = Acceptor("e2", "d", UNLIMITED, 0.9)
    serving = Acceptor("e2", "d", UNLIMITED, 0.9, frozenset({"t"}))
    assert cost_at(new, bundle) == bundle.load
    assert cost_at(serving, bundle) == Amounts(0, 10_000, 0)


def test_rates_are_smoothed_like_loads() -> None:
    domain = Domain()
    domain.subscribe("c1", "t")
    domain.report("c1", {"t": (100, 1000)})
    assert domain.profile.rate("c1", "t") == (100, 1000)
    domain.report("c1", {"t": (400, 8000)}, span_s=2.0)
    assert domain.profile.rate("c1", "t") == (200, 4000), "two seconds fill the window"
    domain.report("c1", {"t": (300, 3000)})
    assert domain.profile.rate("c1", "t") == pytest.approx((0.3 * 200 + 0.7 * 300, 0.3 * 4000 + 0.7 * 3000))


def test_what_a_report_leaves_out_was_silent() -> None:
    domain = Domain(window=3)
    domain.subscribe("c1", "t")
    domain.subscribe("c1", "u")
    domain.report("c1", {"t": (60, 600), "u": (1, 1)})
    domain.report("c1", {"u": (1, 1)})
    assert domain.profile.rate("c1", "t") == pytest.approx((60 * 2 / 5, 600 * 2 / 5))
    domain.report("c1", {"t": (60, 600)})
    assert domain.profile.rate("c1", "t") == pytest.approx((60 * 4 / 6, 600 * 4 / 6))
    domain.report("c1", {}, span_s=5.0)
    assert domain.profile.rate("c1", "t") == (0, 0)
    assert domain.bundles() == {}, "what carries nothing frees nothing"


def test_a_client_that_is_there_longer_than_a_subscription_does_not_thin_it_out() -> None:
    domain = Domain()
    domain.subscribe("c1", "old")
    for _ in range(5):
        domain.report("c1", {"old": (1, 1)})
    domain.subscribe("c1", "new")
    domain.report("c1", {"new": (50, 500)})
    assert domain.profile.rate("c1", "new") == (50, 500)


def test_queue_groups_share_a_stream_and_stay() -> None:
    domain = Domain()
    for client, group in (("c1", "g"), ("c2", "g"), ("c3", "h")):
        domain.subscribe(client, "t", queue=group)
        domain.report(client, {"t": (50, 5000)})
    assert domain.bundles() == {}
    domain.subscribe("c4", "t")
    domain.report("c4", {"t": (80, 8000)})
    bundle = domain.bundles()["t"]
    # the group g sees 100 messages a second, and goes on to do so here
    assert bundle.load == Amounts(0, 8000, 0)
    assert bundle.stream == Amounts(10_000, 0, 100)
    assert [member.client for member in bundle.members] == ["c4"]


def test_a_subscription_that_cannot_move_keeps_the_stream() -> None:
    domain = Domain()
    domain.subscribe("c1", "t", movable=False)
    domain.subscribe("c2", "t")
    for client in ("c1", "c2"):
        domain.report(client, {"t": (100, 1000)})
    bundle = domain.bundles()["t"]
    assert bundle.load == Amounts(0, 1000, 0)
    assert bundle.stream == Amounts(1000, 0, 100)


def test_a_topic_under_a_wider_pattern_frees_output_alone() -> None:
    domain = Domain()
    received = {"a.b": (10, 1000), "a.>": (50, 5000), "x": (7, 700)}
    for subject in received:
        domain.subscribe("c1", subject)
    domain.report("c1", received)
    bundles = domain.bundles()
    assert bundles["a.b"].load.matching == bundles["a.b"].load.input == 0
    # the wider one frees what the narrower does not go on to need
    assert bundles["a.>"].load.matching == pytest.approx(40)
    assert bundles["a.>"].load.input == pytest.approx(4000)
    assert bundles["a.>"].stream == Amounts(5000, 0, 50)
    assert bundles["x"].load == Amounts(700, 700, 7)


def test_the_strictest_delay_requirement_holds_for_all() -> None:
    rules = TopicRules((Contract(match="fast.>", deadline_ms=50), Contract(match="*.slow", deadline_ms=9000)))
    domain = Domain(rules)
    for client, subject, own in (
        ("c1", "fast.x", None),
        ("c2", "a.slow", None),
        ("c3", "a.slow", 700.0),
        ("c4", "none", None),
        ("c5", "*.slow", None),
        ("c6", "fast.y", 8000.0),
    ):
        domain.subscribe(client, subject, deadline_ms=own)
        domain.report(client, {subject: (1, 1)})
    deadlines = {topic: bundle.deadline_s for topic, bundle in domain.bundles().items()}
    assert deadlines == {
        "fast.x": 0.05,
        "a.slow": 0.7,
        "none": math.inf,
        "*.slow": 0.05,  # some of its subjects fall under the first contract
        "fast.y": 8.0,  # the client's own word is stronger
    }


@pytest.mark.parametrize(
    ("audience", "relief", "output"),
    [
        (Audience.NONE, Amounts(1000, 0, 10), 0),
        (Audience.REMOTE, Amounts(1000, 3000, 10), 3000),
        (Audience.BOTH, Amounts(0, 3000, 0), 4000),
        (Audience.LOCAL, Amounts(0, 0, 0), 1000),
    ],
)
def test_publishers_free_what_does_not_come_back(audience: Audience, relief: Amounts, output: float) -> None:
    domain = Domain()
    for client in ("p1", "p2"):
        domain.publish(client, "t")
        domain.report(client, published={"t": (5, 500)})
    domain.publish("p3", "t", movable=False)
    domain.report("p3", published={"t": (7, 700)})
    bundle = domain.published(audience, fed=3)
    assert (bundle.load, bundle.output, bundle.audience) == (relief, output, audience)
    assert bundle.stream == Amounts(1000, 0, 10)
    halves = {publisher_relief(audience, 3, 5, 500)}
    assert {member.load for member in bundle.members} == halves
    assert {member.client for member in bundle.members} == {"p1", "p2"}
    assert domain.bundles("head") == {}, "publishers are no subscribers"


def test_classes_have_the_names_of_the_tables() -> None:
    names = [
        class_name(audience_of(local=local, remote=remote), publishers=publishers)
        for publishers in (True, False)
        for remote, local in ((True, False), (False, True), (True, True), (False, False))
    ]
    assert names == ["Pr", "Pl", "Pr-l", "Pn", "Sr", "Sl", "Sr-l", "Sn"]


def test_a_moved_wish_takes_its_traffic_along() -> None:
    domain = Domain()
    domain.subscribe("c1", "t")
    domain.report("c1", {"t": (100, 1000)})
    assert domain.profile.moved("c1", "t", "e2")
    assert (domain.bundles("e1"), set(domain.profile.topics("e1"))) == ({}, set())
    assert domain.bundles("e2")["t"].output == 1000
    assert set(domain.profile.topics("e2")) == {"t"}
    assert not domain.profile.moved("c1", "u", "e2")
    assert not domain.profile.moved("c9", "t", "e2")


def test_a_wish_registered_again_keeps_its_traffic_and_a_changed_one_does_not() -> None:
    domain = Domain()
    domain.subscribe("c1", "t", key="1")
    domain.report("c1", {"1": (100, 1000)})
    domain.subscribe("c1", "t", key="1", deadline_ms=20.0)
    assert domain.bundles()["t"].deadline_s == 0.02
    domain.subscribe("c1", "u", key="1")
    assert domain.bundles() == {}
    assert (len(domain.profile), set(domain.profile.topics("e1"))) == (1, {"u"})


def test_clients_that_leave_are_forgotten() -> None:
    domain = Domain()
    domain.subscribe("c1", "t")
    domain.subscribe("c1", "u")
    domain.publish("c1", "p")
    domain.subscribe("c2", "t")
    domain.profile.leave("c1")
    domain.profile.leave("nobody")
    assert (len(domain.profile), set(domain.profile.topics("e1"))) == (1, {"t"})
    domain.profile.end("c2", "t")
    domain.profile.end("c2", "t")
    assert (len(domain.profile), set(domain.profile.topics("e1"))) == (0, set())


def test_a_full_profile_refuses_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mangrove.control.profile.profile.MAX_STREAMS", 2)
    domain = Domain()
    domain.subscribe("c1", "t")
    domain.subscribe("c1", "u")
    assert not domain.profile.place("c2", Wish(key="t", role=SUB, subject="t"), "e1")
    domain.subscribe("c1", "t", "e2")
    assert domain.profile.refused == {"profile is full": 1}


@pytest.mark.parametrize(
    ("received", "span_s", "reason"),
    [
        ({"t": (-1, 10)}, 1.0, "negative"),
        ({"t": (1, -10)}, 1.0, "negative"),
        ({"t": (0, 10)}, 1.0, "impossible"),
        ({"t": (1, 10**12)}, 1.0, "impossible"),
        ({"t": (10**10, 10**10)}, 1.0, "impossible"),
        ({"t": (1, 6 * 10**10), "u": (1, 6 * 10**10)}, 1.0, "impossible"),
        ({"t": (math.nan, 10)}, 1.0, "not a number"),
        ({"t": (1, 10)}, math.nan, "impossible span"),
        ({"t": (1, 10)}, math.inf, "impossible span"),
        ({"t": (1, 10)}, 0.0, "impossible span"),
        ({"t": (1, 10)}, -1.0, "impossible span"),
        ({"t": (1, 10)}, 61.0, "impossible span"),
    ],
)
def test_impossible_reports_are_refused_as_a_whole(
    received: dict[str, tuple[int, int]], span_s: float, reason: str
) -> None:
    domain = Domain()
    domain.subscribe("c1", "t")
    domain.subscribe("c1", "u")
    domain.report("c1", {"t": (100, 1000), "u": (1, 1)})
    before = domain.bundles()
    assert domain.report("c1", received, span_s=span_s) == reason
    assert domain.report("c1", published=received, span_s=span_s) == reason
    assert domain.bundles() == before
    assert domain.profile.refused == {reason: 2}


def test_reports_of_strangers_and_old_ones_are_refused() -> None:
    domain = Domain()
    domain.subscribe("c1", "t")
    domain.report("c1", {"t": (100, 1000)})
    domain.sequence -= 1
    assert domain.report("c1", {"t": (900, 9000)}) == "stale"
    assert domain.report("c9", {"t": (900, 9000)}) == "not registered"
    assert domain.report("c9") == "", "who has no wishes has nothing to report"
    assert domain.report("c1", {"z": (900, 9000), "t": (200, 2000)}) == ""
    assert domain.profile.rate("c1", "t") == pytest.approx((170, 1700))
    assert domain.profile.refused == {"stale": 1, "not registered": 2}


def test_who_reports_more_than_the_broker_sent_stays_and_moves_nobody() -> None:
    domain = Domain()
    for client, size in (("honest", 1_000_000), ("liar", 9_000_000)):
        domain.subscribe(client, "t")
        domain.subscribe(client, client)
        domain.report(client, {"t": (100, size), client: (100, size)})
    bundles = domain.bundles(measured=measured(bytes_out_s=4_000_000))
    assert set(bundles) == {"t", "honest"}
    assert [member.client for member in bundles["t"].members] == ["honest"]
    assert bundles["t"].load == Amounts(0, 1_000_000, 0)
    assert domain.profile.refused == {"more than its broker carried": 2}


@pytest.mark.parametrize(
    ("sent", "output"),
    [(3_000_000, 1_000_000), (2_000_000, 1_000_000), (1_600_000, 800_000), (900_000, 750_000)],
)
def test_what_the_broker_counted_is_stronger_than_what_clients_add_up_to(sent: float, output: float) -> None:
    domain = Domain()
    for client in ("c1", "c2"):
        domain.subscribe(client, client)
        domain.report(client, {client: (100, 1_000_000)})
    for bundle in domain.bundles(measured=measured(bytes_out_s=sent)).values():
        assert bundle.load == Amounts(output, output, 100)
    assert domain.bundles()["c1"].output == 1_000_000, "without a measurement, reports are all there is"
    assert domain.bundles(measured=measured())["c1"].output == 1_000_000


def test_plain_clients_are_read_from_two_looks_and_keep_what_they_have() -> None:
    domain = Domain()
    for topic in ("t", "u.v"):
        domain.subscribe("c1", topic)
    domain.report("c1", {"t": (100, 1000), "u.v": (10, 100)})

    def look(*clients: PlainClient) -> None:
        domain.profile.plain_clients_seen(PlainClientsSeen("e1", clients), look_at)

    look_at = 100.0
    look(PlainClient(7, "old", (("u.>", 1000),), 50_000, 0), PlainClient(8, "odd", (("x", -1),), 0, 0))
    assert [(load.cid, load.bytes_s) for load in domain.profile.plain_clients("e1")] == [(7, 0)]
    assert domain.profile.refused == {"plain client": 1}
    assert domain.bundles()["u.v"].load == Amounts(0, 100, 0), "the pattern of the plain client pulls it in"
    look_at = 110.0
    look(
        PlainClient(7, "old", (("u.>", 2000), ("w", 1000)), 250_000, 0),
        PlainClient(9, "new", (("t", 10**6),), 10**9, 0),
    )
    first, second = domain.profile.plain_clients("e1")
    assert (first.cid, first.messages_s, first.bytes_s) == (7, 200, 20_000)
    assert first.patterns == {"u.>": (100, 10_000), "w": (100, 10_000)}
    assert (second.cid, second.bytes_s) == (9, 0)
    assert domain.bundles()["t"].load == Amounts(0, 1000, 0)
    look_at = 120.0
    look(PlainClient(7, "old", (("u.>", 5),), 100, 0))
    assert [load.bytes_s for load in domain.profile.plain_clients("e1")] == [0], "its counters fell"
    assert domain.bundles()["t"].load == Amounts(1000, 1000, 100)
    assert domain.profile.plain_clients("e2") == ()
