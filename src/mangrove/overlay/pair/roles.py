"""Which of a domain's two gateways carries: the pure rules. Time and what was heard are arguments.

The one that stands by watches the other as links are watched (`overlay.links.liveness`). A line that ends
without a goodbye means that the process is dead, and silence that it hangs: both are reasons to take over,
with a later epoch. Whoever learns that a later epoch of its own domain exists, from the other gateway, from a
neighbour or from the management broker, lets go and stands by.

The fence: a process that was held up may have been taken for dead meanwhile. For as long as it was held up
for less than the other needs to find that out, nothing can have happened. After more, it delivers nothing
until the other one has answered that it still stands by, or does not answer for `fence_s`.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from mangrove.overlay.links.liveness import LinkMonitor, Timing
from mangrove.overlay.pair.messages import Beat, Ending, Figures, Role
from mangrove.overlay.protocol.control_messages import HeartbeatKind


class Finding(Enum):
    """What a gateway of a pair finds out that may change its role."""

    OTHER_CARRIES = "the other gateway carries"
    NOBODY_CARRIES = "nobody else carries"
    OTHER_DIED = "the other gateway has died"
    OTHER_SILENT = "the other gateway is silent"
    OTHER_STOPS = "the other gateway stops"
    OWN_STALL = "this gateway itself was held up"
    BEGUN = "everything has begun"
    LATER_LIFE = "another gateway of this domain began later"
    LET_GO = "everything was let go of"


NEXT: dict[tuple[Role, Finding], Role] = {
    (Role.STARTING, Finding.OTHER_CARRIES): Role.STANDBY,
    (Role.STARTING, Finding.NOBODY_CARRIES): Role.TAKING_OVER,
    (Role.STANDBY, Finding.OTHER_DIED): Role.TAKING_OVER,
    (Role.STANDBY, Finding.OTHER_SILENT): Role.TAKING_OVER,
    (Role.STANDBY, Finding.OTHER_STOPS): Role.TAKING_OVER,
    (Role.STANDBY, Finding.NOBODY_CARRIES): Role.TAKING_OVER,
    (Role.STANDBY, Finding.OWN_STALL): Role.STARTING,
    (Role.TAKING_OVER, Finding.BEGUN): Role.ACTIVE,
    (Role.TAKING_OVER, Finding.LATER_LIFE): Role.DISPLACED,
    (Role.ACTIVE, Finding.LATER_LIFE): Role.DISPLACED,
    (Role.DISPLACED, Finding.LET_GO): Role.STARTING,
}

CARRYING = (Role.TAKING_OVER, Role.ACTIVE)


class PairTiming(msgspec.Struct, frozen=True):
    """Intervals of a pair.

    Beats are those of links. The first gateway asks for `first_patience_s` whether the other one carries
    before it does so itself, the second one longer, so that the first normally carries when both start.
    """

    beats: Timing = msgspec.field(default_factory=lambda: Timing(min_slack_s=0.050))
    first_patience_s: float = 0.4
    second_patience_s: float = 2.0
    turn_s: float = 0.025
    """How often a gateway of a pair does what is due; beats leave at most a turn late."""
    held_up_s: float = 0.070
    """Who did what was due so long ago cannot have been taken for dead: its last beat was then at most a beat
    and a turn old, and silence is found after two beats and the least slack."""
    fence_s: float = 0.3


class RoleChange(msgspec.Struct, frozen=True):
    """A new role, and why."""

    role: Role
    finding: Finding


class PairRoles:
    """The role of one gateway. `number` is 1 or 2, as in the federation's layout."""

    def __init__(self, number: int, now: float, timing: PairTiming | None = None) -> None:
        self.number = number
        self._timing = timing or PairTiming()
        self._monitor = LinkMonitor(self._timing.beats)
        self.role = Role.STARTING
        self.epoch = 0
        """Of the present life, while this gateway carries."""
        self.latest_epoch = 0
        """The latest life of a gateway of this domain, as far as is known."""
        self.other: Beat | None = None
        """What the other one said last, on the present line."""
        self.predecessor: Figures | None = None
        """What the one before had counted when it was last heard, once this one has taken over."""
        self.takeovers = 0
        self._since = now
        self._awake_at = now
        self._fenced_at: float | None = None
        self._answers: list[Beat] = []
        self._changes: list[RoleChange] = []
        self.fences = 0
        """How often this gateway was held up for so long that it asked before it delivered."""

    # -- the line -----------------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        """Whether the other one is there."""
        return self._monitor.connected

    def line_up(self, now: float) -> None:
        """The other gateway is at the line."""
        self._monitor.connect(now)
        self.other = None

    def line_down(self, now: float, ending: Ending | None = None) -> None:
        """The line has ended: by a goodbye, or because the other process died."""
        last, stalled = self.other, self._held_up(now)
        if stalled:
            self._fence(now)
        self._monitor.disconnect(now)
        self.other = None
        self._answers.clear()
        if self.role is not Role.STANDBY:
            return
        if ending is Ending.STOPS:
            self._find(Finding.OTHER_STOPS, now, last)
        elif ending is Ending.SILENT or stalled:
            self._find(Finding.OWN_STALL, now, last)
        else:
            self._find(Finding.OTHER_DIED, now, last)

    def heard(self, beat: Beat, now: float) -> None:
        """The other one has said something."""
        self._monitor.heard(now)
        self._monitor.heartbeat(beat.heartbeat, now)
        self.other = beat
        echo = beat.heartbeat.echo
        if self._fenced_at is not None and echo is not None and echo >= self._fenced_at:
            self._fenced_at = None
        if beat.heartbeat.kind is HeartbeatKind.TEST:
            self._answers.append(self._beat(HeartbeatKind.TEST_ACK, now))
        self.learned(beat.epoch, now)
        if beat.role in CARRYING and beat.epoch >= self.latest_epoch:
            self._find(Finding.OTHER_CARRIES, now, beat)
        elif beat.role in (Role.STARTING, Role.STANDBY) and self.number == 1:
            self._find(Finding.NOBODY_CARRIES, now, beat)

    def learned(self, epoch: int, now: float) -> None:
        """A gateway of this domain lives, or lived: the other one, a neighbour or a broker says so."""
        self.latest_epoch = max(self.latest_epoch, epoch)
        if self.epoch and self.latest_epoch > self.epoch:
            self._find(Finding.LATER_LIFE, now, self.other)

    # -- the shell ----------------------------------------------------------------------------------------

    def take_over(self, clock_ns: int, now: float) -> int:
        """The epoch of the life that begins: later than all that are known, and never the other one's.

        The other one is told at once: should it only have been held up, it finds this before all else.
        """
        epoch = max(clock_ns, self.latest_epoch + 1)
        epoch += (epoch ^ self.number) & 1
        self.epoch = self.latest_epoch = epoch
        if self.connected:
            self._answers.append(self._beat(HeartbeatKind.REGULAR, now))
        return epoch

    def begun(self, now: float) -> None:
        """Everything carries."""
        self._find(Finding.BEGUN, now, self.other)

    def let_go(self, now: float) -> None:
        """Nothing carries any more."""
        self.epoch = 0
        self._fenced_at = None
        self._find(Finding.LET_GO, now, self.other)
        if self.other is not None and self.other.role in CARRYING:
            self._find(Finding.OTHER_CARRIES, now, self.other)

    def take_changes(self) -> list[RoleChange]:
        """Changes of the role since the last call."""
        changes, self._changes = self._changes, []
        return changes

    # -- time ---------------------------------------------------------------------------------------------

    def may_deliver(self, now: float) -> bool:
        """Whether nobody else can have taken this one's place; asked before every delivery."""
        if self.role not in CARRYING:
            return False
        if self._held_up(now):
            self._fence(now)
        return self._fenced_at is None or now - self._fenced_at >= self._timing.fence_s

    def serve(self, now: float) -> list[Beat]:
        """The beats to send now. Roles may change; a `line_dead` is to be closed afterwards."""
        if self._held_up(now):
            self._fence(now)
            self._since += now - self._awake_at  # nobody was asked meanwhile
        self._monitor.woken(now)
        self._awake_at = now
        if self._fenced_at is not None and now - self._fenced_at >= self._timing.fence_s:
            self._fenced_at = None
        if self.line_dead(now):
            self._monitor.found_dead(now)
            self._find(Finding.OTHER_SILENT, now, self.other)
        elif self.role is Role.STARTING and now - self._since >= self._patience_s:
            self._find(Finding.NOBODY_CARRIES, now, self.other)
        answers, self._answers = self._answers, []
        due = self._monitor.due(now, 0)
        if due is not None:
            answers.append(self._beat(due.kind, now))
        return answers

    def line_dead(self, now: float) -> bool:
        """Whether the other one has been silent for too long."""
        return self._monitor.dead(now) and not self._held_up(now)

    def timer(self) -> float:
        """When `serve` wants to be called next."""
        return self._awake_at if self._answers else self._awake_at + self._timing.turn_s

    # -- inside -------------------------------------------------------------------------------------------

    @property
    def _patience_s(self) -> float:
        return self._timing.first_patience_s if self.number == 1 else self._timing.second_patience_s

    def _held_up(self, now: float) -> bool:
        return now - self._awake_at > self._timing.held_up_s

    def _fence(self, now: float) -> None:
        """Ask the other one before anything else is delivered.

        With nobody there, somebody may have started meanwhile, if it had the time to find nobody.
        """
        alone = not self.connected and now - self._awake_at < self._timing.first_patience_s
        if self._fenced_at is None and self.role in CARRYING and not alone:
            self.fences += 1
            self._fenced_at = now
            if self.connected:
                self._answers.append(self._beat(HeartbeatKind.TEST, now))

    def _beat(self, kind: HeartbeatKind, now: float) -> Beat:
        heartbeat = self._monitor.message(kind, now, 0)
        return Beat(role=self.role, epoch=self.latest_epoch, heartbeat=heartbeat)

    def _find(self, finding: Finding, now: float, last: Beat | None) -> None:
        role = NEXT.get((self.role, finding))
        if role is None:
            return
        if role is Role.TAKING_OVER:
            self.takeovers += 1
            if last is not None and last.role in CARRYING:
                self.predecessor = last.figures
        self.role = role
        self._since = now
        self._changes.append(RoleChange(role, finding))
