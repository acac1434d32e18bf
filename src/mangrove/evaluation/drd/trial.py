"""One method on one workload: the agents' detectors, distribution and sessions in virtual time."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from mangrove.control.distribution import Candidate, Distributor, Newcomer
from mangrove.control.instructions import Instruction, Store, TellClient
from mangrove.control.offloading.registry import method_named
from mangrove.control.offloading.trigger import next_start
from mangrove.control.sessions.coordinator import Coordinator
from mangrove.evaluation.drd.cluster import Cluster
from mangrove.evaluation.drd.setting import Setting
from mangrove.evaluation.drd.workload import (
    BURST_END_S,
    BURSTS_S,
    END_S,
    REGISTERED_S,
    Floats,
    Workload,
)
from mangrove.model.agents.load import Metric
from mangrove.model.agents.registration import Migrated, Order
from mangrove.model.balancing import Placement
from mangrove.model.events.event_log import EventLog

RESUME_S = 4
"""Seconds before a change from which all is sampled again: detectors begin anew after a gap, and need two."""


@dataclass(slots=True)
class Offload:
    """One session in which somebody was told to move."""

    at_s: float
    source: str
    targets: dict[str, str] = field(default_factory=dict)
    """By topic."""
    subscribers: int = 0
    delay: float = 0.0
    """The sum over its subscribers of unexpected delay by delay requirement."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What one method did with one workload."""

    seed: int
    method: str
    offloads: tuple[Offload, ...]
    overload_s: int
    """Seconds in which some edge was measured as overloaded, of those after all had registered."""
    exchange_msg_s: tuple[float, ...]
    """Messages in and out of each edge, in the mean over the experiment."""
    history: tuple[tuple[float, tuple[float, ...]], ...] = ()
    """Time and the smoothed matching utilisation of each edge, if it was asked for."""

    def delay(self, after_s: float = 0.0) -> float:
        """Od of the thesis: over all offloads from a time on."""
        return sum(one.delay for one in self.offloads if one.at_s > after_s)

    def count(self, after_s: float = 0.0) -> int:
        """The number of offloads from a time on."""
        return sum(one.at_s > after_s for one in self.offloads)


def run_trial(
    workload: Workload,
    method: str,
    setting: Setting | None = None,
    *,
    history: bool = False,
    every_second: bool = False,
) -> Trial:
    """Run it to its end. `every_second` samples also while nothing changes; the result is the same."""
    return _Run(workload, method, setting or Setting(), history, every_second).result()


