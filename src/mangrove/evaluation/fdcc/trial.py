"""One workload under each arm: who says how much, second by second, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mangrove.control.congestion.controller import CongestionControl
from mangrove.control.congestion.opinions import Opinions
from mangrove.evaluation.fdcc.brokers import Brokers
from mangrove.evaluation.fdcc.domain import Domain
from mangrove.evaluation.fdcc.measures import Mask, Measures, mean_over, measured
from mangrove.evaluation.fdcc.registration import registered
from mangrove.evaluation.fdcc.setting import Setting
from mangrove.evaluation.fdcc.traffic import Star
from mangrove.evaluation.fdcc.workload import DAMAGE_S, END_S, RECOVERY_S, Floats, Workload
from mangrove.model.events.event_log import EventLog

ARMS = ("undamaged", "uncontrolled", "random", "fdcc")
WARM_UP_S = 10
"""So long before the damage detectors and opinions begin."""
STEADY_S = 15
"""If limits have rested for so long under constant load, they rest: longer than anything that control waits
for."""


@dataclass(slots=True)
class Span:
    """Seconds in which publishers say the same."""

    begin_s: int
    seconds: int
    rates: Floats
    stopped: Mask


@dataclass(slots=True)
class Controlled:
    """What congestion control did with one workload."""

    spans: list[Span] = field(default_factory=list)
    relief_s: int | None = None
    """From the damage until no broker is measured as overloaded any more; None: never."""
    clear_s: int | None = None
    """From the recovery until nobody is limited; None: not before the end."""
    limited: int = 0
    """Publishers with a limit before the recovery."""
    changes: int = 0
    """Limits that changed after the first ten seconds of damage, before the recovery."""
    utilisations: list[tuple[int, Floats]] = field(default_factory=list)
    """By broker and metric, at the begin and the end of each span, if it was asked for."""


@dataclass(frozen=True, slots=True)
class Trial:
    """All arms on one workload: means from the damage to the recovery."""

    seed: int
    arms: dict[str, Measures]
    longest_silence_s: dict[str, float]
    """The longest time for which somebody with an audience was not heard."""
    relief_s: int | None
    clear_s: int | None
    limited: int
    changes: int
    publishers: int
    overloaded: int
    """Brokers that are asked for more than the high threshold of what the damage leaves, out of five."""
    feedback_capacity: float
    """Feedback by matching capacity, in the mean over the edges, as the thesis counts it; it goes over the
    management broker."""


def run_trial(workload: Workload, setting: Setting, *, every_second: bool = False) -> Trial:
    """Every arm to its end. `every_second` looks also while nothing changes; the result is the same."""
    served = registered(workload, setting.balancing)
    star = Star(workload, served)
    controlled = run_control(workload, served, setting, every_second=every_second)
    nobody: Mask = np.zeros(len(workload.rate_msg_s), dtype=np.bool_)
    free = [Span(DAMAGE_S, RECOVERY_S - DAMAGE_S, workload.rate_msg_s, nobody)]
    limited = [span for span in controlled.spans if DAMAGE_S <= span.begin_s < RECOVERY_S]
    at_random = limited_at_random(workload, served, limited, setting.congestion.probe_msg_s)
    arms = {
        "undamaged": (free, workload.bandwidth_bytes_s),
        "uncontrolled": (free, workload.bandwidth_at(DAMAGE_S)),
        "random": (at_random, workload.bandwidth_at(DAMAGE_S)),
        "fdcc": (limited, workload.bandwidth_at(DAMAGE_S)),
    }
    specified = np.stack(
        (workload.bandwidth_bytes_s, workload.bandwidth_bytes_s, workload.matching_msg_s), axis=1
    )
    asked = star.flow(workload.rate_msg_s, workload.bandwidth_at(DAMAGE_S))
    found: dict[str, Measures] = {}
    silence: dict[str, float] = {}
    utility = workload.publisher_utility
    for arm, (spans, bandwidth) in arms.items():
        flows = [(span, star.flow(span.rates, bandwidth)) for span in spans]
        found[arm] = mean_over(
            [
                (span.seconds, measured(workload, flow, specified, span.stopped, utility))
                for span, flow in flows
            ]
        )
        silence[arm] = longest_silence_s([(span.seconds, flow.delivered) for span, flow in flows])
    return Trial(
        workload.seed,
        found,
        silence,
        controlled.relief_s,
        controlled.clear_s,
        controlled.limited,
        controlled.changes,
        len(utility),
        int((asked.offered > setting.balancing.high * asked.capacity).any(axis=1).sum()),
        float((served.sum(axis=0) / workload.matching_msg_s[1:]).mean()),
    )


def run_control(
    workload: Workload,
    served: Floats,
    setting: Setting,
    *,
    every_second: bool = False,
    history: bool = False,
) -> Controlled:
    """Congestion control from shortly before the damage to the end, on a clock that leaves out seconds in
    which nothing changes."""
    return _Run(workload, served, setting, every_second, history).result()


class _Run:
    def __init__(
        self, workload: Workload, served: Floats, setting: Setting, every_second: bool, history: bool
    ) -> None:
        self._workload = workload
        self._star = Star(workload, served)
        self._brokers = Brokers(workload, setting.balancing)
        opinions = Opinions(setting.congestion)
        self._domain = Domain(workload, served, self._brokers, opinions)
        self._control = CongestionControl(
            setting.congestion, setting.balancing, self._domain, EventLog("experiment")
        )
        self._every_second = every_second
        self._history = history
        self._found = Controlled()
        self._stopped: Mask = np.zeros(len(workload.rate_msg_s), dtype=np.bool_)
        self._rested_s = 0

    def result(self) -> Controlled:
        """Second by second; `clock` runs on while `second` jumps over what is the same."""
        found, clock = self._found, 0.0
        second = DAMAGE_S - WARM_UP_S
        self._brokers.measure(clock)
        while second < END_S:
            seconds = 1
            self._brokers.set_bandwidth(self._workload.bandwidth_at(second))
            if not self._every_second and self._rested_s >= STEADY_S:
                seconds = _next_change(second) - second
            found.spans.append(Span(second, seconds, self._domain.rates, self._stopped))
            flow = self._star.flow(self._domain.rates, self._workload.bandwidth_at(second))
            self._brokers.carry(flow, 1.0)
            second, clock = second + seconds, clock + 1.0
            if second in (DAMAGE_S, RECOVERY_S):
                self._rested_s = 0
            loads = self._brokers.measure(clock)
            if self._history:
                found.utilisations += [(at, flow.utilisation) for at in (second - seconds, second)]
            self._domain.vote(flow, clock)
            changes = self._control.consider(clock)
            self._domain.settle(self._control.short)
            self._rested_s = 0 if changes else self._rested_s + 1
            if changes:
                self._limit()
            self._note(second, len(changes), any(load.overloaded for load in loads.values()))
        return found

    def _limit(self) -> None:
        """Publishers keep to what they may say from the next second on."""
        rates, stopped = self._workload.rate_msg_s.copy(), np.zeros_like(self._stopped)
        for number, key in enumerate(self._domain.keys):
            limit = self._control.limits.get(key)
            if limit is not None:
                rates[number] = min(rates[number], limit.msg_s)
                stopped[number] = limit.probing
        self._domain.rates, self._stopped = rates, stopped

    def _note(self, second: int, changes: int, overloaded: bool) -> None:
        found = self._found
        if DAMAGE_S < second < RECOVERY_S:
            if overloaded:
                found.relief_s = None
            elif found.relief_s is None:
                found.relief_s = second - DAMAGE_S
            found.limited = len(self._control.limits)
            found.changes += changes if second > DAMAGE_S + 10 else 0
        elif second >= RECOVERY_S and found.clear_s is None and not self._control.limits:
            found.clear_s = second - RECOVERY_S


def _next_change(second: int) -> int:
    return min(at for at in (DAMAGE_S, RECOVERY_S, END_S) if at > second)


def limited_at_random(
    workload: Workload, served: Floats, limited: list[Span], probe_msg_s: float
) -> list[Span]:
    """The same volume as was withheld, edge by edge and span by span, from publishers in random order."""
    order = np.random.default_rng([workload.seed, 506]).permutation(len(workload.topic_of))
    edge = served.argmax(axis=1)[workload.topic_of]
    cost = (workload.size_bytes * workload.subscribers)[workload.topic_of]
    least = np.minimum(workload.rate_msg_s, probe_msg_s)
    spans = []
    for span in limited:
        left = np.bincount(
            edge, weights=(workload.rate_msg_s - span.rates) * cost, minlength=served.shape[1]
        ).tolist()
        rates = workload.rate_msg_s.copy()
        stopped = np.zeros_like(span.stopped)
        for number in order.tolist():
            withheld = min(left[edge[number]], float((rates[number] - least[number]) * cost[number]))
            if withheld > 0:
                left[edge[number]] -= withheld
                rates[number] -= withheld / cost[number]
                stopped[number] = rates[number] <= least[number] * (1 + 1e-9)
        spans.append(Span(span.begin_s, span.seconds, rates, stopped))
    return spans


def longest_silence_s(heard: list[tuple[float, Floats]]) -> float:
    """The longest time without a message from one and the same publisher, over spans of seconds with so many
    messages a second from each, at even distances."""
    said = np.zeros(len(heard[0][1]))
    """Parts of a message."""
    silent = np.zeros_like(said)
    longest = 0.0
    for seconds, rate in heard:
        every_s = np.divide(1.0, rate, out=np.full(len(rate), np.inf), where=rate > 0)
        first_s = np.where(rate > 0, (1.0 - said) * every_s, np.inf)
        spoke = first_s <= seconds
        again = first_s + every_s <= seconds
        longest = max(
            longest,
            float((silent + np.where(spoke, first_s, seconds)).max()),
            float(np.where(again, every_s, 0.0).max()),
        )
        total = said + rate * seconds
        said = np.where(spoke, total - np.floor(total + 1e-9), total)
        silent = np.where(
            spoke, np.where(rate > 0, said * np.where(spoke, every_s, 0.0), 0.0), silent + seconds
        )
    return longest
