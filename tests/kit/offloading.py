"""Offloading problems for tests: small ones by hand, random ones for properties."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hypothesis import strategies as st

from mangrove.control.offloading.problem import (
    Acceptor,
    Audience,
    Bundle,
    Choice,
    Member,
    Problem,
    Scope,
)
from mangrove.model.agents.load import Amounts, Metric

CAPACITY = Amounts(125e6, 125e6, 25_000.0)


def bundle(
    topic: str,
    deadline_s: float = 10.0,
    rate: float = 100.0,
    *,
    audience: Audience = Audience.LOCAL,
    subscribers: int = 2,
    size_bytes: float = 500.0,
) -> Bundle:
    """A topic's subscribers at an edge: `rate` messages/s of one size to each."""
    stream = Amounts(rate * size_bytes, 0.0, rate)
    each = Amounts(0.0, rate * size_bytes, 0.0)
    output = each.output * subscribers
    members = tuple(Member(f"{topic}-{index}", topic, each) for index in range(subscribers))
    return Bundle(topic, audience, deadline_s, Amounts(stream.input, output, rate), stream, output, members)


def acceptor(name: str, rate: float, *, topics: frozenset[str] = frozenset()) -> Acceptor:
    """A broker with room for so many messages/s, and for all their bytes."""
    return Acceptor(name, "home", Amounts(125e6, 125e6, rate), rate / CAPACITY.matching, topics)


def problem(
    bundles: tuple[Bundle, ...],
    acceptors: tuple[Acceptor, ...],
    need: Mapping[Metric, float],
    *,
    publishers: bool = False,
    scope: Scope = Scope.DOMAIN,
) -> Problem:
    """An overloaded broker."""
    load = Amounts()
    for one in bundles:
        load = load.plus(one.load)
    return Problem("source", publishers, scope, CAPACITY, load, need, bundles, acceptors)


def check(given: Problem, choice: Choice) -> None:
    """What holds for every method: room is kept, one target for each topic, and the account is right."""
    offered = {one.topic: one for one in given.bundles}
    assert len({move.topic for move in choice.moves}) == len(choice.moves), "a topic on two targets"
    for acceptor in given.acceptors:
        taken = Amounts()
        for move in choice.moves:
            if move.to == acceptor:
                taken = taken.plus(move.cost)
        room = acceptor.room
        assert all(
            use <= limit + 1e-9 * max(1.0, abs(limit)) for use, limit in zip(taken, room, strict=True)
        ), f"{acceptor.broker} ends above its room: {taken} > {room}"
    left = dict(given.need)
    for move in choice.moves:
        source = offered[move.topic]
        assert move.to in given.acceptors
        assert move.members
        assert set(move.members) <= set(source.members)
        assert not move.whole or (move.relief, move.members) == (source.load, source.members)
        assert any(move.relief.of(metric) > 0 for metric in given.need), "moved for nothing"
        assert move.why
        for metric in left:
            left[metric] -= move.relief.of(metric)
    for metric, need in left.items():
        assert math.isclose(max(need, 0.0), choice.unmet.get(metric, 0.0), abs_tol=1e-6 * given.need[metric])


rates = st.integers(0, 40).map(lambda step: step * 25.0)
deadlines = st.sampled_from((1.0, 2.0, 5.0, 10.0, 50.0, math.inf))


@st.composite
def problems(draw: st.DrawFn, *, most: int = 12, metrics: tuple[Metric, ...] = tuple(Metric)) -> Problem:
    """Random problems: some topics, up to three acceptors, one or more overloaded metrics."""
    count = draw(st.integers(1, most))
    bundles = tuple(
        bundle(
            f"t{index}",
            draw(deadlines),
            draw(rates),
            audience=draw(st.sampled_from(tuple(Audience))),
            subscribers=draw(st.integers(1, 5)),
            size_bytes=draw(st.sampled_from((100.0, 500.0, 1000.0))),
        )
        for index in range(count)
    )
    acceptors = []
    for index in range(draw(st.integers(0, 3))):
        share = draw(st.floats(0.0, 1.0))
        acceptors.append(
            Acceptor(
                f"e{index}",
                "home",
                Amounts(share * 2e6, draw(st.floats(0.0, 1.0)) * 4e6, draw(st.floats(0.0, 1.0)) * 3000.0),
                share,
                frozenset(draw(st.sets(st.sampled_from([one.topic for one in bundles]), max_size=2))),
            )
        )
    over = draw(st.lists(st.sampled_from(metrics), min_size=1, unique=True))
    sizes = {Metric.INPUT: 1e6, Metric.OUTPUT: 2e6, Metric.MATCHING: 2000.0}
    need = {metric: draw(st.floats(0.001, 1.0)) * sizes[metric] for metric in over}
    return problem(bundles, tuple(acceptors), need, scope=draw(st.sampled_from(tuple(Scope))))
