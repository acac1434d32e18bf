"""The allocation problem: items with random rates, brokers with capacities, constraints (thesis §4.5.2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from mangrove.model.topics import Mirror
from mangrove.planning.empirical.scenarios import Scenarios
from mangrove.planning.problem.arrays import BoolArray, FloatArray, IntArray


class Objective(Enum):
    """What an allocation is judged by."""

    JOINT = "joint"
    """The probability that no broker is overloaded."""
    CONSTANT_PENALTY = "constant-penalty"
    """Rewards minus a fixed penalty for each broker that is overloaded."""
    EXCESS_PENALTY = "excess-penalty"
    """Rewards minus a penalty for each message beyond the capacity."""


@dataclass(frozen=True, slots=True, eq=False)
class AllocationConstraints:
    """What an allocation must keep; arrays hold one bound per broker."""

    max_risk: FloatArray
    max_items: FloatArray
    max_volume: FloatArray
    max_delay_s: float = np.inf
    max_replication: float = np.inf
    pinned: Mapping[int, int] = field(default_factory=dict)
    forbidden: frozenset[tuple[int, int]] = frozenset()

    @classmethod
    def none(cls, brokers: int) -> AllocationConstraints:
        """No constraint at all."""
        return cls(np.ones(brokers), np.full(brokers, np.inf), np.full(brokers, np.inf))

    @property
    def bind_brokers(self) -> bool:
        """Whether any constraint depends on the whole set of items of a broker."""
        return bool(
            (self.max_risk < 1).any()
            or np.isfinite(self.max_items).any()
            or np.isfinite(self.max_volume).any()
            or np.isfinite(self.max_delay_s)
            or np.isfinite(self.max_replication)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Immutable. Exactly one of `capacity_msg_s` (fixed) and `service_time_s` (by what is allocated) is set.

    `service_time_s[b, i]` is the processing time of a message of item i on broker b. The mean processing time
    of a set is their rate-weighted mean, which equals the model applied to the set's rate-weighted filters
    and replication, because the model is linear in both.

    `mirrored` says what each item asks for, `hosts` on which host each broker runs; empty: nothing was said.
    Neither changes what an allocation of primaries is worth.

    With `scenarios`, one row for each item, risks are taken from them instead of the normal model.
    """

    items: tuple[str, ...]
    brokers: tuple[str, ...]
    mean_rate_msg_s: FloatArray
    covariance: FloatArray
    capacity_msg_s: FloatArray | None
    service_time_s: FloatArray | None
    replication: FloatArray
    volume: FloatArray
    reward: FloatArray
    penalty: FloatArray
    constraints: AllocationConstraints
    penalty_per_message: float = 1.0
    utilisation_threshold: float = 1.0
    objective: Objective = Objective.JOINT
    semidefinite: bool = True
    mirrored: tuple[Mirror, ...] = ()
    hosts: tuple[str, ...] = ()
    scenarios: Scenarios | None = None

    @property
    def item_count(self) -> int:
        return len(self.items)

    @property
    def broker_count(self) -> int:
        return len(self.brokers)

    @property
    def best_capacity_msg_s(self) -> FloatArray:
        """Per broker, a capacity that no set of items can exceed."""
        if self.capacity_msg_s is not None:
            return self.capacity_msg_s
        assert self.service_time_s is not None
        return np.asarray(1.0 / self.service_time_s.min(axis=1), dtype=np.float64)

    def allowed(self) -> BoolArray:
        """`[item, broker]`: placements that pins, prohibitions and fixed processing delays leave open."""
        mask = np.ones((self.item_count, self.broker_count), dtype=bool)
        for item, broker in self.constraints.pinned.items():
            mask[item] = False
            mask[item, broker] = True
        for item, broker in self.constraints.forbidden:
            mask[item, broker] = False
        if self.capacity_msg_s is not None:
            mask[:, 1.0 / self.capacity_msg_s > self.constraints.max_delay_s] = False
        return mask

    def asking(self, *modes: Mirror) -> list[int]:
        """Items that ask for a mirror in one of these modes."""
        return [item for item, mode in enumerate(self.mirrored) if mode in modes]

    def groups(self) -> tuple[int, ...]:
        """The group of each broker; primary and mirror of an item are never in one.

        Brokers of one host are a group where the brokers are on several hosts; else each is one by itself.
        """
        if len(set(self.hosts)) < 2:
            return tuple(range(self.broker_count))
        order = {host: index for index, host in enumerate(dict.fromkeys(self.hosts))}
        return tuple(order[host] for host in self.hosts)

    def broker_classes(self) -> IntArray:
        """Brokers that are equal in everything share a class; exchanging their items changes nothing."""
        allowed = self.allowed()
        found: dict[bytes, int] = {}
        classes = np.empty(self.broker_count, dtype=np.int64)
        for broker in range(self.broker_count):
            parts = [allowed[:, broker].tobytes()]
            if self.capacity_msg_s is not None:
                parts.append(self.capacity_msg_s[broker].tobytes())
            if self.service_time_s is not None:
                parts.append(self.service_time_s[broker].tobytes())
            bounds = self.constraints
            limits = (bounds.max_risk, bounds.max_items, bounds.max_volume)
            parts += [limit[broker].tobytes() for limit in limits]
            classes[broker] = found.setdefault(b"|".join(parts), len(found))
        return classes

    def scaled(self, load: float) -> Problem:
        """The same items at `load` times their rates: deviations scale with the means (σ = C_v·μ)."""
        return replace(
            self,
            mean_rate_msg_s=self.mean_rate_msg_s * load,
            covariance=self.covariance * load**2,
            volume=self.volume * load,
            reward=self.reward * load,
            penalty=self.penalty * load,
            scenarios=None if self.scenarios is None else self.scenarios.scaled(load),
        )

    def with_brokers(self, kept: Collection[int], pinned: Mapping[int, int]) -> Problem:
        """The same items on some of the brokers. `pinned` (old indices) replaces the pins."""
        order = sorted(kept)
        position = {broker: index for index, broker in enumerate(order)}
        bounds = self.constraints
        return replace(
            self,
            brokers=tuple(self.brokers[b] for b in order),
            capacity_msg_s=None if self.capacity_msg_s is None else self.capacity_msg_s[order],
            service_time_s=None if self.service_time_s is None else self.service_time_s[order],
            hosts=tuple(self.hosts[b] for b in order) if self.hosts else (),
            constraints=replace(
                bounds,
                max_risk=bounds.max_risk[order],
                max_items=bounds.max_items[order],
                max_volume=bounds.max_volume[order],
                pinned={item: position[b] for item, b in pinned.items()},
                forbidden=frozenset((i, position[b]) for i, b in bounds.forbidden if b in position),
            ),
        )
