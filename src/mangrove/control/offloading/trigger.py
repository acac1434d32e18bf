"""When a session starts, how much must go, and who may take it: an overloaded broker, or two that differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from mangrove.control.load.capacity import accepts, need_of, room_of
from mangrove.control.load.cluster import ranking_headroom
from mangrove.control.offloading.plan import amount_text
from mangrove.control.offloading.problem import Acceptor
from mangrove.model.agents.load import UNLIMITED, Amounts, BrokerLoad, LoadState, Metric
from mangrove.model.balancing import Balancing


class StartedBy(StrEnum):
    """What makes a method start."""

    OVERLOAD = "overload"
    IMBALANCE = "imbalance"


class Start(msgspec.Struct, frozen=True):
    """A broker that should shed, and the brokers of its domain that may take it, the most headroom first."""

    source: str
    need: Mapping[Metric, float]
    acceptors: tuple[str, ...]
    cap: Amounts = UNLIMITED
    """The most that each acceptor may take in this session, besides its room."""
    why: str = ""
    shares: Mapping[Metric, float] = msgspec.field(default_factory=dict)
    """The utilisation, or the difference, that started it, by metric."""


def next_start(
    started_by: StartedBy,
    loads: Iterable[BrokerLoad],
    balancing: Balancing,
    *,
    resting: Collection[str] = (),
    settling: Collection[str] = (),
) -> Start | None:
    """The most pressing session that may start now, or None.

    `resting` brokers start none (they are in cool-down); `settling` ones take nothing, because what they
    were sent is not measured yet. Called again when the brokers of the last answer are BUSY, it gives the
    next one.
    """
    known = sorted((load for load in loads if load.reachable), key=lambda load: load.broker)
    if started_by is StartedBy.OVERLOAD:
        return _overload(known, balancing, resting, settling)
    return _imbalance(known, balancing, resting, settling)


def acceptor(
    load: BrokerLoad,
    balancing: Balancing,
    *,
    domain: str,
    topics: frozenset[str] = frozenset(),
    cap: Amounts = UNLIMITED,
    rtt_ms: float | None = None,
) -> Acceptor:
    """A broker as one that may take load: its room up to the ceiling, or the cap if that is less."""
    room = room_of(load, balancing)
    limited = Amounts(*(min(pair) for pair in zip(room, cap, strict=True)))
    return Acceptor(load.broker, domain, limited, ranking_headroom(load), topics, rtt_ms)


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
        if accepts(load)
        and load.role == source.role
        and load.broker != source.broker
        and load.broker not in settling
    ]
    free.sort(key=lambda load: (-ranking_headroom(load), load.broker))
    need = need_of(source, balancing)
    return Start(
        source.broker,
        need,
        tuple(load.broker for load in free),
        why=_why_overloaded(source, balancing, need),
        shares={metric: source.utilisation[metric] for metric in source.overloaded},
    )


def _imbalance(
    loads: Sequence[BrokerLoad], balancing: Balancing, resting: Collection[str], settling: Collection[str]
) -> Start | None:
    edges = [load for load in loads if load.role == "edge" and load.state is not LoadState.BUSY]
    best: tuple[float, Metric, BrokerLoad, BrokerLoad] | None = None
    for low in edges:
        if not accepts(low) or low.broker in settling:
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
    widest, widest_on, high, low = best
    stop = balancing.imbalance / 2 if balancing.imbalance_stop is None else balancing.imbalance_stop
    need, cap, shares = _closer(high, low, balancing.imbalance, min(stop, balancing.imbalance))
    why = (
        f"{high.broker} and {low.broker} differ by {widest:.1%} on {widest_on.value}, more than"
        f" {balancing.imbalance:.0%}"
    )
    return Start(high.broker, need, (low.broker,), cap, why, shares)


def _closer(
    high: BrokerLoad, low: BrokerLoad, most: float, stop: float
) -> tuple[dict[Metric, float], Amounts, dict[Metric, float]]:
    """What must go from one to the other so that they differ by no more than `stop`, what may go, and why.

    The acceptor does not end above the source where it was below it, nor so far above it elsewhere that the
    next session would lead the topics back.
    """
    need: dict[Metric, float] = {}
    shares: dict[Metric, float] = {}
    cap = UNLIMITED._asdict()
    for one in [metric for metric in high.utilisation if metric in low.utilisation]:
        difference = high.utilisation[one] - low.utilisation[one]
        both = 1.0 / (1.0 / high.capacity[one] + 1.0 / low.capacity[one])
        if difference > stop:
            need[one] = (difference - stop) * both
            shares[one] = difference
            cap[one.value] = difference * both
        else:
            cap[one.value] = max(0.0, most + difference) * both
    return need, Amounts(**cap), shares


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
