"""How often the adaptive dead interval gives up a link that is only slow, and how fast it sees a dead one.

The production link monitor hears the heartbeats of a neighbour over a link whose delay varies; they stay in
order, as in a TCP connection, so one that is late holds up those behind it. Beside it, for comparison, a
fixed dead interval of the length that the adaptive one has on a quiet link.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mangrove.evaluation.confidence import Estimate, estimate
from mangrove.overlay.links.liveness import LinkCondition, LinkMonitor, Timing
from mangrove.overlay.protocol.control_messages import Heartbeat, HeartbeatKind
from mangrove.simulation.overlay_network import RECALL_S, RETRANSMIT_S

DELAY_S = 0.010
WARM_UP_S = 60.0
LOOKS_PER_S = 1.0
"""How often the detection time is asked for: what it would be if the link died at this moment."""


def _lossy(chance: random.Random) -> float:
    """One packet in a hundred is lost and sent again when TCP's least timer runs out: the worst case."""
    late = 0.0
    while chance.random() < 0.01:
        late += RETRANSMIT_S
    return late


def _stalls(chance: random.Random) -> float:
    """Quiet, but about once in a minute the path stands still for up to half a second."""
    return chance.uniform(0.0, 0.5) if chance.random() < 1 / 1200 else chance.uniform(0.0, 0.002)


JITTERS: dict[str, Callable[[random.Random], float]] = {
    "none": lambda chance: 0.0,
    "uniform, 0 to 20 ms": lambda chance: chance.uniform(0.0, 0.02),
    "uniform, 0 to 100 ms": lambda chance: chance.uniform(0.0, 0.1),
    "exponential, mean 20 ms": lambda chance: chance.expovariate(1 / 0.02),
    "Pareto 1.5, from 5 ms": lambda chance: 0.005 * chance.paretovariate(1.5),
    "1 % sent again after 200 ms": _lossy,
    "stalls, 500 ms a minute": _stalls,
}


@dataclass(frozen=True, slots=True)
class FalseAlarms:
    """One kind of jitter."""

    jitter: str
    seeds: tuple[int, ...]
    hours: float
    """Virtual time of each seed."""
    per_hour: Estimate
    fixed_per_hour: Estimate
    detection_ms: Estimate
    """From the failure to its detection, the mean over moments at random."""
    unusable_share: Estimate
    """Share of the time in which the link was up but not used, because of false alarms."""


@dataclass(slots=True)
class _Count:
    alarms: int = 0
    fixed_alarms: int = 0
    unusable_s: float = 0.0
    detections: int = 0
    detection_s: float = 0.0


def run_false_alarms(
    seeds: Sequence[int], hours: float = 1.0, timing: Timing | None = None
) -> list[FalseAlarms]:
    """All kinds of jitter, each over all seeds."""
    rows = []
    for name, jitter in JITTERS.items():
        counts = [_listen(jitter, random.Random(seed), hours, timing or Timing()) for seed in seeds]
        rows.append(
            FalseAlarms(
                name,
                tuple(seeds),
                hours,
                estimate([count.alarms / hours for count in counts]),
                estimate([count.fixed_alarms / hours for count in counts]),
                estimate([1000 * count.detection_s / count.detections for count in counts]),
                estimate([count.unusable_s / (3600 * hours) for count in counts]),
            )
        )
    return rows


def _listen(
    jitter: Callable[[random.Random], float], chance: random.Random, hours: float, timing: Timing
) -> _Count:
    """One end of a link that never fails, for some hours after it has warmed up."""
    monitor = LinkMonitor(timing)
    monitor.connect(0.0)
    fixed_s = 2 * timing.heartbeat_s + timing.min_slack_s
    count = _Count()
    sent = last = 0.0
    next_look = WARM_UP_S + chance.expovariate(LOOKS_PER_S)
    while sent < WARM_UP_S + 3600 * hours:
        sent += timing.heartbeat_s
        arrival = max(last, sent + DELAY_S + jitter(chance))
        counted = arrival >= WARM_UP_S
        while next_look < arrival:
            # If the link died now, nothing that is on its way would arrive.
            if monitor.condition is LinkCondition.NORMAL and next_look >= last:
                count.detections += 1
                count.detection_s += max(0.0, last + monitor.dead_interval_s - next_look)
            next_look += chance.expovariate(LOOKS_PER_S)
        count.fixed_alarms += counted and arrival - last >= fixed_s
        if monitor.connected and arrival - last >= monitor.dead_interval_s:
            count.alarms += counted and monitor.condition is LinkCondition.NORMAL
            found = last + monitor.dead_interval_s
            monitor.found_dead(found)
            monitor.disconnect(found)
            # A new connection begins with what is sent from now on.
            last = found + RECALL_S + 2 * DELAY_S
            sent = max(sent, last)
            monitor.connect(last)
            count.unusable_s += (last - found) * counted
            continue
        _hear(monitor, sent, arrival)
        if monitor.condition is LinkCondition.TESTING and counted:
            count.unusable_s += arrival - last
        last = arrival
    return count


def _hear(monitor: LinkMonitor, sent: float, now: float) -> None:
    monitor.heard(now)
    testing = monitor.condition is LinkCondition.TESTING
    kind = HeartbeatKind.TEST if testing else HeartbeatKind.REGULAR
    monitor.heartbeat(Heartbeat(kind=kind, sequence=0, sent=sent, received=0), now)
    if testing:  # its answer to our own test comes at the same pace
        answer = Heartbeat(kind=HeartbeatKind.TEST_ACK, sequence=0, sent=sent, received=0)
        monitor.heartbeat(answer, now)
