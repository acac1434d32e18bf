"""Advertisements: who is told what, when it is withdrawn, and what is not believed."""

from __future__ import annotations

import pytest
from tests.kit.engines import federation
from tests.kit.peers import WALL_S, SimulatedPeers

from mangrove.control import advertising as limits
from mangrove.control.advertisements import claims as kept
from mangrove.control.advertisements.local_topics import COUNT_LEASE_S
from mangrove.control.advertisements.outbox import MESSAGES_A_SECOND
from mangrove.control.advertising import EPOCH_BITS, Advertising
from mangrove.control.instructions import Instruction, TellPeer
from mangrove.control.offloading.problem import Audience
from mangrove.model.agents.peers import (
    BUCKETS,
    MAX_TOPICS_A_MESSAGE,
    Advertise,
    AdvertisedBuckets,
    AdvertisedDigest,
    Advertisement,
)
from mangrove.model.topics import Contract, Scope, TopicRules

LINE = federation(("a", "b"), ("b", "c"))
HOME = TopicRules((Contract(match="plant.>", scope=Scope.DOMAIN),))
EPOCH = int(WALL_S) << EPOCH_BITS
BEAT = int(WALL_S * 1000)


def middle() -> Advertising:
    """The advertisements of b, in the line a - b - c, with both neighbours online."""
    shape = federation(("a", "b"), ("b", "c"), topics=HOME)
    made = Advertising(shape, "b", clock_shift_s=WALL_S, now=0.0)
    for peer in "ac":
        made.neighbour_online(peer, 0.0, restarted=True)
    return made


def told(instructions: list[Instruction]) -> dict[str, list[Advertisement]]:
    """What each neighbour is told of topics."""
    heard: dict[str, list[Advertisement]] = {}
    for each in instructions:
        if isinstance(each, TellPeer) and isinstance(each.message, Advertise):
            heard.setdefault(each.peer, []).extend(each.message.topics)
    return heard


def claim(topic: str, source: str, epoch: int = EPOCH, published: bool = True) -> Advertise:
    return Advertise(topics=(Advertisement(topic, source, epoch, published),), beats={source: BEAT})


def test_confidential_topics_are_known_at_home_and_told_to_nobody() -> None:
    rules = TopicRules((Contract(match="secret.>", confidential=True),))
    b = Advertising(federation(("a", "b"), ("b", "c"), topics=rules), "b", clock_shift_s=WALL_S, now=0.0)
    for peer in "ac":
        b.neighbour_online(peer, 0.0, restarted=True)
    assert not told(b.set_publishers({"secret.x": 1}, 1.0))
    assert not told(b.counted({"secret.x": 5, "secret.y": 5}, 2.0))
    assert not b.refused
    found = told(b.counted({"open": 5}, 3.0))
    assert [(peer, each.topic) for peer in found for each in found[peer]] == [("a", "open"), ("c", "open")]
    assert not told(b.handle("a", claim("secret.z", "a"), 4.0))
    assert b.refused == {"about a topic that is confidential": 1}


def test_erratum_a1_the_advertisement_of_a_second_source_passes_through() -> None:
    """Line a - b - c: as printed, b would not pass on to a what c publishes, since a publishes it as well."""
    b = middle()
    assert told(b.handle("a", claim("t", "a"), 1.0)) == {"c": [Advertisement("t", "a", EPOCH)]}
    assert told(b.handle("c", claim("t", "c"), 2.0)) == {"a": [Advertisement("t", "c", EPOCH)]}
    assert [each.source for each in b.publishers_of("t")] == ["a", "c"]


def test_erratum_a2_the_true_source_travels_and_not_the_last_forwarder() -> None:
    net = SimulatedPeers(LINE, seed=1)
    net.run(1.0)
    net.publish("a", "t")
    net.run(1.0)
    (known,) = net.peers["c"].advertising.publishers_of("t")
    assert (known.source, known.by) == ("a", "b")


def test_erratum_a4_a_withdrawal_reaches_all() -> None:
    net = SimulatedPeers(LINE, seed=1)
    net.run(1.0)
    net.publish("a", "t")
    net.run(1.0)
    assert all(peer.table() == {("t", "a")} for peer in net.peers.values())
    net.publish("a", "t", wanted=False)
    net.run(1.0)
    assert all(not peer.table() for peer in net.peers.values())


