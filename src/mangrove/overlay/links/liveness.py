"""Is a link alive? Heartbeats, adaptive dead interval, link tests, damping of flapping links (PCRT §III-C).

States: FAILURE → (connected and greeted) TESTING → (enough tests answered) NORMAL → (silence) FAILURE.
Anything received is a sign of life. A failed link is used again only after it has passed its tests for a
while, and the while grows with every failure of the recent past.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from mangrove.overlay.links.availability import Availability
from mangrove.overlay.protocol.control_messages import Heartbeat, HeartbeatKind

_GAIN = 0.125  # of a new sample in the smoothed round trip, as in TCP (RFC 6298)
_DEVIATION_GAIN = 0.25
HELD_UP_S = 0.01
"""A timer that is served later than this shows that the process did not get the processor."""
MAX_RTT_S = 600.0
"""No link takes longer; who says so cannot make the delay that is told to others absurd."""


class LinkCondition(Enum):
    """What a link may be used for."""

    FAILURE = "failure"
    TESTING = "testing"
    NORMAL = "normal"


class Timing(msgspec.Struct, frozen=True):
    """Intervals of the link monitor.

    The dead interval is two heartbeats and four times the deviation of their arrivals, and at least
    `min_slack_s` more than two heartbeats: on a quiet link a failure shows after little more than two
    missed heartbeats, on a jittery one later, so that the false-alarm rate stays low. A
    new link starts with `first_deviation_s`: processes that have just started are slow.

    A neighbour that is heard again within `false_alarm_s` after it was found dead was not: the interval grows
    by `patience_s`, doubled each time, and slowly shrinks again. So delays that are long but rare, of which
    a deviation tells nothing, raise a few alarms and not hundreds.

    Where a link is the only way, nothing is gained by giving it up quickly: it gets `only_way_s` at least.
    """

    heartbeat_s: float = 0.050
    min_slack_s: float = 0.025
    max_slack_s: float = 2.0
    first_deviation_s: float = 0.025
    false_alarm_s: float = 1.0
    patience_s: float = 0.05
    max_patience_s: float = 0.5
    patience_half_life_s: float = 600.0
    only_way_s: float = 1.0
    tests: int = 3
    first_tests: int = 1
    flap_hold_s: float = 0.2
    max_flap_hold_s: float = 10.0
    flap_half_life_s: float = 10.0


class LinkMonitor:
    """Watches one link. Time is an argument everywhere; the owner sends what `due` asks for."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self.condition = LinkCondition.FAILURE
        self.rtt_s: float | None = None
        self.rtt_deviation_s = 0.0
        self.offset_s = 0.0
        """The neighbour's clock minus ours; wrong by at most half the round trip."""
        self.failures = 0
        self.availability = Availability()
        self.only_way = False
        """Whether no other way leads to the neighbour."""
        self._arrival_deviation_s = timing.first_deviation_s
        self._patience_s = 0.0
        self._found_dead_at: float | None = None
        self._last_heard = 0.0
        self._last_heartbeat: tuple[float, float] | None = None  # its `sent`, and when it came
        self._next_heartbeat = 0.0
        self._sequence = 0
        self._tests_passed = 0
        self._tests_needed = timing.first_tests
        self._usable_from = 0.0
        self._flaps = 0.0
        self._flaps_at = 0.0

    # -- events -------------------------------------------------------------------------------------------

    def connect(self, now: float, *, forgiven: bool = False) -> None:
        """A connection is there and greeted: test it before it is used.

        What is `forgiven` was no failure of the link.
        """
        self.condition = LinkCondition.TESTING
        self._last_heard = now
        self._last_heartbeat = None
        self._next_heartbeat = now
        self._tests_passed = 0
        if forgiven:
            self._tests_needed, self._usable_from = self._timing.first_tests, now
            self._flaps = max(0.0, self._decayed_flaps(now) - 1)
            self._flaps_at = now
            return
        self._tests_needed = self._timing.tests if self.failures else self._timing.first_tests
        self._usable_from = now + self._hold_s(now)

    def woken(self, now: float) -> None:
        """Timers are being served. If much too late, this process itself was held up, and the silence
        meanwhile says nothing about the link: a heartbeat of our own that is overdue tells how long.
        """
        held_up_s = now - self._next_heartbeat
        if held_up_s > HELD_UP_S and self.connected:
            self._last_heard = min(now, self._last_heard + held_up_s)

    def calm(self, now: float) -> bool:
        """Whether neither `woken` nor `dead` nor `due` has anything to say: so it is most of the time."""
        return now < self._next_heartbeat and now - self._last_heard < 2 * self._timing.heartbeat_s

    def found_dead(self, now: float) -> None:
        """The silence lasted too long."""
        self._found_dead_at = now

    def disconnect(self, now: float) -> None:
        """The connection is gone, or was found dead."""
        if self.condition is LinkCondition.NORMAL:
            self.failures += 1
            self.availability.change(False, now)
            self._flaps = self._decayed_flaps(now) + 1
            self._flaps_at = now
        self.condition = LinkCondition.FAILURE

    def heard(self, now: float) -> None:
        """Bytes came in."""
        self._last_heard = now

    def heartbeat(self, message: Heartbeat, now: float) -> bool:
        """A heartbeat came in; True if the link has just become usable."""
        timing = self._timing
        self._patience_s *= 0.5 ** (timing.heartbeat_s / timing.patience_half_life_s)
        if self._found_dead_at is not None:
            if now - self._found_dead_at < timing.false_alarm_s:
                patience = max(timing.patience_s, 2 * self._patience_s)
                self._patience_s = min(timing.max_patience_s, patience)
            self._found_dead_at = None
        if self._last_heartbeat is not None and message.kind is not HeartbeatKind.TEST_ACK:
            lateness = abs(now - self._last_heartbeat[1] - timing.heartbeat_s)
            self._arrival_deviation_s += _DEVIATION_GAIN * (lateness - self._arrival_deviation_s)
        self._last_heartbeat = (message.sent, now)
        if message.echo is not None:
            self._measure(message.sent, message.echo, message.held, now)
        if message.kind is HeartbeatKind.TEST_ACK and self.condition is LinkCondition.TESTING:
            self._tests_passed += 1
            if self._tests_passed >= self._tests_needed and now >= self._usable_from:
                self.condition = LinkCondition.NORMAL
                self.availability.change(True, now)
                return True
        return False

    def _measure(self, sent: float, echo: float, held: float, now: float) -> None:
        rtt = now - echo - held
        if not 0 <= rtt <= MAX_RTT_S:
            return  # a clock was set, or a neighbour lies; this exchange says nothing
        if self.rtt_s is None:
            self.rtt_s, self.rtt_deviation_s = rtt, rtt / 2
        else:
            self.rtt_deviation_s += _DEVIATION_GAIN * (abs(rtt - self.rtt_s) - self.rtt_deviation_s)
            self.rtt_s += _GAIN * (rtt - self.rtt_s)
        if rtt <= self.rtt_s + self.rtt_deviation_s:  # slow exchanges are lopsided; they spoil the estimate
            offset = ((sent - held - echo) + (sent - now)) / 2
            self.offset_s += _GAIN * (offset - self.offset_s) if self.offset_s else offset

    # -- time ---------------------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        """Whether there is a greeted connection, tested or not."""
        return self.condition is not LinkCondition.FAILURE

    @property
    def dead_interval_s(self) -> float:
        """Silence that counts as failure; while testing, at least a slow round trip is allowed."""
        timing = self._timing
        slack = max(timing.min_slack_s, 4 * self._arrival_deviation_s) + self._patience_s
        slack = min(timing.max_slack_s, slack)
        interval = 2 * timing.heartbeat_s + slack
        if self.only_way:
            interval = max(interval, timing.only_way_s)
        return interval if self.condition is LinkCondition.NORMAL else max(interval, 1.0)

    @property
    def one_way_s(self) -> float:
        """Half of the smoothed round trip; zero before it was measured."""
        return (self.rtt_s or 0.0) / 2

    def timer(self) -> float | None:
        """When `due` or `dead` has something to say."""
        if self.condition is LinkCondition.FAILURE:
            return None
        heartbeat = self._next_heartbeat
        if heartbeat <= self._last_heard + 2 * self._timing.heartbeat_s:
            return heartbeat
        return min(heartbeat, self._last_heard + self.dead_interval_s)

    def dead(self, now: float) -> bool:
        """Whether the silence has lasted too long."""
        if self.condition is LinkCondition.FAILURE:
            return False
        silence_s = now - self._last_heard
        # No interval is shorter than two heartbeats: mostly there is nothing to compute.
        return silence_s >= 2 * self._timing.heartbeat_s and silence_s >= self.dead_interval_s

    def due(self, now: float, received: int) -> Heartbeat | None:
        """The heartbeat to send now, if it is time for one."""
        if now < self._next_heartbeat or self.condition is LinkCondition.FAILURE:
            return None
        # Catch up in step: a late wake-up must not shift all later heartbeats.
        interval = self._timing.heartbeat_s
        self._next_heartbeat = max(self._next_heartbeat + interval, now + interval / 2)
        kind = HeartbeatKind.TEST if self.condition is LinkCondition.TESTING else HeartbeatKind.REGULAR
        return self.message(kind, now, received)

    def message(self, kind: HeartbeatKind, now: float, received: int) -> Heartbeat:
        """A heartbeat that echoes the last one received."""
        self._sequence += 1
        echo, came = self._last_heartbeat or (None, now)
        return Heartbeat(
            kind=kind, sequence=self._sequence, sent=now, received=received, echo=echo, held=now - came
        )

    def _decayed_flaps(self, now: float) -> float:
        age = max(0.0, now - self._flaps_at)
        return float(self._flaps * 0.5 ** (age / self._timing.flap_half_life_s))

    def _hold_s(self, now: float) -> float:
        """How long a link that failed before must pass its tests: doubled by every recent failure."""
        flaps = self._decayed_flaps(now)
        if flaps < 0.5:
            return 0.0
        return min(self._timing.max_flap_hold_s, self._timing.flap_hold_s * 2 ** (flaps - 1))
