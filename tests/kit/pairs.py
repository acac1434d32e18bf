"""Two gateways' roles in virtual time: a line that delays, cuts and ends; processes that pause and die."""

from __future__ import annotations

from collections import deque

from mangrove.overlay.pair.messages import Beat, Ending, Role
from mangrove.overlay.pair.roles import CARRYING, PairRoles

STEP_S = 0.01
DELAY_S = 0.001
DIAL_S = 0.05
CLOCK_NS = 1_700_000_000 * 10**9


class Process:
    """One of the two: its roles, what waits in its socket, and whether it runs."""

    def __init__(self, number: int, now: float, skew_ns: int = 0) -> None:
        self.number = number
        self.skew_ns = skew_ns
        self.roles = PairRoles(number, now)
        self.alive = True
        self.paused_until = 0.0
        self.inbox: deque[tuple[float, Beat | Ending | str | None]] = deque()
        self.delivering = False
        self.lives = 0

    def runs(self, now: float) -> bool:
        return self.alive and now >= self.paused_until


class TwoGateways:
    """Drives both by steps. `faults` are (time, what) with `what` a method of this class and arguments."""

    def __init__(self, skew_ns: int = 0) -> None:
        self.now = 0.0
        self.processes = [Process(1, 0.0), Process(2, 0.0, skew_ns)]
        self.line = False
        self.cut_until = 0.0
        self.dial_at = 0.0
        self.both_s = 0.0
        """For how long both delivered, in all."""
        self.epochs: list[int] = []

    # -- faults -------------------------------------------------------------------------------------------

    def pause(self, index: int, for_s: float) -> None:
        self.processes[index].paused_until = max(self.processes[index].paused_until, self.now + for_s)

    def kill(self, index: int) -> None:
        dead = self.processes[index]
        if not dead.alive:
            return
        dead.alive = dead.delivering = False
        if self.line:
            self._end(index)

    def start(self, index: int) -> None:
        if not self.processes[index].alive:
            old = self.processes[index]
            self.processes[index] = Process(old.number, self.now, old.skew_ns)
            self.processes[index].paused_until = self.now

    def cut(self, for_s: float) -> None:
        """Nothing passes the line, and nobody is told."""
        self.cut_until = max(self.cut_until, self.now + for_s)

    def _end(self, by: int) -> None:
        self.line = False
        self.dial_at = self.now + DIAL_S
        self.processes[1 - by].inbox.append((self.now + DELAY_S, None))

    # -- time ---------------------------------------------------------------------------------------------

    def run(self, for_s: float) -> None:
        end = self.now + for_s
        while self.now < end:
            self.step()

    def step(self) -> None:
        self.now += STEP_S
        self._dial()
        for index in (0, 1):
            self.processes[index].delivering = False
            if self.processes[index].runs(self.now):
                self._turn(index)
        self.both_s += STEP_S * all(each.delivering for each in self.processes)

    def _dial(self) -> None:
        up = not self.line and self.now >= self.dial_at and self.now >= self.cut_until
        if up and all(each.runs(self.now) for each in self.processes):
            self.line = True
            for process in self.processes:
                process.inbox.append((self.now, "up"))

    def _turn(self, index: int) -> None:
        process = self.processes[index]
        roles = process.roles
        # What comes from neighbours is dealt with before the line is read: that is the worst case.
        early = roles.may_deliver(self.now)
        while process.inbox and process.inbox[0][0] <= self.now:
            _, word = process.inbox.popleft()
            if word == "up":
                roles.line_up(self.now)
            elif isinstance(word, Beat):
                roles.heard(word, self.now)
            elif roles.connected:
                roles.line_down(self.now, word if isinstance(word, Ending) else None)
            self._act(index)
        self._say(index, roles.serve(self.now))
        dead = roles.line_dead(self.now)
        self._act(index)
        self._say(index, roles.serve(self.now))
        if dead and roles.role is Role.ACTIVE:
            roles.line_down(self.now, Ending.SILENT)
            if self.line:
                self.line = False
                self.dial_at = self.now + DIAL_S
                self.processes[1 - index].inbox.append((self.now + DELAY_S, Ending.SILENT))
        process.delivering = early or roles.may_deliver(self.now)

    def _act(self, index: int) -> None:
        process = self.processes[index]
        for change in process.roles.take_changes():
            if change.role is Role.TAKING_OVER:
                clock = CLOCK_NS + int(self.now * 1e9) + process.skew_ns
                self.epochs.append(process.roles.take_over(clock, self.now))
                process.roles.begun(self.now)
                process.lives += 1
            elif change.role is Role.DISPLACED:
                process.roles.let_go(self.now)

    def _say(self, index: int, beats: list[Beat]) -> None:
        if self.line and self.now >= self.cut_until:
            for beat in beats:
                self.processes[1 - index].inbox.append((self.now + DELAY_S, beat))

    # -- what is seen -------------------------------------------------------------------------------------

    def carrying(self) -> list[int]:
        """The numbers of those that carry."""
        return [each.number for each in self.processes if each.alive and each.roles.role in CARRYING]
