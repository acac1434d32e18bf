"""Problems of congestion control: random ones, and a short way to write one down."""

from __future__ import annotations

import math
import random

from hypothesis import strategies as st

from mangrove.control.congestion.problem import CongestionProblem, PublisherDemand, TopicDemand
from mangrove.model.agents.load import Amounts

FREE = math.inf
BROKERS = ("head", "edge-1", "edge-2")


def output(amount: float) -> Amounts:
    """A budget of bytes a second given out."""
    return Amounts(FREE, amount, FREE)


def matching(amount: float) -> Amounts:
    """A budget of messages a second."""
    return Amounts(FREE, FREE, amount)


def topic(
    name: str,
    *publishers: tuple[str, float, float, float],
    copies: dict[str, float],
    subscribers: int = 1,
    protected: bool = False,
    rank: float | None = None,
) -> TopicDemand:
    """Publishers as name, utility, messages a second and size; the topic's utility is their mean."""
    demands = tuple(PublisherDemand(*publisher) for publisher in publishers)
    utility = sum(one.utility for one in demands) / len(demands) if demands else 0.5
    return TopicDemand(name, utility, subscribers, demands, copies, protected, rank)


@st.composite
def problems(draw: st.DrawFn) -> CongestionProblem:
    """Up to eight topics and three brokers, short of anything or nothing.

    All but the number of topics comes from a seed: drawing a hundred figures one by one takes ten times as
    long as all that is done with them.
    """
    count = draw(st.integers(0, 8))
    rng = random.Random(draw(st.integers(0, 2**32)))

    def metric() -> float:
        return rng.choice((FREE, FREE, 0.0, -10.0, *(math.exp(rng.uniform(0.0, 14.0)) for _ in range(4))))

    brokers = rng.sample(BROKERS, rng.randint(0, len(BROKERS)))
    return CongestionProblem(
        budgets={broker: Amounts(metric(), metric(), metric()) for broker in brokers},
        topics=tuple(_topic(rng, f"t{number}") for number in range(count)),
        stop_at_first=rng.random() < 0.3,
    )


def _topic(rng: random.Random, name: str) -> TopicDemand:
    """A topic at some brokers; figures are often equal, so that ties are common."""
    publishers = tuple(
        PublisherDemand(
            publisher=f"p{number}",
            utility=rng.choice((0.0, 0.5, 1.0, rng.random(), rng.random())),
            msg_s=rng.choice((0.0, 100.0, rng.uniform(0.01, 1000.0), rng.uniform(0.01, 1000.0))),
            size_bytes=rng.choice((100.0, rng.uniform(1.0, 2000.0))),
        )
        for number in range(rng.randint(0, 4))
    )
    carriers = rng.sample((*BROKERS, "not short"), rng.randint(0, len(BROKERS) + 1))
    return TopicDemand(
        topic=name,
        utility=sum(one.utility for one in publishers) / len(publishers) if publishers else 0.5,
        subscribers=rng.choice((0, 10, rng.randint(1, 100))),
        publishers=publishers,
        copies={broker: rng.choice((0.0, 1.0, 2.0, 50.0)) for broker in carriers},
        protected=rng.random() < 0.2,
    )