def test_erratum_a4_who_joins_late_learns_all() -> None:
    net = SimulatedPeers(LINE, seed=1)
    net.stop("c")
    net.publish("a", "t")
    net.run(30.0)
    net.start("c")
    net.run(3.0)
    assert net.peers["c"].table() == {("t", "a")}


def test_erratum_a4_what_a_dead_source_published_is_forgotten_and_stays_so() -> None:
    net = SimulatedPeers(federation(("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")), seed=1)
    net.publish("d", "t")
    net.run(20.0)
    assert net.peers["a"].table() == {("t", "d")}
    net.stop("d")
    net.run(40.0)
    assert net.peers["a"].table() == {("t", "d")}, "an agent that restarts withdraws nothing"
    net.run(60.0)
    assert all(not peer.table() for peer in net.peers.values())
    net.start("d")
    net.run(15.0)
    assert net.peers["a"].table() == {("t", "d")}


def test_the_same_claim_on_another_way_is_dropped_and_not_told_back() -> None:
    b = middle()
    b.handle("a", claim("t", "a"), 1.0)
    assert not told(b.handle("c", claim("t", "a"), 2.0))
    assert not told(b.handle("a", claim("t", "a"), 3.0))


def test_a_withdrawal_is_not_undone_by_an_older_claim_on_a_slower_way() -> None:
    b = middle()
    b.handle("a", claim("t", "a"), 1.0)
    b.handle("a", claim("t", "a", EPOCH + 1, published=False), 2.0)
    answer = told(b.handle("c", claim("t", "a"), 3.0))
    assert not b.publishers_of("t")
    assert answer["c"] == [Advertisement("t", "a", EPOCH + 1, False)], "who is behind is put right"


def test_in_one_epoch_the_withdrawal_counts() -> None:
    b = middle()
    b.handle("a", claim("t", "a"), 1.0)
    b.handle("a", claim("t", "a", published=False), 2.0)
    b.handle("a", claim("t", "a"), 3.0)
    assert not b.publishers_of("t")


def test_a_claim_about_this_domain_that_is_not_so_is_contradicted() -> None:
    b = middle()
    answer = told(b.handle("a", claim("t", "b", EPOCH + 5), 100.0))
    assert [(each.topic, each.published) for each in answer["a"]] == [("t", False)]
    assert answer["a"][0].epoch > EPOCH + 5
    assert not b.problems()


def test_a_source_that_restarts_with_its_clock_behind_can_withdraw() -> None:
    net = SimulatedPeers(LINE, seed=1)
    net.publish("a", "t")
    net.run(20.0)
    net.shift["a"] = WALL_S - 3600.0
    net.start("a")
    net.run(30.0)
    net.publish("a", "t", wanted=False)
    net.run(2.0)
    assert all(not peer.table() for peer in net.peers.values())


def test_after_a_restart_publications_stand_until_their_publishers_are_back() -> None:
    b = middle()
    assert "a" not in told(b.handle("a", claim("t", "b", EPOCH - 5), 1.0))
    assert b.publishers_of("t")[0].by == "neighbours"
    assert not told(b.set_publishers({"t": 1}, 10.0)), "nothing has changed for the others"
    assert not told(b.handle_timer(60.0))
    b.handle("a", claim("u", "b", EPOCH - 5), 20.0)
    assert [each.source for each in b.publishers_of("t")] == ["b"]


def test_what_nobody_publishes_any_more_after_a_restart_is_withdrawn() -> None:
    b = middle()
    b.handle("a", claim("t", "b", EPOCH - 5), 1.0)
    assert b.publishers_of("t")
    withdrawn = told(b.handle_timer(60.0))["a"]
    assert [(each.topic, each.published) for each in withdrawn] == [("t", False)]


def test_plain_clients_publish_for_as_long_as_they_are_counted() -> None:
    b = middle()
    assert told(b.counted({"t": 5}, 1.0)).keys() == {"a", "c"}
    assert b.wanted_elsewhere("t")
    assert not told(b.counted({"t": 1}, 30.0))
    b.handle_timer(30.0 + COUNT_LEASE_S - 0.1)
    assert b.publishers_of("t")[0].by == "gateway"
    b.handle_timer(30.0 + COUNT_LEASE_S)
    assert not b.publishers_of("t")
    assert not b.wanted_elsewhere("t")


