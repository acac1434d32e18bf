"""When a session starts, how much must go, and who may take it: an overloaded broker, or two that differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from mangrove.control.offloading.plan import amount_text
from mangrove.control.offloading.problem import Acceptor
from mangrove.model.agents.load import UNLIMITED, Amounts, BrokerLoad, LoadState, Metric
from mangrove.model.balancing import Balancing

MARGIN = 1e-6
"""Of a capacity: equality with a threshold is already the higher state, so needs and rooms stay clear of
it."""

EQUALISED = 0.5
"""PEER brings two brokers closer until they differ by this share of the threshold that started it."""


class StartedBy(StrEnum):
    """What makes a method start."""

    OVERLOAD = "overload"
    IMBALANCE = "imbalance"


@dataclass(frozen=True, slots=True)
class Start:
    """A broker that should shed, and the brokers of its domain that may take it, the most headroom first."""

    source: str
    need: Mapping[Metric, float]
    acceptors: tuple[str, ...]
    cap: Amounts = UNLIMITED
    """The most that each acceptor may take in this session, besides its room."""
    why: str = ""
    shares: Mapping[Metric, float] = field(default_factory=dict)
    """The utilisation, or the difference, that started it, by metric."""


def next_start(
    started_by: StartedBy,
    loads: Iterable[BrokerLoad],
    balancing: Balancing,
    *,
    resting: Collection[str] = (),
    settling: Collection[str] = (),
    equalised: float = EQUALISED,
) -> Start | None:
    """The most pressing session that may start now, or None.

    `resting` brokers start none (they are in cool-down); `settling` ones take nothing, because what they
    were sent is not measured yet. Called again when the brokers of the last answer are BUSY, it gives the
    next one.
    """
    known = sorted((load for load in loads if load.reachable), key=lambda load: load.broker)
    if started_by is StartedBy.OVERLOAD:
        return _overload(known, balancing, resting, settling)
    return _imbalance(known, balancing, resting, settling, equalised)


def may_accept(load: BrokerLoad) -> bool:
    """Whether a broker may take load: LOW, and in no session."""
    return load.state is LoadState.LOW and load.measured is LoadState.LOW and load.reachable


def needs(load: BrokerLoad, balancing: Balancing) -> dict[Metric, float]:
    """How much must go from an overloaded broker, by overloaded metric, in absolute units.

    A broker that is overloaded by another sign (its delay, processor, memory, or pending bytes) while no
    metric is: the width of the band between the thresholds, of the metric that is used most, or of the
    messages.
    """
    target = balancing.high if balancing.target is None else balancing.target
    over = {
        metric: (load.utilisation[metric] - target + MARGIN) * load.capacity[metric]
        for metric in load.overloaded
    }
    if over or not load.triggers:
        return over
    band = balancing.high - balancing.low
    if not load.utilisation:
        return {Metric.MATCHING: band * load.messages_in_s}
    worst = max(sorted(load.utilisation), key=lambda metric: load.utilisation[metric])
    return {worst: band * load.utilisation[worst] * load.capacity[worst]}


def acceptor(
    load: BrokerLoad,
    balancing: Balancing,
    *,
    domain: str,
    topics: frozenset[str] = frozenset(),
    cap: Amounts = UNLIMITED,
    rtt_ms: float | None = None,
) -> Acceptor:
    """A broker as one that may take load: its room up to the ceiling; no metric of unknown capacity binds."""
    ceiling = balancing.high if balancing.ceiling is None else balancing.ceiling
    room = {
        metric: (ceiling - load.utilisation[metric] - MARGIN) * load.capacity[metric]
        for metric in load.utilisation
    }
    limited = Amounts(
        *(min(room.get(metric, limit), limit) for metric, limit in zip(Metric, cap, strict=True))
    )
    headroom = float("inf") if load.headroom is None else load.headroom
    return Acceptor(load.broker, domain, limited, headroom, topics, rtt_ms)


def _overload(
    loads: Sequence[BrokerLoad], balancing: Balancing, resting: Collection[str], settling: Collection[str]
) -> Start | None:
    pressing: tuple[float, BrokerLoad] | None = None
    for load in loads:
        if load.state is not LoadState.OVERLOAD or load.broker in resting:
            continue
        worst = max((load.utilisation[metric] for metric in load.overloaded), default=0.0)
        if pressing is None or worst > pressing[0]:
            pressing = (worst, load)
    if pressing is None:
        return None
    source = pressing[1]
    free = [
        load
        for load in loads
        if may_accept(load)
        and load.role == source.role
        and load.broker != source.broker
        and load.broker not in settling
    ]
    free.sort(key=lambda load: (-_headroom(load), load.broker))
    need = needs(source, balancing)
    return Start(
        source.broker,
        need,
        tuple(load.broker for load in free),
        why=_why_overloaded(source, balancing, need),
        shares={metric: source.utilisation[metric] for metric in source.overloaded},
    )


def _imbalance(
    loads: Sequence[BrokerLoad],
    balancing: Balancing,
    resting: Collection[str],
    settling: Collection[str],
    equalised: float,
) -> Start | None:
    edges = [load for load in loads if load.role == "edge" and load.state is not LoadState.BUSY]
    best: tuple[float, Metric, BrokerLoad, BrokerLoad] | None = None
    for low in edges:
        if not may_accept(low) or low.broker in settling:
            continue
        for high in edges:
            if high is low or high.broker in resting:
                continue
            for metric, share in high.utilisation.items():
                difference = share - low.utilisation.get(metric, share)
                if difference > balancing.imbalance and (best is None or difference > best[0]):
                    best = (difference, metric, high, low)
    if best is None:
        return None
    widest, metric, high, low = best
    stop = balancing.imbalance * equalised
    need: dict[Metric, float] = {}
    shares: dict[Metric, float] = {}
    cap = UNLIMITED._asdict()
    for one, share in high.utilisation.items():
        difference = share - low.utilisation.get(one, share)
        if difference > stop:
            both = 1.0 / (1.0 / high.capacity[one] + 1.0 / low.capacity[one])
            need[one] = (difference - stop) * both
            shares[one] = difference
            cap[one.value] = difference * both
    why = (
        f"{high.broker} and {low.broker} differ by {widest:.1%} on {metric.value}, more than"
        f" {balancing.imbalance:.0%}"
    )
    return Start(high.broker, need, (low.broker,), Amounts(**cap), why, shares)


def _headroom(load: BrokerLoad) -> float:
    return float("inf") if load.headroom is None else load.headroom


def _why_overloaded(load: BrokerLoad, balancing: Balancing, need: Mapping[Metric, float]) -> str:
    signs = [
        f"{metric.value} is at {load.utilisation[metric]:.1%} of {amount_text(load.capacity[metric], metric)}"
        for metric in load.overloaded
    ]
    signs += [f"its {trigger.value} is beyond its threshold" for trigger in load.triggers]
    wanted = " and ".join(
        f"{amount_text(amount, metric)} of {metric.value}" for metric, amount in need.items()
    )
    return f"{load.broker}: {', '.join(signs)} (threshold {balancing.high:.0%}); {wanted} must go"
