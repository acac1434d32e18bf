"""Signs of overload besides the metrics, each with a threshold of its own (RQMOM §4.4.1.1)."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from mangrove.control.load.smoothing import smoothed
from mangrove.model.agents.load import BrokerSample, Trigger
from mangrove.model.balancing import Balancing

RISING_SAMPLES = 5
BYTES_A_MB = 1_000_000


class TriggerWatch:
    """Watches one broker's delay, processor and memory, smoothed like the metrics, and its pending bytes."""

    def __init__(self, balancing: Balancing) -> None:
        self._window = balancing.window
        self._pending_limit = balancing.pending_bytes
        memory_mb = balancing.memory_mb
        self._limits = {
            Trigger.DELAY: balancing.delay_ms,
            Trigger.CPU: balancing.cpu_percent,
            Trigger.MEMORY: None if memory_mb is None else memory_mb * BYTES_A_MB,
        }
        self._values: dict[Trigger, deque[float]] = {
            trigger: deque(maxlen=self._window)
            for trigger, limit in self._limits.items()
            if limit is not None
        }
        self._pending: deque[int] = deque(maxlen=RISING_SAMPLES)

    def take(self, sample: BrokerSample) -> tuple[Trigger, ...]:
        """The triggers that hold after this sample; a probe that was not made says nothing."""
        seen = {
            Trigger.DELAY: sample.processing_ms,
            Trigger.CPU: sample.cpu_percent,
            Trigger.MEMORY: float(sample.memory_bytes),
        }
        for trigger, values in self._values.items():
            value = seen[trigger]
            if value is not None:
                values.append(value)
            elif values:
                values.popleft()
        self._pending.append(sample.pending_bytes)
        return tuple(trigger for trigger in Trigger if self._holds(trigger))

    def forget(self) -> None:
        """The broker was away or began anew."""
        for values in self._values.values():
            values.clear()
        self._pending.clear()

    def _holds(self, trigger: Trigger) -> bool:
        if trigger is Trigger.PENDING:
            limit = self._pending_limit
            return (
                limit is not None
                and len(self._pending) == RISING_SAMPLES
                and self._pending[-1] >= limit
                and all(earlier < later for earlier, later in pairwise(self._pending))
            )
        threshold = self._limits[trigger]
        values = self._values.get(trigger)
        return (
            bool(values)
            and threshold is not None
            and smoothed(tuple(values or ()), self._window) >= threshold
        )
