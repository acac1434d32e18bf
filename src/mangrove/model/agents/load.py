"""How loaded brokers are: metrics, amounts and states (ePEER §4.4.1)."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import NamedTuple

import msgspec


class Metric(StrEnum):
    """What a broker's load is measured by."""

    INPUT = "input"
    OUTPUT = "output"
    MATCHING = "matching"


class Trigger(StrEnum):
    """Other signs of overload, with thresholds of their own (RQMOM §4.4.1.1)."""

    DELAY = "delay"
    PENDING = "pending"
    CPU = "cpu"
    MEMORY = "memory"


class LoadState(StrEnum):
    """LOW may take load, HIGH takes no more, OVERLOAD must shed; BUSY takes part in a session."""

    LOW = "low"
    HIGH = "high"
    OVERLOAD = "overload"
    BUSY = "busy"


class Amounts(NamedTuple):
    """A load or a capacity on all three metrics: bytes/s in, bytes/s out, messages/s in."""

    input: float = 0.0
    output: float = 0.0
    matching: float = 0.0

    def plus(self, other: Amounts) -> Amounts:
        """The sum."""
        return Amounts(self.input + other.input, self.output + other.output, self.matching + other.matching)

    def minus(self, other: Amounts) -> Amounts:
        """The difference."""
        return Amounts(self.input - other.input, self.output - other.output, self.matching - other.matching)

    def of(self, metric: Metric) -> float:
        """The amount on one metric."""
        return self[_PLACES[metric]]

    def fits(self, room: Amounts) -> bool:
        """Whether there is room for it on every metric."""
        return self.input <= room.input and self.output <= room.output and self.matching <= room.matching


_PLACES = {metric: place for place, metric in enumerate(Metric)}

UNLIMITED = Amounts(math.inf, math.inf, math.inf)
"""The capacity of a broker of which nothing is known: no metric of it is ever high."""


class BrokerSample(msgspec.Struct, frozen=True, kw_only=True):
    """What one broker counted since it started, and how it is now."""

    broker: str
    started: str
    """When this broker process started, in its own words; another value means that counters began anew."""
    messages_in: int
    messages_out: int
    bytes_in: int
    bytes_out: int
    connections: int = 0
    subscriptions: int = 0
    pending_bytes: int = 0
    cpu_percent: float = 0.0
    memory_bytes: int = 0
    slow_consumers: int = 0
    processing_ms: float | None = None
    """How long a probe takes through the broker, if that is measured."""
    taken_at: float | None = None
    """When it was taken, by the agent's own clock; None: just before it is told."""


class BrokerLoad(msgspec.Struct, frozen=True, kw_only=True):
    """One broker's load, as it travels and as `mangrove load` shows it."""

    broker: str
    role: str
    state: LoadState
    """BUSY while in a session, else as measured."""
    measured: LoadState
    utilisation: dict[Metric, float] = {}
    """Smoothed, by metric; metrics whose capacity is not known are left out."""
    capacity: dict[Metric, float] = {}
    remaining: dict[Metric, float] = {}
    """Up to the high threshold, in the metric's own unit; negative beyond it."""
    headroom: float | None = None
    """The least of (high threshold − utilisation) over the metrics; None when no capacity is known."""
    overloaded: tuple[Metric, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    messages_in_s: float = 0.0
    messages_out_s: float = 0.0
    bytes_in_s: float = 0.0
    bytes_out_s: float = 0.0
    pending_bytes: int = 0
    cpu_percent: float = 0.0
    memory_bytes: int = 0
    connections: int = 0
    session: str = ""
    rising: bool = False
    """Whether the last look found clearly more than the smoothed figures say."""
    reachable: bool = True
    problem: str = ""
    """Why nothing can be told, if so."""


class ClusterLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What a domain tells its neighbours of its brokers."""

    head: LoadState
    edges: LoadState
    """LOW if any edge is, OVERLOAD if all are, BUSY if all are, else HIGH."""
    head_remaining: dict[Metric, float] = {}
    edges_remaining: dict[Metric, float] = {}
    """Summed up over the edges."""
    largest_edge: dict[Metric, float] = {}
    """Of the single edge with the most headroom: a bundle must fit in one."""
    headroom: float | None = None
    """Of that edge."""