def test_what_an_sdk_client_publishes_too_stays_when_counts_cease() -> None:
    b = middle()
    b.set_publishers({"t": 2}, 1.0)
    b.counted({"t": 5}, 1.0)
    b.handle_timer(1.0 + COUNT_LEASE_S)
    (known,) = b.publishers_of("t")
    assert (known.by, known.publishers) == ("sdk", 2)


def test_topics_of_the_domain_alone_are_not_advertised_but_known_at_home() -> None:
    b = middle()
    assert not told(b.set_publishers({"plant.x": 1}, 1.0))
    assert b.topics() == ["plant.x"]
    assert b.subscriber_class("plant.>") is Audience.LOCAL
    assert b.publishers_of("plant.x")[0].publishers == 1
    b.set_publishers({"plant.x": 0}, 2.0)
    assert b.topics() == []


@pytest.mark.parametrize(
    ("advertisement", "reason"),
    [
        (Advertisement("t", "nowhere", EPOCH), limits.UNKNOWN_SOURCE),
        (Advertisement("", "a", EPOCH), limits.BAD_SUBJECT),
        (Advertisement("t.*", "a", EPOCH), limits.BAD_SUBJECT),
        (Advertisement("t u", "a", EPOCH), limits.BAD_SUBJECT),
        (Advertisement("t" * 2000, "a", EPOCH), limits.BAD_SUBJECT),
        (Advertisement("$SYS.x", "a", EPOCH), limits.NOT_FEDERATED),
        (Advertisement("_INBOX.x", "a", EPOCH), limits.NOT_FEDERATED),
        (Advertisement("plant.x", "a", EPOCH), limits.NOT_FEDERATED),
        (Advertisement("t", "a", 2 * EPOCH), limits.FROM_THE_FUTURE),
        (Advertisement("t", "a", -1), limits.FROM_THE_FUTURE),
        (Advertisement("t", "c", EPOCH), limits.SOURCE_GONE),
    ],
)
def test_what_cannot_be_is_not_believed(advertisement: Advertisement, reason: str) -> None:
    b = middle()
    assert not told(b.handle("a", Advertise(topics=(advertisement,), beats={"a": BEAT}), 1.0))
    assert b.topics() == []
    assert b.refused[reason] == 1


def test_messages_that_cannot_be_are_not_believed() -> None:
    b = middle()
    b.handle("d", claim("t", "a"), 1.0)
    assert b.refused[limits.NOT_A_NEIGHBOUR] == 1
    b.handle("a", AdvertisedBuckets(source="a", hashes=(1, 2)), 1.0)
    many = tuple(Advertisement(f"t.{i}", "a", EPOCH) for i in range(MAX_TOPICS_A_MESSAGE + 1))
    b.handle("a", Advertise(topics=many, beats={"a": BEAT}), 1.0)
    assert b.refused[limits.MISSHAPEN] == 2
    b.handle("a", AdvertisedDigest(beats={"a": 2 * BEAT, "nowhere": BEAT}), 1.0)
    assert b.refused[limits.FROM_THE_FUTURE] == b.refused[limits.UNKNOWN_SOURCE] == 1
    assert b.topics() == []


def test_own_topics_that_cannot_be_published_are_refused() -> None:
    b = middle()
    assert not b.set_publishers({"t..u": 1}, 1.0)
    assert not b.counted({"t.>": 1}, 1.0)
    assert b.refused[limits.BAD_SUBJECT] == 2


def test_topics_beyond_the_bound_are_counted_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MAX_TOPICS_OF_A_SOURCE", 2)
    b = middle()
    for number in range(4):
        b.set_publishers({f"t.{number}": 1}, 1.0)
    assert b.topics() == ["t.0", "t.1"]
    for number in range(4):
        b.handle("a", claim(f"u.{number}", "a"), 1.0)
    assert b.topics("u.>") == ["u.0", "u.1"]
    assert b.refused[limits.TOO_MANY] == 4
    b.set_publishers({"t.0": 0}, 2.0)
    b.set_publishers({"t.3": 1}, 2.0)
    assert b.topics("t.>") == ["t.1", "t.3"]


