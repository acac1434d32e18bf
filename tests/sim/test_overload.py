"""Too much for a link, in virtual time: who waits, who goes, and what a failure on top of it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.engines import federation

from mangrove.model.topics import Contract, Late, TopicRules
from mangrove.simulation.overlay_network import SimulatedOverlay

RULES = TopicRules(
    (
        Contract(match="alarm", deadline_ms=200),
        Contract(match="reading", deadline_ms=2000),
        Contract(match="price", deadline_ms=200, late=Late.DROP),
    )
)
TRIANGLE = (("a", "b"), ("a", "c"), ("b", "c"))


def network(queue_bytes: int = 1 << 20, seed: int = 1) -> SimulatedOverlay:
    shape = msgspec.structs.replace(federation(*TRIANGLE, topics=RULES), queue_bytes=queue_bytes)
    net = SimulatedOverlay(shape, seed=seed)
    net.subscribe("b", "alarm", "reading", "price", "bulk")
    net.run(2.0)
    return net


def publish(
    net: SimulatedOverlay, rates: dict[str, float], seconds: float, sizes: dict[str, int] | None = None
) -> dict[bytes, float]:
    """Messages of 500 bytes (or other `sizes`) on several subjects at steady rates; when each was sent."""
    begun = net.now
    counts: Counter[str] = Counter()
    sent: dict[bytes, float] = {}
    while net.now < begun + seconds:
        for subject, rate in rates.items():
            while counts[subject] < (net.now - begun) * rate:
                counts[subject] += 1
                body = f"{subject} {begun:.3f} {counts[subject]} ".encode()
                body = body.ljust((sizes or {}).get(subject, 500), b"x")
                sent[body] = net.now
                assert net.publish("a", subject, body)
        net.run(net.now + 0.005)
    return sent


def by_subject(messages: Iterable[bytes]) -> Counter[bytes]:
    return Counter(body.partition(b" ")[0] for body in messages)


def arrived(net: SimulatedOverlay) -> Counter[bytes]:
    return by_subject(body for _, body in net.delivered)


def in_time(net: SimulatedOverlay, sent: dict[bytes, float], subject: bytes, seconds: float) -> int:
    return sum(
        at - sent[body] <= seconds for (_, body), at in net.delivered_at.items() if body.startswith(subject)
    )


def test_the_urgent_pass_the_rest_and_what_is_lost_is_counted() -> None:
    net = network(queue_bytes=50_000)
    net.link("a", "b").bytes_per_s = 100_000
    sent = publish(net, {"alarm": 40, "bulk": 400}, 5.0)
    net.run(net.now + 5.0)
    wanted = by_subject(sent)
    assert in_time(net, sent, b"alarm", 0.05) == wanted[b"alarm"]
    dropped = net.dropped["queue to b full"]
    assert dropped > 100
    assert arrived(net)[b"bulk"] + dropped == wanted[b"bulk"]


def test_a_link_that_is_narrowed_and_restored_makes_messages_wait_and_loses_none() -> None:
    net = network()
    sent = publish(net, {"alarm": 40, "bulk": 400}, 1.0)
    assert len(net.delivered) > 0.95 * len(sent)
    net.narrow("a", "b", 0.8)  # 100 kB/s, a little less than half of what is published
    sent |= publish(net, {"alarm": 40, "bulk": 400}, 2.0)
    assert in_time(net, sent, b"alarm", 0.05) > 0.95 * by_subject(sent)[b"alarm"]
    assert len(net.delivered) < 0.8 * len(sent), "the rest waits"
    net.narrow("a", "b", None)
    net.run(net.now + 0.1)
    assert arrived(net) == by_subject(sent)
    assert not net.dropped
    assert not net.duplicates


def test_the_urgent_do_not_wait_for_the_end_of_large_frames() -> None:
    """A frame of 100 kB takes a second on this link; once that is known, it is sent in pieces."""
    net = network()
    net.link("a", "b").bytes_per_s = 100_000
    warm_up = publish(net, {"bulk": 2}, 2.0, {"bulk": 100_000})
    sent = publish(net, {"alarm": 10, "bulk": 2}, 5.0, {"bulk": 100_000})
    net.run(net.now + 20.0)
    assert in_time(net, warm_up | sent, b"alarm", 0.1) == by_subject(sent)[b"alarm"]
    assert arrived(net) == by_subject(warm_up | sent)
    assert not net.duplicates


def test_what_may_not_be_late_is_not_sent_late() -> None:
    net = network()
    net.link("a", "b").bytes_per_s = 50_000
    sent = publish(net, {"price": 200}, 5.0)
    net.run(net.now + 3.0)
    assert net.dropped["late in the queue to b"] > 100
    assert len(net.delivered) + net.dropped.total() == len(sent)
    assert net.dropped["late"] < 0.1 * len(sent), "few use the link in vain"
    assert in_time(net, sent, b"price", 0.2) > 0.9 * len(net.delivered)


@pytest.mark.parametrize("silent", [True, False])
@given(
    seed=st.integers(0, 1000),
    bulk=st.floats(0, 500),
    fail_after=st.floats(0.5, 3.0),
    bandwidth=st.floats(60_000, 300_000),
)
@settings(max_examples=15, deadline=None)
def test_a_failure_under_overload_costs_nothing(
    silent: bool, seed: int, bulk: float, fail_after: float, bandwidth: float
) -> None:
    """Urgent frames overtake, so what waits, what is under way and what has arrived is all mixed up."""
    net = network(seed=seed)
    net.link("a", "b").bytes_per_s = bandwidth
    rates = {"alarm": 40.0, "reading": 40.0, "bulk": bulk}
    sent = publish(net, rates, fail_after)
    if silent:
        net.black_hole("a", "b", swallow=True)
    else:
        net.reset("a", "b")
    sent |= publish(net, rates, 1.0)
    net.run(net.now + 3.0)
    net.black_hole("a", "b", swallow=False)
    net.run(net.now + 30.0)
    assert not net.dropped
    assert not net.duplicates
    assert arrived(net) == by_subject(sent)


def routes_of(net: SimulatedOverlay) -> dict[int, list[tuple[str, ...]]]:
    """The routes from a to b in use, by topic class."""
    engine = net.engines["a"]
    every = range(len(engine.federation.topics.contracts))
    return {position: paths for position in every if (paths := engine.active_paths(position, "b"))}


def test_what_waits_too_long_moves_to_another_way_and_stays_there() -> None:
    """Prices are too many for their link: they take the detour as soon as the wait breaks their deadline."""
    net = network()
    net.link("a", "b").bytes_per_s = 50_000
    rates = {"price": 150.0, "reading": 10.0}
    crowded = publish(net, rates, 5.0)
    assert routes_of(net) == {2: [("a", "c", "b")]}, "prices go round, readings can wait"
    dropped = net.dropped.total()
    assert 0 < dropped < 0.5 * len(crowded)
    calm = publish(net, rates, 10.0)
    net.run(net.now + 3.0)
    assert routes_of(net) == {2: [("a", "c", "b")]}, "they do not come back to be too many again"
    assert net.dropped.total() == dropped
    assert arrived(net).total() == len(crowded) + len(calm) - dropped
