"""One broker's load: samples in, `BrokerLoad` out (ePEER §4.4.1)."""

from __future__ import annotations

import math
from collections import Counter, deque

from mangrove.control.load.rates import RateMeter, Rates
from mangrove.control.load.smoothing import smoothed
from mangrove.control.load.states import FINDINGS, LoadEvent, next_state, state_of
from mangrove.control.load.triggers import TriggerWatch
from mangrove.model.agents.load import Amounts, BrokerLoad, BrokerSample, LoadState, Metric, Trigger
from mangrove.model.balancing import Balancing

RISING = 0.02
"""Of a capacity: a last look that is so far above the smoothed utilisation means that load still rises."""
UNREACHABLE_PERIODS = 3
"""A broker of which nothing could be learned for so many periods is no candidate for anything."""


class LoadDetector:
    """Watches one broker of the domain.

    A state changes on the strength of two samples that fit together, or of a session, and of nothing else:
    what is refused is counted in `refused`, by reason, and leaves the state as it was.
    """

    def __init__(self, broker: str, role: str, capacity: Amounts, balancing: Balancing) -> None:
        self.broker = broker
        self.role = role
        self.capacity = capacity
        self.refused: Counter[str] = Counter()
        self.measured = LoadState.LOW
        self.session = ""
        self.overloaded_since: float | None = None
        """Since when it is measured OVERLOAD, without a break."""
        self._balancing = balancing
        self._state = LoadState.LOW
        self._meter = RateMeter(balancing.period_s)
        self._watch = TriggerWatch(balancing)
        self._history: deque[Rates] = deque(maxlen=balancing.window)
        self._stale = True
        self._findings = 0
        """Looks in a row that found overload."""
        self._triggers: tuple[Trigger, ...] = ()
        self._last: BrokerSample | None = None
        self._heard_at: float | None = None
        """When the last sample that could be used came."""
        self._misses = 0
        self._problem = "not measured yet"
        self._dead = ""
        """Why the broker is not to be used, whatever is measured; empty: it may be."""

    def sample(self, sample: BrokerSample, now: float) -> BrokerLoad:
        """Take a sample in."""
        if sample.broker != self.broker:
            self.refused["other broker"] += 1
            return self.load(now)
        rates, reason, begins = self._meter.take(sample, now)
        if reason:
            self.refused[reason] += 1
            self._problem = f"sample refused: {reason}"
        if begins:
            self._heard_at = now
            self._begin_anew()
        if rates is not None:
            self._misses, self._problem = 0, ""
            self._last, self._heard_at = sample, now
            if self._stale:
                self._history.clear()
                self._stale = False
            self._history.append(rates)
            self._triggers = self._watch.take(sample)
            self._judge(now)
        return self.load(now)

    def set_capacity(self, capacity: Amounts, now: float) -> BrokerLoad:
        """The broker can carry more or less from now on; what it carries is known as before."""
        if capacity != self.capacity:
            self.capacity = capacity
            if self._history and not self._stale:
                self._judge(now)
        return self.load(now)

    def unreachable(self, problem: str, now: float) -> BrokerLoad:
        """The broker did not answer."""
        self._misses += 1
        self._problem = problem
        if self._misses == UNREACHABLE_PERIODS:
            self._meter.forget()
            self._begin_anew()
        return self.load(now)

    def set_dead(self, problem: str) -> None:
        """The broker is proven dead, or, with an empty `problem`, no longer."""
        self._dead = problem

    def set_busy(self, session: str) -> bool:
        """The broker takes part in a session; False if it takes part in another already."""
        if self._state is LoadState.BUSY:
            return self.session == session
        self._state = next_state(self._state, LoadEvent.SESSION_BEGAN, self.measured)
        self.session = session
        return True

    def clear_busy(self, session: str) -> bool:
        """The session is over; False if the broker takes part in another, or in none."""
        if not session or self.session != session:
            return False
        self._state = next_state(self._state, LoadEvent.SESSION_ENDED, self.measured)
        self.session = ""
        return True

    def load(self, now: float) -> BrokerLoad:
        """What is known of the broker."""
        high = self._balancing.high
        rates = self._rates()
        utilisation = {} if rates is None else utilisations(_amounts(rates), self.capacity)
        known = {
            metric: self.capacity.of(metric) for metric in Metric if math.isfinite(self.capacity.of(metric))
        }
        last, shown = self._last, rates or Rates(0.0, 0.0, 0.0, 0.0)
        silent = self._silent(now)
        overloaded = self.measured is LoadState.OVERLOAD
        return BrokerLoad(
            broker=self.broker,
            role=self.role,
            state=self._state,
            measured=self.measured,
            utilisation=utilisation,
            capacity=known,
            remaining={metric: (high - used) * known[metric] for metric, used in utilisation.items()},
            headroom=min((high - used for used in utilisation.values()), default=None),
            overloaded=tuple(metric for metric, used in utilisation.items() if overloaded and used >= high),
            triggers=self._triggers if overloaded else (),
            messages_in_s=shown.messages_in,
            messages_out_s=shown.messages_out,
            bytes_in_s=shown.bytes_in,
            bytes_out_s=shown.bytes_out,
            pending_bytes=0 if last is None else last.pending_bytes,
            cpu_percent=0.0 if last is None else last.cpu_percent,
            memory_bytes=0 if last is None else last.memory_bytes,
            connections=0 if last is None else last.connections,
            session=self.session,
            rising=self._rising(utilisation),
            reachable=self._misses < UNREACHABLE_PERIODS and not silent and not self._dead,
            problem=self._dead or self._problem or ("nothing was heard of it lately" if silent else ""),
        )

    def _rising(self, utilisation: dict[Metric, float]) -> bool:
        if len(self._history) < 2:
            return False
        latest = utilisations(_amounts(self._history[-1]), self.capacity)
        return any(latest[metric] - used > RISING for metric, used in utilisation.items())

    def _begin_anew(self) -> None:
        """The next rates stand alone; until then the last ones are shown, and the state stays."""
        self._stale = True
        self._findings = 0
        self._watch.forget()

    def _judge(self, now: float) -> None:
        """One finding; overload counts once it was found often enough in a row, and is HIGH until then."""
        rates = self._rates()
        assert rates is not None
        balancing = self._balancing
        used = utilisations(_amounts(rates), self.capacity).values()
        found = state_of(used, balancing.low, balancing.high, triggered=bool(self._triggers))
        self._findings = self._findings + 1 if found is LoadState.OVERLOAD else 0
        if found is LoadState.OVERLOAD and self._findings < balancing.confirm_periods:
            found = LoadState.HIGH
        self.measured = found
        if found is not LoadState.OVERLOAD:
            self.overloaded_since = None
        elif self.overloaded_since is None:
            self.overloaded_since = now
        self._state = next_state(self._state, FINDINGS[found], found)

    def _rates(self) -> Rates | None:
        if not self._history:
            return None
        window = self._balancing.window
        return Rates(*(smoothed(values, window) for values in zip(*self._history, strict=True)))

    def _silent(self, now: float) -> bool:
        longest_s = (UNREACHABLE_PERIODS + 0.5) * self._balancing.period_s
        return self._heard_at is not None and now - self._heard_at > longest_s


def _amounts(rates: Rates) -> Amounts:
    """What counts as load: messages are matched once, when they come in."""
    return Amounts(rates.bytes_in, rates.bytes_out, rates.messages_in)


def utilisations(load: Amounts, capacity: Amounts) -> dict[Metric, float]:
    """Load by capacity, for the metrics whose capacity is known."""
    return {
        metric: load.of(metric) / capacity.of(metric)
        for metric in Metric
        if math.isfinite(capacity.of(metric))
    }
