"""A plan that was put in force comes about: so many topics at a time, in its window, until all is done.

Nothing moves before the rollout is in the store. A leader that finds one there that is not done looks where
clients really are, and goes on; so whatever the last one had got to, the plan is completed.
"""

from __future__ import annotations

import math
from collections import Counter, deque

import msgspec

from mangrove.control.events.plan_happenings import PlannedMoveDecided, PlanRolledOut
from mangrove.control.instructions import Instruction
from mangrove.control.plans.in_force import PlanInForce
from mangrove.control.plans.judgement import moves_to
from mangrove.control.plans.moves import PlannedMoves
from mangrove.control.plans.surroundings import PlanSurroundings
from mangrove.model.agents.registration import Migrated
from mangrove.model.events.event_log import EventId, EventLog
from mangrove.model.plans.account import RolloutState, RolloutTold, TopicMove
from mangrove.model.plans.windows import Span, opens_in_s

LOOK_S = 1.0
"""How often something is looked at that holds a rollout up."""
MAX_LOOK_S = 60.0
MAX_TRIES = 2
"""A topic whose clients could not be moved is tried again so often in all."""


class StoredRollout(msgspec.Struct, frozen=True, kw_only=True, tag="plan-rollout"):
    """How far a version is, as the store has it."""

    version: int
    began: float
    """Seconds since 1970."""
    at_once: bool
    done: bool = False
    outcome: str = ""


