"""Contracts leave an endangered region before it fails, and return: nothing lost, twice or out of order."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import msgspec
import pytest

from mangrove.errors import InputError
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.questions.endangered import MAX_REGIONS, AvoidRequest
from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.status import OverlayStatus
from mangrove.overlay.stimuli.replay import replay
from mangrove.overlay.stimuli.stimulus import Stimulus
from mangrove.simulation.overlay_network import SimulatedOverlay

PLACES = {"a": (0.0, 0.0), "n": (10.0, 10.0), "m": (0.0, 10.0), "s": (-10.0, 10.0), "d": (0.0, 20.0)}
"""Source and destination, and a site in the north, one in the middle and one in the south between them."""
DELAYS_MS = {
    ("a", "n"): 15.0,
    ("n", "d"): 15.0,
    ("a", "m"): 10.0,
    ("m", "d"): 10.0,
    ("a", "s"): 18.0,
    ("s", "d"): 18.0,
}
RULES = TopicRules(
    (
        Contract(match="timely", deadline_ms=100),
        Contract(match="tight", deadline_ms=28),
        Contract(match="twice", paths=2),
        Contract(match="plain"),
    )
)
MIDDLE = AvoidRequest(name="storm", centre=(0.0, 10.0), radius_km=300.0, for_s=3600.0)


def shape(*, via: dict[tuple[str, str], tuple[tuple[float, float], ...]] | None = None) -> Federation:
    return Federation(
        name="avoidance",
        domains={name: Domain(name=name, base_port=1, location=place) for name, place in PLACES.items()},
        links=tuple(
            Link(between=pair, delay_ms=delay, via=(via or {}).get(pair, ()))
            for pair, delay in DELAYS_MS.items()
        ),
        topics=RULES,
    )


def started(seed: int = 1, federation: Federation | None = None, jitter_s: float = 0.0) -> SimulatedOverlay:
    net = SimulatedOverlay(federation or shape(), seed, jitter_s=jitter_s)
    net.subscribe("d", "timely", "tight", "twice", "plain", "loose")
    net.run(2.0)
    return net


class Publisher:
    """Sends on all topics, a thousand messages a second in all, and knows what should have arrived."""

    def __init__(self, net: SimulatedOverlay) -> None:
        self.net = net
        self.sent: dict[str, int] = {}

    def publish(self, seconds: float) -> None:
        end = self.net.now + seconds
        while self.net.now < end:
            for topic in ("timely", "tight", "twice", "plain", "loose"):
                number = self.sent[topic] = self.sent.get(topic, 0) + 1
                assert self.net.publish("a", topic, f"{topic} {number}".encode())
            self.net.run(self.net.now + 0.005)

    def check(self) -> None:
        """Everything has arrived, once, in order."""
        self.net.run(self.net.now + 2.0)
        assert not self.net.duplicates
        assert not self.net.dropped
        arrived: dict[str, list[int]] = {}
        for where, body in self.net.delivered:
            topic, number = body.decode().split()
            assert where == "d"
            arrived.setdefault(topic, []).append(int(number))
        assert arrived == {topic: list(range(1, count + 1)) for topic, count in self.sent.items()}


def status(net: SimulatedOverlay, name: str = "a") -> OverlayStatus:
    return net.engines[name].status(net.now)


def ways(net: SimulatedOverlay) -> dict[str, set[tuple[str, ...]]]:
    found: dict[str, set[tuple[str, ...]]] = {}
    for route in status(net).routes:
        if route.active:
            found.setdefault(route.topic, set()).add(route.path)
    return found


NORTH, SOUTH, CENTRE = ("a", "n", "d"), ("a", "s", "d"), ("a", "m", "d")


@pytest.mark.parametrize("seed", range(6))
def test_contracts_leave_and_return_without_a_loss(seed: int) -> None:
    net = started(seed, jitter_s=0.003)
    publisher = Publisher(net)
    publisher.publish(0.5)
    assert ways(net) == {"twice": {CENTRE, NORTH}}
    told_at = net.now
    net.avoid("s", MIDDLE)
    publisher.publish(1.0)
    assert ways(net) == {
        "timely": {NORTH},
        "tight": {CENTRE},
        "twice": {NORTH, SOUTH},
        "plain": {NORTH},
    }
    last = max(event.at for event in net.engines["a"].take_events() if event.kind == "RouteEstablished")
    assert last - told_at < 0.5
    (left,) = status(net).exposed
    assert (left.topic, left.path, left.reason) == ("tight", CENTRE, "no other way is within the contract")
    net.avoid("d", AvoidRequest(name="storm"))
    publisher.publish(1.0)
    assert ways(net)["twice"] == {CENTRE, NORTH}
    assert set(ways(net)) == {"twice"}, "by table again"
    assert status(net).endangered == ()
    publisher.check()
    net.validate()


def test_when_the_region_fails_only_what_could_not_leave_feels_it() -> None:
    net = started()
    publisher = Publisher(net)
    net.avoid("n", MIDDLE)
    publisher.publish(1.0)
    net.crash("m", silent=True)
    publisher.publish(1.0)
    for topic in ("timely", "twice", "plain"):
        times = [net.delivered_at["d", f"{topic} {n}".encode()] for n in range(1, publisher.sent[topic] - 10)]
        assert max(b - a for a, b in pairwise(times[150:])) < 0.02, topic
    publisher.check()


def test_a_region_expires_by_itself() -> None:
    net = started()
    net.avoid("a", msgspec.structs.replace(MIDDLE, for_s=3.0))
    net.run(net.now + 1.0)
    assert set(ways(net)) == {"timely", "tight", "twice", "plain"}
    assert {region.name for region in status(net, "d").endangered} == {"storm"}
    net.run(net.now + 3.0)
    assert set(ways(net)) == {"twice"}
    assert all(not status(net, name).endangered for name in PLACES)
    kinds = [event.kind for event in net.engines["a"].take_events()]
    assert kinds.count("RegionEndangered") == kinds.count("RegionSafe") == 1


def test_a_gateway_that_starts_again_hears_of_it() -> None:
    net = started()
    net.avoid("s", MIDDLE)
    net.run(net.now + 1.0)
    net.crash("s", silent=False)
    net.run(net.now + 1.0)
    net.start("s")
    net.run(net.now + 2.0)
    (region,) = status(net, "s").endangered
    assert (region.name, region.told_at) == ("storm", "s")
    assert region.left_s == pytest.approx(3596.0, abs=0.1)
    net.avoid("s", AvoidRequest(name="storm"))
    net.run(net.now + 1.0)
    assert all(not status(net, name).endangered for name in PLACES)


def test_who_was_cut_off_hears_that_it_is_over_and_does_not_bring_it_back() -> None:
    net = started()
    net.avoid("a", MIDDLE)
    net.run(net.now + 1.0)
    for peer in ("a", "d"):
        net.black_hole("n", peer, swallow=True)
    net.run(net.now + 2.0)
    net.avoid("a", AvoidRequest(name="storm"))
    net.run(net.now + 1.0)
    assert status(net, "n").endangered
    for peer in ("a", "d"):
        net.black_hole("n", peer, swallow=False)
    net.run(net.now + 5.0)
    assert all(not status(net, name).endangered for name in PLACES)


def test_what_cannot_leave_says_why() -> None:
    net = started()
    net.avoid("a", msgspec.structs.replace(MIDDLE, name="home", centre=PLACES["a"]))
    net.run(net.now + 1.0)
    assert {path.reason for path in status(net).exposed} == {"its source, a, lies inside"}
    net.avoid("a", AvoidRequest(name="home"))
    net.avoid("a", msgspec.structs.replace(MIDDLE, name="away", centre=PLACES["d"]))
    net.run(net.now + 1.0)
    assert {path.reason for path in status(net).exposed} == {"its destination, d, lies inside"}
    unmet = {route.topic: route.unmet for route in status(net).routes}
    assert "1 of 1 paths cannot leave away" in unmet["plain"]


def test_of_two_paths_one_leaves_if_there_is_room_for_one_outside() -> None:
    net = started()
    assert ways(net) == {"twice": {CENTRE, NORTH}}
    net.avoid("a", MIDDLE)
    net.avoid("a", msgspec.structs.replace(MIDDLE, name="flood", centre=PLACES["n"]))
    net.run(net.now + 1.0)
    assert SOUTH in ways(net)["twice"]
    assert len(ways(net)["twice"]) == 2, "two paths are worth more than none inside"
    (stays,) = (path for path in status(net).exposed if path.topic == "twice")
    assert stays.reason == "no other way is within the contract"
    net.avoid("a", AvoidRequest(name="flood"))
    net.run(net.now + 1.0)
    assert ways(net)["twice"] == {NORTH, SOUTH}
    net.avoid("a", AvoidRequest(name="storm"))
    net.run(net.now + 1.0)
    assert ways(net) == {"twice": {CENTRE, NORTH}}


def test_a_second_path_through_the_region_is_kept_if_the_promise_needs_it() -> None:
    """To leave would cost now what the region would cost later: one failure outside, and nothing is left."""
    every = shape()
    ring = msgspec.structs.replace(
        every,
        domains={name: domain for name, domain in every.domains.items() if name != "s"},
        links=tuple(link for link in every.links if "s" not in link.between),
        topics=TopicRules((Contract(match="sure", resiliency=0.99999),)),
    )
    net = SimulatedOverlay(ring, 1)
    net.subscribe("d", "sure")
    net.run(2.0)
    net.avoid("a", MIDDLE)
    net.run(4.0)
    assert ways(net) == {"sure": {CENTRE, NORTH}}
    (stays,) = status(net).exposed
    assert (stays.path, stays.reason) == (CENTRE, "no other way is within the contract")


def test_a_fibre_through_the_region_is_left_although_its_sites_lie_outside() -> None:
    net = started(federation=shape(via={("a", "m"): ((-20.0, 5.0),)}))
    net.avoid("a", AvoidRequest(name="quake", centre=(-20.0, 5.0), radius_km=100.0))
    net.run(net.now + 1.0)
    (region,) = status(net).endangered
    assert (region.sites, region.links) == ((), (("a", "m"),))
    assert ways(net)["plain"] == {NORTH}


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (AvoidRequest(name="x", centre=(95.0, 0.0), radius_km=10.0), "not on the globe"),
        (AvoidRequest(name="x", centre=(0.0, 181.0), radius_km=10.0), "not on the globe"),
        (AvoidRequest(name="x", centre=(0.0, 0.0), radius_km=-1.0), "radius must be above 0"),
        (AvoidRequest(name="x", centre=(0.0, 0.0), radius_km=float("nan")), "radius must be above 0"),
        (AvoidRequest(name="x", centre=(0.0, 10.0), radius_km=9000.0), "contains every site"),
        (AvoidRequest(name="x", centre=(0.0, 0.0), radius_km=10.0, for_s=0.0), "30 days"),
        (AvoidRequest(name="no spaces", centre=(0.0, 0.0), radius_km=10.0), "not a name"),
        (AvoidRequest(name="nobody"), "no endangered region 'nobody'"),
    ],
)
def test_what_makes_no_sense_is_refused(request_: AvoidRequest, said: str) -> None:
    net = started()
    with pytest.raises(InputError, match=said):
        net.avoid("a", request_)
    assert status(net).endangered == ()


def test_what_gateways_were_told_of_regions_replays() -> None:
    told: dict[str, list[tuple[Stimulus, int]]] = {name: [] for name in "ad"}
    record = {name: partial(lambda kept, *what: kept.append(what), told[name]) for name in "ad"}
    net = SimulatedOverlay(shape(), 1, record=record)
    net.subscribe("d", "timely", "twice", "plain")
    net.run(2.0)
    net.avoid("a", MIDDLE)
    net.run(4.0)
    net.avoid("d", AvoidRequest(name="storm"))
    net.run(6.0)
    for name in "ad":
        engine = OverlayEngine(net.federation, name, net.engines[name].epoch)
        found = replay(engine, told[name])
        assert found.identical, f"{name}: {found.differences[0]}"
        kinds = [event.kind for event in found.events]
        assert kinds.count("RegionEndangered") == kinds.count("RegionSafe") == 1
    causes = {event.kind: event.cause for event in net.engines["d"].take_events()}
    assert (causes["RegionEndangered"] or "").startswith("a-"), "the cause lies where the operator was"


def test_the_number_of_regions_is_bounded() -> None:
    net = started()
    for number in range(MAX_REGIONS):
        net.avoid("a", AvoidRequest(name=f"r{number}", centre=(50.0, 50.0), radius_km=10.0))
    with pytest.raises(InputError, match="endangered already"):
        net.avoid("a", AvoidRequest(name="more", centre=(50.0, 50.0), radius_km=10.0))
    net.run(net.now + 1.0)
    assert len(status(net, "d").endangered) == MAX_REGIONS