def test_classes_of_subscribers_and_publishers() -> None:
    b = middle()
    b.set_publishers({"here.x": 1}, 1.0)
    b.handle("a", claim("there.x", "a"), 1.0)
    b.set_publishers({"both.x": 1}, 1.0)
    b.handle("a", claim("both.x", "a"), 1.0)
    expected = {
        "here.x": Audience.LOCAL,
        "there.*": Audience.REMOTE,
        "both.x": Audience.BOTH,
        ">": Audience.BOTH,
        "nobody.>": Audience.NONE,
    }
    assert {pattern: b.subscriber_class(pattern) for pattern in expected} == expected
    b.counted({"here.x": 1}, 1.0)
    assert b.publisher_class("here.x", local_subscribers=False) is Audience.REMOTE
    assert b.publisher_class("here.x", local_subscribers=True) is Audience.BOTH
    assert b.publisher_class("both.x", local_subscribers=True) is Audience.LOCAL
    assert b.publisher_class("both.x", local_subscribers=False) is Audience.NONE


def test_pages_of_topics_are_in_order_and_complete() -> None:
    b = middle()
    for topic in ("b.x", "a.y", "a", "a.x.z", "plant.x"):
        b.set_publishers({topic: 1}, 1.0)
    seen: list[str] = []
    while page := b.topics(after=seen[-1] if seen else "", limit=2):
        seen += page
    assert seen == ["a", "a.x.z", "a.y", "b.x", "plant.x"]
    assert b.topics("a.*") == ["a.y"]
    assert b.topics("a.>") == ["a.x.z", "a.y"]


def test_a_lost_claim_is_found_by_digest_and_only_its_bucket_is_told() -> None:
    net = SimulatedPeers(federation(("a", "b")), seed=1)
    net.run(1.0)
    for number in range(3000):
        net.publish("a", f"t.{number}")
    net.run(10.0)
    net.loss = 1.0
    net.publish("a", "lost")
    net.run(0.5)
    net.loss = 0.0
    net.sent.clear()
    net.run(15.0)
    assert len(net.peers["b"].table()) == 3001
    assert net.sent["Advertise"] == 2, "each tells one bucket"


def test_a_hundred_thousand_topics_get_through_in_tens_of_seconds_at_a_bounded_rate() -> None:
    net = SimulatedPeers(LINE, seed=1)
    net.run(1.0)
    net.publish_all("a", [f"plant7.line{number % 50}.sensor{number}" for number in range(100_000)])
    net.sent.clear()
    net.run(30.0)
    assert net.peers["c"].advertising.advertised == 100_000
    assert net.sent["Advertise"] <= 2 * 30 * MESSAGES_A_SECOND + 2
    net.sent.clear()
    net.run(60.0)
    assert net.sent["Advertise"] == net.sent["AdvertisedBuckets"] == 0


def test_a_neighbour_that_does_not_believe_is_told_less_and_less() -> None:
    net = SimulatedPeers(federation(("a", "b")), seed=1)
    net.shift["b"] = WALL_S - 10 * 86_400  # a's epochs are in b's future, its beats as well
    net.start("b")
    for number in range(1000):
        net.publish("a", f"t.{number}")
    net.run(60.0)
    net.sent.clear()
    net.run(600.0)
    assert net.peers["b"].advertising.refused[limits.FROM_THE_FUTURE] > 0
    assert net.peers["b"].table() == set()
    assert net.sent["Advertise"] < 50


def test_a_difference_that_stays_is_looked_into_less_and_less() -> None:
    b = middle()
    for number in range(1000):
        b.set_publishers({f"t.{number}": 1}, 1.0)
    now, rounds = 2.0, 0
    while b.timer() < now + 5.0:
        now = max(now, b.timer())
        b.handle_timer(now)
    for _ in range(100):
        now += 10.0
        rounds += bool(told(b.handle("a", AdvertisedBuckets(source="b", hashes=(1,) * BUCKETS), now)))
        for _ in range(20):
            b.handle_timer(now)
            now += 0.1
    assert 3 <= rounds <= 12