class Rollout:
    """One version on its way into the directory."""

    def __init__(
        self,
        plan: PlanInForce,
        around: PlanSurroundings,
        moves: PlannedMoves,
        log: EventLog,
        *,
        moves_at_once: int,
        windows: tuple[Span, ...],
        timeout_s: float,
        clock_shift_s: float,
        cause: EventId | None,
        resumed: bool,
        now: float,
    ) -> None:
        """`resumed`: an earlier leader had begun it, so clients must be heard of before it can end."""
        self.plan = plan
        self._around = around
        self._moves = moves
        self._log = log
        self._at_most = moves_at_once
        self._windows = () if plan.decision.at_once else windows
        self._timeout_s = timeout_s
        self._clock_shift_s = clock_shift_s
        self._cause = cause
        self._resumed = resumed
        self.began = now
        self.state = RolloutState.PREPARING
        self.waits = ""
        self._queue: deque[TopicMove] | None = None
        self._tried: Counter[str] = Counter()
        self._done: set[str] = set()
        self._skipped: dict[str, str] = {}
        self._look_at = math.inf
        self.moved = 0
        self.failed = 0
        self.silent: set[str] = set()
        self.silent_count = 0

    # -- life -----------------------------------------------------------------------------------------------

    def stored(self, now: float) -> None:
        """It is in the store: it may begin."""
        if self.state is RolloutState.PREPARING:
            self.state = RolloutState.WAITING
            self._look_at = now

    def timer(self) -> float:
        """When to be called again."""
        if self.state is RolloutState.DONE:
            return math.inf
        return min(self._look_at, self._moves.timer())

    def step(self, term: int, now: float) -> list[Instruction]:
        """End what is over, begin what may begin, and tell clients."""
        if self.state in (RolloutState.PREPARING, RolloutState.DONE):
            return []
        self._finish(now)
        if now >= self._look_at:
            self._go_on(now)
        self._finish(now)
        return self._moves.tell(term, now)

    def _go_on(self, now: float) -> None:
        self._look_at = math.inf
        self.waits, again_s = self._held_up(now)
        if self.waits:
            self._look_at = now + again_s
            self.state = RolloutState.MOVING if len(self._moves) else RolloutState.WAITING
            return
        self.state = RolloutState.MOVING
        if self._queue is None:
            self._queue = deque(self._worklist(now))
        deferred: list[TopicMove] = []
        while self._queue and len(self._moves) < self._at_most:
            move = self._queue.popleft()
            if self._around.in_session(move.topic):
                deferred.append(move)
            else:
                self._begin(move, now)
                self._finish(now)
        self._queue.extend(deferred)
        if deferred:
            self._look_at = now + LOOK_S
        if self._queue or len(self._moves):
            return
        self._queue = deque(self._worklist(now))
        if self._queue:
            self._look_at = now
        elif self._resumed and not self._around.known(now):
            self.waits, self._queue, self._look_at = "clients find the new leader", None, now + LOOK_S
        else:
            self._end(now)

    @property
    def held_up_now(self) -> str:
        """Why it would not begin at once, if so, for whoever has just asked for it."""
        return self._held_up(self.began)[0]

    def _held_up(self, now: float) -> tuple[str, float]:
        """Why nothing more is begun, if so, and when to look again."""
        if self._around.paused():
            return "the domain is paused", LOOK_S
        opens_s = opens_in_s(self._windows, now + self._clock_shift_s)
        if opens_s > 0:
            return f"its window opens in {opens_s / 60:.0f} min", min(opens_s, MAX_LOOK_S)
        return "", 0.0

    def _worklist(self, now: float) -> list[TopicMove]:
        """What is not where the plan wants it, but for what was tried in vain or has moved on since."""
        self._skipped.clear()
        found: list[TopicMove] = []
        for move in moves_to(self.plan, self._around.topics(), self._around.down(now)):
            if self._tried[move.topic] >= MAX_TRIES:
                self._skipped[move.topic] = "clients did not go"
            elif (self._resumed or move.topic in self._done) and move.to in self._around.barred(
                move.topic, now
            ):
                self._skipped[move.topic] = "an offload session has just moved it away"
            else:
                found.append(move)
        return found

    def _begin(self, move: TopicMove, now: float) -> None:
        """A topic is led to its place; the queue may be old, so it is looked at anew."""
        placing = self.plan.planned(move.topic, self._around.down(now))
        self._tried[move.topic] += 1
        if placing is None:
            self._skipped[move.topic] = "its broker is down"
            return
        members = list(self._around.members(move.topic, placing.primary))
        decided_by = self._log.note(
            PlannedMoveDecided(
                version=self.plan.version,
                topic=move.topic,
                sources=move.sources,
                to=placing.primary,
                mirror=move.mirror,
                clients=len(members),
            ),
            now,
            self._cause,
        )
        self._moves.begin(
            move.topic, placing.primary, members, until=now + self._timeout_s, decided_by=decided_by
        )
        self._around.follow(move.topic, now, decided_by)

    def _finish(self, now: float) -> None:
        """Topics all of whose clients have answered are led no more."""
        for topic, going in self._moves.finished(now).items():
            self.moved += going.moved
            self.failed += going.failed
            self.silent_count += len(going.orders)
            self.silent.update(client for client, _ in going.orders)
            if not going.failed and not going.orders:
                self._done.add(topic)
            self._around.follow(topic, now, going.decided_by)
            self._look_at = now

    def _end(self, now: float) -> None:
        self.state, self.waits = RolloutState.DONE, ""
        self._log.note(
            PlanRolledOut(
                version=self.plan.version,
                topics=len(self._done),
                moved=self.moved,
                failed=self.failed,
                silent=self.silent_count,
                skipped=dict(Counter(self._skipped.values())),
                seconds=now - self.began,
            ),
            now,
            self._cause,
        )

    # -- clients --------------------------------------------------------------------------------------------

    def confirmed(self, message: Migrated) -> None:
        """A client has moved a wish, or could not."""
        self._moves.confirmed(message)

    # -- questions ------------------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return self.state is RolloutState.DONE

    @property
    def outcome(self) -> str:
        """What became of it, for people."""
        if self.state is not RolloutState.DONE:
            return self.state.value
        rest = f", {self.failed + self.silent_count} did not" if self.failed + self.silent_count else ""
        return f"{len(self._done)} topics, {self.moved} subscriptions moved{rest}"

    def record(self) -> StoredRollout:
        """As the store has it."""
        return StoredRollout(
            version=self.plan.version,
            began=self.began + self._clock_shift_s,
            at_once=self.plan.decision.at_once,
            done=self.state is RolloutState.DONE,
            outcome=self.outcome,
        )

    def told(self) -> RolloutTold:
        """For operators."""
        left = len(self._queue or ())
        return RolloutTold(
            version=self.plan.version,
            state=self.state,
            topics=len(self._done) + len(self._moves) + left + len(self._skipped),
            done=len(self._done),
            moving=self._moves.topics,
            subscriptions=self.moved,
            failed=self.failed,
            silent=self.silent_count,
            skipped=dict(Counter(self._skipped.values())),
            waits=self.waits,
            since=self.began + self._clock_shift_s,
        )