class _Run:
    def __init__(
        self, workload: Workload, method: str, setting: Setting, history: bool, every_second: bool
    ) -> None:
        self._workload = workload
        self._setting = setting
        self._balancing = setting.balancing(method)
        self._method = method_named(method)
        self._cluster = Cluster(workload, setting, self._balancing)
        self._distributor = Distributor(self._balancing, Placement.LAN, workload.seed)
        numbers = count()
        self._coordinator = Coordinator(
            "experiment",
            self._balancing,
            self._cluster,
            EventLog("experiment"),
            number=lambda: next(numbers),
            clock_shift_s=0.0,
        )
        self._offloads: dict[str, Offload] = {}
        self._told: set[tuple[str, str, str]] = set()
        self._arrivals: list[tuple[float, int, TellClient]] = []
        """Clients on the move, by the time at which they have arrived."""
        self._arrival = count()
        self._every_second = every_second or setting.irregular or history
        self._history: list[tuple[float, tuple[float, ...]]] | None = [] if history else None
        self._overload_s = 0
        self._overloaded = False
        self._measured: list[dict[Metric, float]] = []
        self._by_subscriber = setting.by_subscriber and self._balancing.distribution == "random"

    def result(self) -> Trial:
        """Second by second, and between seconds from one client or time-out to the next."""
        cluster = self._cluster
        self._carry_out(self._coordinator.begin(1, (), 0.0))
        cluster.measure(0.0)
        second, rates = 0, self._rates()
        while second < END_S:
            now = float(second)
            second += 1
            cluster.set_rates(next(rates))
            if second <= REGISTERED_S:
                self._register(second - 1, now)
            self._between(now, float(second))
            if self._measure(float(second)) and not self._every_second:
                resume = _next_change(second) - RESUME_S
                for _ in range(second, resume):
                    next(rates)
                    second += 1
                    self._overload_s += self._overloaded
                cluster.run_to(float(second))
        return Trial(
            self._workload.seed,
            self._method.name,
            tuple(self._offloads.values()),
            self._overload_s,
            tuple(exchanged / END_S for exchanged in cluster.exchanged()),
            tuple(self._history or ()),
        )

    def _rates(self) -> Iterator[Floats]:
        if self._setting.irregular:
            yield from self._workload.irregular()
            return
        last: tuple[int, Floats] | None = None
        for second in range(1, END_S + 1):
            since = max((at for at in (1, *BURSTS_S, BURST_END_S) if at <= second), default=1)
            if last is None or last[0] != since:
                last = (since, self._workload.rates_at(second))
            yield last[1]

    def _register(self, number: int, now: float) -> None:
        """All clients of one topic come, and each is placed."""
        topic = self._cluster.topics[number]
        loads = self._cluster.loads(now)
        for subscriber in range(int(self._workload.subscribers[number])):
            serving = () if self._by_subscriber else self._cluster.serving(topic)
            candidates = [Candidate(load, len(self._cluster.topics_at(name))) for name, load in loads.items()]
            place = self._distributor.assign(Newcomer(topic, serving), candidates, now)
            self._cluster.place(topic, subscriber, place.broker)

    def _between(self, now: float, until: float) -> None:
        """Clients arrive, and sessions go on."""
        while True:
            arrival = self._arrivals[0][0] if self._arrivals else float("inf")
            timer = max(now, self._coordinator.timer())
            now = min(arrival, timer)
            if now >= until:
                self._cluster.run_to(until)
                return
            self._cluster.run_to(now)
            if arrival <= now:
                _, _, told = heapq.heappop(self._arrivals)
                self._arrive(told, now)
            else:
                self._carry_out(self._coordinator.handle_timer(now), now)

    def _measure(self, now: float) -> bool:
        """Sample all edges and let sessions open; True if nothing goes on, and nothing will by itself."""
        loads = self._cluster.measure(now)
        self._overloaded = any(load.overloaded for load in loads)
        if now > REGISTERED_S:
            self._overload_s += self._overloaded
        if self._history is not None:
            self._history.append((now, tuple(load.utilisation[Metric.MATCHING] for load in loads)))
        self._carry_out(self._coordinator.consider(now), now)
        before, self._measured = self._measured, [load.utilisation for load in loads]
        if self._arrivals or self._coordinator.timer() != float("inf") or before != self._measured:
            return False
        return next_start(self._method.started_by, loads, self._balancing) is None

    def _carry_out(self, instructions: list[Instruction], now: float = 0.0) -> None:
        """The store answers at once; clients take their time."""
        waiting = list(instructions)
        while waiting:
            instruction = waiting.pop(0)
            if isinstance(instruction, Store):
                waiting += self._coordinator.stored(instruction.write, now)
            elif isinstance(instruction, TellClient):
                self._tell(instruction, now)

    def _tell(self, told: TellClient, now: float) -> None:
        order = told.order
        assert isinstance(order, Order)
        name = (order.session, told.client, order.key)
        if name in self._told:
            return
        self._told.add(name)
        source = self._cluster.at(told.client)
        offload = self._offloads.setdefault(order.session, Offload(now, source))
        pause_s = self._setting.migration.pause_s + self._cluster.drain_s(source)
        offload.targets[order.key] = order.to.broker
        offload.subscribers += 1
        offload.delay += pause_s / self._cluster.deadline_s(order.key)
        heapq.heappush(self._arrivals, (now + pause_s, next(self._arrival), told))

    def _arrive(self, told: TellClient, now: float) -> None:
        order = told.order
        assert isinstance(order, Order)
        self._cluster.place(order.key, int(told.client.rpartition("/")[2]), order.to.broker)
        migrated = Migrated(
            client=told.client, sequence=0, session=order.session, key=order.key, broker=order.to.broker
        )
        self._carry_out(self._coordinator.confirmed(migrated, now), now)


def _next_change(second: int) -> int:
    """The next second whose rates or clients differ from those of this one."""
    if second < REGISTERED_S:
        return second + 1
    return min((at for at in (*BURSTS_S, BURST_END_S) if at > second), default=END_S + RESUME_S)
