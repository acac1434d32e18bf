"""One agent among several: brain and election of production in a shell of virtual time.

It does what the agent daemon does, in the same order: the lease is looked at before everything that the brain
is told, what waits is stamped with the term in which it was decided on, and looked at again before it goes.
A stalled agent hears and does nothing, and then everything at once.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from mangrove.control.brain import AgentBrain
from mangrove.control.election.election import Election, PutLease
from mangrove.control.election.score import score_of
from mangrove.control.instructions import (
    AnswerOperator,
    FetchPolicy,
    Instruction,
    ProbeBroker,
    RestartBroker,
    StepDown,
    Store,
    SwitchBroker,
    TellMembers,
)
from mangrove.control.stimuli import (
    LeadershipLost,
    LeadershipTaken,
    MemberSaid,
    PolicyFetched,
    Stimulus,
    Stored,
    StoreFailed,
)
from mangrove.model.agents.members import LeaseChanged, MemberBeat, PolicyRecord

if TYPE_CHECKING:
    from mangrove.simulation.agents.several.domain import SeveralAgents

CLOCK_SHIFT_S = 1.7e9
ASK_TIMEOUT_S = 1.0
WRITE_TIMEOUT_S = 2.0
ACQUAINTANCE_S = 0.3
RETRY_S = 0.5

R = TypeVar("R")


class VirtualAgent:
    """Dead, stalled, cut off or well."""

    def __init__(self, name: str, host: str, around: SeveralAgents) -> None:
        self.name = name
        self.host = host
        self.brain: AgentBrain | None = None
        self.cut = False
        """Whether nothing comes or goes."""
        self.deaf = False
        """Whether nothing is heard of the other agents."""
        self.well_since = 0.0
        """Since when it has been neither dead, stalled nor cut off, or has led if that is later."""
        self.led_in = 0
        """The term in which the brain leads, as far as it knows; 0: in none."""
        self._around = around
        self._world = around.world
        self._lives = 0
        self._clock_s = around.world.random.uniform(0.0, 1e5)
        """What its clock says when the schedule begins: no two agents agree."""
        self._stalled = False
        self._backlog: deque[Callable[[], None]] = deque()
        self._wake_at = math.inf
        self._arrives_at = 0.0
        """When the last of what it sent to the store arrives: one connection keeps its order."""
        self._told_revision = 0
        self._taking_over = 0
        self._writes: deque[tuple[Store, int]] = deque()
        self._writing = False

    # -- life -----------------------------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether the process exists; it may be stalled."""
        return self.brain is not None

    @property
    def well(self) -> bool:
        """Whether it hears and does things at this moment."""
        return self.brain is not None and not self._stalled

    def clock(self) -> float:
        """Its own, which runs like all others but says something else."""
        return self._clock_s + self._world.now

    def start(self) -> None:
        """A process begins."""
        if self.brain is not None:
            return
        self._lives += 1
        schedule = self._around.schedule
        description = schedule.federation.domains[self._around.name]
        score = score_of(description, self.host, schedule.powers[self.host])
        life = self._lives
        self.brain = AgentBrain(
            schedule.federation,
            self._around.name,
            self.name,
            seed=life,
            clock_shift_s=CLOCK_SHIFT_S - self._clock_s,
            events_before=1000 * life,
            score=score,
            life=int(self._world.now * 1000) + 1,
        )
        self.election = Election(
            self.name,
            f"{self.name}-{life}",
            first_term=1,
            rank=lambda last: self.brain.rank(last, self.clock()) if self.brain is not None else 0,
        )
        self.well_since = self._world.now
        self._wake_at = math.inf
        self.led_in = self._told_revision = self._taking_over = 0
        self._writes.clear()
        self._writing = False
        self._tick(life, self._world.now)
        self._world.after(ACQUAINTANCE_S, lambda: self._run(life, self._elect))
        self._watch(life)

    def die(self) -> None:
        """The process is killed."""
        self.brain = None
        self._stalled = False
        self._backlog.clear()
        self.led_in = 0

    def stall(self) -> None:
        """The process is stopped, and does not know."""
        self._stalled = self.brain is not None

    def go_on(self) -> None:
        """The process runs again, with all that came meanwhile."""
        self._stalled = False
        self.well_since = self._world.now
        while self._backlog and not self._stalled:
            self._backlog.popleft()()

    def mend(self) -> None:
        """It can be reached again."""
        self.cut = self.deaf = False
        self.well_since = self._world.now

    def _run(self, life: int, action: Callable[[], None]) -> None:
        if self.brain is None or life != self._lives:
            return
        if self._stalled:
            self._backlog.append(lambda: self._run(life, action))
        else:
            action()

    # -- the brain ------------------------------------------------------------------------------------------

    @property
    def leads_in(self) -> int:
        """The term in which the brain leads at this moment; 0: in none."""
        held = self.led_in and self.led_in == self.election.term and self.election.held(self.clock())
        return self.led_in if held else 0

    def hear(self, stimulus: Stimulus, *, as_leader: bool = False) -> None:
        """Something reaches the process; what only leaders listen to, others leave alone."""
        if self.cut:
            return
        self._run(self._lives, lambda: self._tell(stimulus, as_leader))

    def _tell(self, stimulus: Stimulus, as_leader: bool = False) -> None:
        assert self.brain is not None
        self._notice_the_end()
        if as_leader and not self.leads_in:
            return
        if isinstance(stimulus, LeadershipTaken):
            self.led_in = stimulus.term
            self.well_since = self._world.now
        self._carry_out(self.brain.handle(stimulus, self.clock()))

    def _notice_the_end(self) -> None:
        if self.led_in and not self.leads_in:
            self.led_in = 0
            assert self.brain is not None
            self._carry_out(self.brain.handle(LeadershipLost(), self.clock()))

    def _tick(self, life: int, at: float) -> None:
        if life == self._lives and at >= self._wake_at:
            self._wake_at = math.inf
        if self.brain is None or life != self._lives:
            return
        self._notice_the_end()
        self._carry_out(self.brain.handle_timer(self.clock()))

    def _carry_out(self, told: list[Instruction]) -> None:
        if self.brain is None:
            return
        self._around.happened(self.brain.take_events())
        for instruction in told:
            self._do(instruction)
        at = max(self.brain.timer() - self._clock_s, self._world.now + 0.005)
        if at < self._wake_at:
            self._wake_at = at
            life = self._lives
            self._world.at(at, lambda: self._run(life, partial(self._tick, life, at)))
        self._around.look_at(self)

    def _do(self, instruction: Instruction) -> None:
        match instruction:
            case TellMembers(beat=beat):
                self._around.tell_members(self, beat)
            case FetchPolicy(record=record):
                self._fetch(record)
            case StepDown(successor=successor):
                self.election.step_down(successor, self.clock())
                self._elect()
            case Store():
                self._writes.append((instruction, self.leads_in))
                self._write_next()
            case AnswerOperator():
                self._around.answered(instruction)
            case SwitchBroker() | RestartBroker() | ProbeBroker():
                pass
            case _:
                # What waits in the outbox is looked at again when it is its turn.
                term, life = self.leads_in, self._lives
                self._world.after(
                    self._world.random.uniform(0.0, 0.003),
                    lambda: self._run(life, lambda: self._say(instruction, term)),
                )

    def _say(self, instruction: Instruction, term: int) -> None:
        if term and term == self.leads_in:
            self._around.said(self, instruction, term)

    # -- the lease ------------------------------------------------------------------------------------------

    def lease_changed(self) -> None:
        """Another agent says so."""
        if not self.cut and not self.deaf:
            self._run(self._lives, self._look)

    def _look(self) -> None:
        if not self.leads_in:
            self.election.look(self.clock())
            self._elect()

    def _elect(self) -> None:
        """Ask the store what the election wants to know, now or when it does."""
        life = self._lives
        wish = self.election.turn(self.clock())
        if wish is None:
            at = self.election.timer() - self._clock_s
            if math.isfinite(at):
                self._world.at(at, lambda: self._run(life, self._elect_if_due))
            elif at < 0.0:
                self._world.after(0.0, lambda: self._run(life, self._elect_if_due))
            return
        if isinstance(wish, PutLease):
            self._ask(
                lambda: self._around.store.put_lease(wish.record, wish.last),
                lambda revision: (
                    self.election.refused(self.clock())
                    if revision is None
                    else self.election.written(revision, self.clock())
                ),
                ASK_TIMEOUT_S,
                self._elected,
            )
        else:
            store = self._around.store
            self._ask(
                lambda: (store.lease, store.lease_revision),
                lambda found: self.election.found(*found, self.clock()),
                ASK_TIMEOUT_S,
                self._elected,
            )

    def _elect_if_due(self) -> None:
        if self.clock() >= self.election.timer():
            self._elect()

    def _elected(self, answered: bool) -> None:
        """A wish was answered, or was not."""
        if not answered:
            self.election.unanswered(self.clock())
        revision = self.election.revision
        if revision != self._told_revision:
            self._told_revision = revision
            self._around.tell_lease(self, LeaseChanged(agent=self.name, revision=revision))
        held = self.election.held(self.clock())
        if held and self.election.term not in (self.led_in, self._taking_over):
            self._take_over(self.election.term)
        self._elect()

    def _take_over(self, term: int) -> None:
        """Raise the fence, read what is there, and only then lead."""
        self._taking_over = term
        store = self._around.store
        life = self._lives

        def read() -> LeadershipTaken | None:
            if not store.raise_fence(term):
                return None
            return LeadershipTaken(term=term, directory=store.directory(), sessions=store.sessions())

        def taken(found: LeadershipTaken | None) -> None:
            if self.election.term != term or not self.election.held(self.clock()):
                self._taking_over = 0
            elif found is not None:
                self._tell(found)

        def again(answered: bool) -> None:
            if not answered and self._taking_over == term:
                self._taking_over = 0
                self._world.after(RETRY_S, lambda: self._run(life, self._retry_take_over))

        self._ask(read, taken, WRITE_TIMEOUT_S, again)

    def _retry_take_over(self) -> None:
        held = self.election.held(self.clock())
        if held and self.election.term not in (self.led_in, self._taking_over):
            self._take_over(self.election.term)

    # -- the store ------------------------------------------------------------------------------------------

    def _write_next(self) -> None:
        if self._writing or not self._writes:
            return
        store, term = self._writes.popleft()
        life = self._lives
        if not term or term != self.leads_in:
            failed = StoreFailed(store.write, "this agent does not lead any more")
            self._world.after(0.0, lambda: self._run(life, lambda: self._tell(failed)))
            self._world.after(0.0, lambda: self._run(life, self._write_next))
            return
        self._writing = True
        self._around.acted(self, term)

        def done(taken: bool) -> None:
            self._tell(Stored(store.write) if taken else StoreFailed(store.write, "the store refused"))

        def finished(answered: bool) -> None:
            self._writing = False
            if not answered:
                self._tell(StoreFailed(store.write, "the store is away"))
            self._write_next()

        self._ask(lambda: self._around.store.write(store, term), done, WRITE_TIMEOUT_S, finished)

    def _fetch(self, record: PolicyRecord) -> None:
        def lost(answered: bool) -> None:
            if not answered:
                self._tell(PolicyFetched(record, None))

        self._ask(
            lambda: self._around.store.document(record),
            lambda body: self._tell(PolicyFetched(record, body)),
            WRITE_TIMEOUT_S,
            lost,
        )

    def _ask(
        self,
        do: Callable[[], R],
        take: Callable[[R], None],
        timeout_s: float,
        after: Callable[[bool], None],
    ) -> None:
        """Have the store do something: `take` its answer, then `after`; or `after` alone, if that is late.

        What times out may have been done, or be done yet.
        """
        life, open_ = self._lives, [True]
        world, around = self._world, self._around

        def answered(result: R) -> None:
            if open_[0] and not self.cut:
                open_[0] = False
                take(result)
                after(True)

        def timed_out() -> None:
            if open_[0]:
                open_[0] = False
                after(False)

        def reach() -> None:
            # A store without a majority takes nothing, but may have taken what it does not acknowledge.
            if around.store.away and world.random.random() < 0.7:
                return
            result = do()
            if not around.store.away:
                world.after(
                    world.random.uniform(0.001, 0.02), lambda: self._run(life, lambda: answered(result))
                )

        if not self.cut:
            late = world.random.random() < world.late_ratio / 4
            delay_s = world.random.uniform(0.5, 5.0) if late else world.random.uniform(0.001, 0.02)
            self._arrives_at = max(self._arrives_at, world.now + delay_s)
            world.at(self._arrives_at, reach)
        world.after(timeout_s, lambda: self._run(life, timed_out))

    # -- other agents, and brokers --------------------------------------------------------------------------

    def hear_member(self, beat: MemberBeat) -> None:
        """Another agent says something."""
        if not self.deaf:
            self.hear(MemberSaid(beat))

    def _watch(self, life: int) -> None:
        if self.brain is None or life != self._lives:
            return
        for stimulus in self._around.observed():
            self._run(life, lambda stimulus=stimulus: self._tell(stimulus))  # type: ignore[misc]
        self._world.after(self._around.watch_s(), lambda: self._watch(life))
