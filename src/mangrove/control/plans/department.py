"""Puts plans in force: checks them, has them replicated, moves topics, and says where topics belong.

A plan comes from an operator or is found where pipelines leave it. It is checked against the domain as it is,
handed out by `take_proposals` to be replicated, and in force once `policy_committed` says so. From then on
it is asked by the registrar (`target`, `planned`) and by whoever reacts to failures (`case_for`). What an
offload session moves stays moved until the next plan.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from mangrove.control.clients.placements import Served, WishId
from mangrove.control.events.plan_happenings import (
    PlanProposed,
    PlanPutInForce,
    PlanRefused,
    RolloutResumed,
    RolloutSuperseded,
)
from mangrove.control.instructions import AnswerOperator, Instruction
from mangrove.control.plans.candidates import Candidate, Candidates
from mangrove.control.plans.findings import Findings
from mangrove.control.plans.history import PlanHistory, StoredPlan
from mangrove.control.plans.in_force import PlanInForce, decoded, encoded
from mangrove.control.plans.moves import PlannedMoves
from mangrove.control.plans.rollout import Rollout, StoredRollout
from mangrove.control.plans.surroundings import PlanSurroundings, movable
from mangrove.control.sessions.closing import Closing
from mangrove.control.site import Site
from mangrove.errors import InvalidDocumentError
from mangrove.model.agents.operations import OperationAnswer, PlanApplied, PlanRolledBack, PlanShown
from mangrove.model.agents.registration import ClientRole, Migrated
from mangrove.model.events.event_log import EventId, EventLog
from mangrove.model.plans.account import MAX_TOLD_ITEMS, ItemTold, PlansTold, PlanTaken, RolloutState
from mangrove.model.plans.plan import Placing, PlanCase
from mangrove.model.plans.rules import PlanPolicy
from mangrove.model.plans.topology import topology_fingerprint
from mangrove.model.plans.windows import read_window
from mangrove.model.unreadable import UNREADABLE

ROLLOUT_KEY = "plan-rollout"
RESUME_S = 5.0
"""Clients must find a new leader before it goes on to move them."""
COMMIT_S = 20.0
"""A plan of whose replication nothing is heard for so long is given up here; it may still come."""
AGAIN_S = 5.0
"""A plan that was found while the domain was paused, or another came into force, is tried again."""
PAUSED = "the domain is paused; `mangrove resume` lets plans be put in force"

_Record = StoredPlan | StoredRollout
_record: msgspec.json.Decoder[_Record] = msgspec.json.Decoder(_Record)


class _Committing(NamedTuple):
    """A plan that is being replicated."""

    candidate: Candidate
    until: float
    token: int = -1
    """Of the operator that waits for it; -1: nobody does."""
    name: str = ""
    """Under which it was found."""
    document: bytes = b""

    @property
    def digest(self) -> str:
        """Names it."""
        return self.candidate.decision.digest


class PlanDepartment:
    """The plans of one domain, for one term of its leader."""

    def __init__(
        self,
        site: Site,
        around: PlanSurroundings,
        log: EventLog,
        *,
        term: int,
        number: Callable[[], int],
        clock_shift_s: float,
    ) -> None:
        self._site = site
        self._around = around
        self._log = log
        self._term = term
        self._clock_shift_s = clock_shift_s
        self._rules = site.federation.plans
        self._windows = tuple(read_window(text) for text in self._rules.window)
        self._records = Closing(number)
        self._history = PlanHistory()
        self._findings = Findings()
        self._candidates = Candidates(site, around, clock_shift_s)
        self._moves = PlannedMoves(log, around.assignment)
        self._in_force: PlanInForce | None = None
        self._rollout: Rollout | None = None
        self._proposals: list[bytes] = []
        self._unfit: set[int] = set()
        """Versions that were committed for another topology."""
        self._committing: _Committing | None = None
        self._found_rollout: StoredRollout | None = None
        self._down: frozenset[str] = frozenset()
        self._again: tuple[float, str] = (math.inf, "")
        """When a plan of a name is to be tried that was found at a bad moment."""
        self.refused: Counter[str] = Counter()

    # -- life -----------------------------------------------------------------------------------------------

    def begin(self, records: Iterable[bytes], now: float) -> list[Instruction]:
        """A term begins, with what the store holds of plans: an unfinished one goes on."""
        stored: list[StoredPlan] = []
        for value in records:
            try:
                record = _record.decode(value)
            except UNREADABLE:
                continue  # somebody else's
            if isinstance(record, StoredPlan):
                stored.append(record)
            elif self._found_rollout is None or record.version > self._found_rollout.version:
                self._found_rollout = record
        self._history.restore(stored)
        self._down = self._around.down(now)
        last = self._history.last
        return [] if last is None else self.policy_committed(*last, now)

    def drop(self) -> None:
        """Somebody else leads: what moves is theirs."""
        self._moves.clear()
        self._rollout = None

    # -- replication ----------------------------------------------------------------------------------------

    def take_proposals(self) -> list[bytes]:
        """Documents to be replicated; each comes back by `policy_committed` or `policy_refused`."""
        proposals, self._proposals = self._proposals, []
        return proposals

    def policy_committed(self, version: int, body: bytes, now: float) -> list[Instruction]:
        """All live agents hold a plan: it is in force, unless a later one is."""
        if self._in_force is not None and version <= self._in_force.version:
            return []
        policy = decoded(body)
        if policy is None:
            self.refused["committed plans that cannot be read"] += 1
            return []
        if policy.plan.topology != topology_fingerprint(self._site.federation, self._site.domain):
            self._does_not_fit(version, now)
            return []
        plan = PlanInForce(version, policy)
        found, self._found_rollout = self._found_rollout, None
        if found is not None and found.version == version:
            self._in_force = plan
            self._history.ended(version, found.outcome)
            if not found.done:
                self._resume(plan, now)
            return self._step(now)
        return self._put_in_force(plan, body, now)

    def _does_not_fit(self, version: int, now: float) -> None:
        """The federation file has changed since a plan was committed: it speaks of another domain."""
        if version in self._unfit:
            return
        self._unfit.add(version)
        self.refused["plans of another topology"] += 1
        why = "the federation file has other brokers, capacities, hosts or contracts now; plan again"
        self._history.ended(version, why)
        self._log.note(PlanRefused(name=f"{version}, which was in force", why=why), now)

    def _put_in_force(self, plan: PlanInForce, body: bytes, now: float) -> list[Instruction]:
        preview = self._candidates.preview(plan, self._in_force, self._down)
        cause = self._log.note(
            PlanPutInForce(
                version=plan.version,
                digest=plan.decision.digest,
                by=plan.decision.by,
                what=plan.decision.what,
                items=len(plan.plan.items),
                moves=len(preview.moves) + preview.more_moves,
                joint_before=preview.joint_before,
                joint_after=preview.joint_after,
            ),
            now,
        )
        self._supersede(plan.version, now)
        self._in_force = plan
        self._findings.taken(plan.decision.digest)
        rollout = self._begin_rollout(plan, cause, now, resumed=False)
        writes = {each.key: each.value for each in self._history.add(plan.version, body, plan.decision)}
        told = self._records.write({**writes, ROLLOUT_KEY: self._rollout_record()})
        waiting = self._committing
        if waiting is not None and waiting.digest == plan.decision.digest:
            self._committing = None
            taken = PlanTaken(preview=preview, version=plan.version, waits=rollout.held_up_now)
            told += _answer(waiting.token, taken)
        return told

    def _supersede(self, version: int, now: float) -> None:
        """What an earlier plan had not moved yet stays where it is, until the new one says where."""
        rollout, self._rollout = self._rollout, None
        if rollout is None or rollout.done:
            return
        self._log.note(RolloutSuperseded(version=rollout.plan.version, by=version), now)
        self._history.ended(rollout.plan.version, f"superseded by {version}")
        moving = self._moves.topics
        self._moves.clear()
        for topic in moving:
            self._around.follow(topic, now, None)

    def _resume(self, plan: PlanInForce, now: float) -> None:
        cause = self._log.note(RolloutResumed(version=plan.version), now)
        rollout = self._begin_rollout(plan, cause, now, resumed=True)
        rollout.stored(now + RESUME_S)

    def _begin_rollout(
        self, plan: PlanInForce, cause: EventId | None, now: float, *, resumed: bool
    ) -> Rollout:
        self._moves.session = f"{self._site.domain}-{self._term}-plan{plan.version}"
        self._moves.reason = f"plan {plan.version}"
        self._rollout = Rollout(
            plan,
            self._around,
            self._moves,
            self._log,
            moves_at_once=self._rules.moves_at_once,
            windows=self._windows,
            timeout_s=self._site.balancing.migration_timeout_s,
            clock_shift_s=self._clock_shift_s,
            cause=cause,
            resumed=resumed,
            now=now,
        )
        return self._rollout

    def _rollout_record(self) -> bytes | None:
        return None if self._rollout is None else msgspec.json.encode(self._rollout.record())

    def policy_refused(self, body: bytes, reason: str, now: float) -> list[Instruction]:
        """A plan could not be replicated: it is not in force."""
        policy = decoded(body)
        digest = "" if policy is None else policy.digest
        self._log.note(PlanRefused(name=digest or "unreadable", why=reason), now)
        self.refused["plans that could not be replicated"] += 1
        waiting = self._committing
        if waiting is None or waiting.digest != digest:
            return []
        self._committing = None
        if waiting.name:
            wall = now + self._clock_shift_s
            self._findings.proposed(waiting.name, waiting.document, waiting.candidate.preview, wall)
            self._again = (now + AGAIN_S, waiting.name)
        return _refuse(waiting.token, f"it could not be replicated: {reason}")

    # -- operators ------------------------------------------------------------------------------------------

    def operator_asked(
        self, operation: PlanApplied | PlanRolledBack | PlanShown, token: int, now: float
    ) -> list[Instruction]:
        """An operator wants a plan looked at, put in force or told of."""
        if isinstance(operation, PlanShown):
            return self._shown(operation, token)
        try:
            if isinstance(operation, PlanApplied):
                candidate = self._asked_for(operation, now)
            else:
                candidate = self._earlier(operation, now)
        except InvalidDocumentError as error:
            self.refused["plans of operators"] += 1
            return _refuse(token, error.message)
        if isinstance(operation, PlanApplied) and operation.check:
            return _answer(token, PlanTaken(preview=candidate.preview))
        problem = self._busy_with() or ("" if isinstance(operation, PlanRolledBack) else candidate.problem)
        if isinstance(operation, PlanApplied) and operation.anyway:
            problem = self._busy_with()
        if problem:
            self.refused["plans of operators"] += 1
            return _refuse(token, problem)
        self._propose(_Committing(candidate, now + COMMIT_S, token))
        return []

    def _busy_with(self) -> str:
        """Why no plan can be put in force at this moment, if so."""
        if self._around.paused():
            return PAUSED
        if self._committing is not None:
            return f"plan {self._committing.digest} is just being handed to all agents; ask again in a moment"
        return ""

    def _asked_for(self, operation: PlanApplied, now: float) -> Candidate:
        data = operation.plan
        if operation.proposed:
            found = self._findings.body(operation.proposed)
            if found is None:
                raise InvalidDocumentError(operation.proposed, self._candidates.not_proposed())
            data = found
        by = operation.by or "an operator"
        source = operation.proposed or "the plan"
        return self._candidates.read(
            data, source, self._in_force, self._down, by=by, at_once=operation.at_once, now=now
        )

    def _earlier(self, operation: PlanRolledBack, now: float) -> Candidate:
        current = 0 if self._in_force is None else self._in_force.version
        version = operation.version or self._history.before(current)
        policy = self._history.decision(version) if version != current else None
        if policy is None:
            known = [str(each.version) for each in self._history.lines() if each.version != current]
            raise InvalidDocumentError("the history", self._candidates.not_in_history(version, known))
        back = msgspec.structs.replace(
            policy,
            since=now + self._clock_shift_s,
            by=operation.by or "an operator",
            what=f"rolled back to {version}",
            at_once=True,
        )
        return self._candidates.again(back, self._in_force, self._down)

    def _propose(self, committing: _Committing) -> None:
        self._committing = committing
        self._proposals.append(encoded(committing.candidate.decision))

    def _shown(self, operation: PlanShown, token: int) -> list[Instruction]:
        current = 0 if self._in_force is None else self._in_force.version
        version = operation.version or current
        policy = self._history.decision(version)
        if operation.version and policy is None:
            return _refuse(token, f"version {version} is not in the history")
        items: tuple[ItemTold, ...] = ()
        if policy is not None:
            placing = policy.plan.normal.placing
            items = tuple(
                ItemTold(item=item.item, topics=len(item.topics), placing=placing[item.item])
                for item in policy.plan.items[:MAX_TOLD_ITEMS]
            )
        told = PlansTold(
            domain=self._site.domain,
            policy=self._rules.policy.value,
            paused=self._around.paused(),
            version=current,
            plan=self._history.line(version),
            risk={} if policy is None else policy.plan.normal.risk,
            items=items,
            more_items=0 if policy is None else max(0, len(policy.plan.items) - MAX_TOLD_ITEMS),
            rollout=None if self._rollout is None else self._rollout.told(),
            committing="" if self._committing is None else self._committing.digest,
            proposed=self._findings.told(),
            history=self._history.lines(),
        )
        return _answer(token, told)

    # -- plans that are found -------------------------------------------------------------------------------

    def found(self, name: str, data: bytes, now: float) -> list[Instruction]:
        """A plan lies where pipelines leave them."""
        if self._rules.policy is PlanPolicy.MANUAL:
            return []
        wall = now + self._clock_shift_s
        try:
            candidate = self._candidates.read(
                data, name, self._in_force, self._down, by=f"plans/{name}", at_once=False, now=now, found=True
            )
        except InvalidDocumentError as error:
            self._refuse_found(name, error.message, wall, now)
            return []
        if any(line.digest == candidate.decision.digest for line in self._history.lines()):
            return []  # it was in force before, and may have been rolled back
        if candidate.problem:
            self._refuse_found(name, candidate.problem, wall, now)
            return []
        if self._rules.policy is PlanPolicy.AUTO:
            if not self._busy_with():
                self._propose(_Committing(candidate, now + COMMIT_S, name=name, document=data))
                return []
            self._again = (now + AGAIN_S, name)
        self._findings.proposed(name, data, candidate.preview, wall)
        self._log.note(
            PlanProposed(
                name=name,
                digest=candidate.decision.digest,
                moves=len(candidate.preview.moves) + candidate.preview.more_moves,
                joint_before=candidate.preview.joint_before,
                joint_after=candidate.preview.joint_after,
            ),
            now,
        )
        return []

    def _try_again(self, now: float) -> list[Instruction]:
        """A pause is over, perhaps, or another plan is in force by now."""
        name, self._again = self._again[1], (math.inf, "")
        document = self._findings.body(name)
        if document is None:
            return []
        if self._busy_with():
            self._again = (now + AGAIN_S, name)
            return []
        return self.found(name, document, now)

    def _refuse_found(self, name: str, problem: str, wall: float, now: float) -> None:
        if self._findings.refused(name, problem, wall):
            self.refused["plans that were found"] += 1
            self._log.note(PlanRefused(name=name, why=problem), now)

    # -- what is asked of the plan in force -----------------------------------------------------------------

    @property
    def in_force(self) -> PlanInForce | None:
        """The plan in force."""
        return self._in_force

    def planned(self, topic: str) -> Placing | None:
        """Where a topic and its mirror belong, as things are; None: the plan does not say."""
        return None if self._in_force is None else self._in_force.planned(topic, self._down)

    def mirror(self, topic: str) -> str:
        """Where the plan wants a topic's mirror; empty: it does not say."""
        placing = self.planned(topic)
        return "" if placing is None else placing.mirror

    def target(self, topic: str) -> str:
        """Where new subscribers of a topic go: where it moves to, or belongs if nobody serves it yet.

        A topic that is served elsewhere was moved by somebody who had a reason; it stays until the next plan.
        """
        if topic in self._moves:
            return self._moves.target(topic)
        if self._in_force is None or self._around.served(topic):
            return ""
        placing = self.planned(topic)
        return "" if placing is None else placing.primary

    def case_for(self, failed: Iterable[str], load: float = 1.0) -> PlanCase | None:
        """What the plan in force says of a state; None if it says nothing."""
        return None if self._in_force is None else self._in_force.case(frozenset(failed), load)

    @property
    def rolling_out(self) -> bool:
        """Whether topics move by a plan."""
        return self._rollout is not None and not self._rollout.done

    def moving(self, topic: str) -> bool:
        """Whether a topic's subscribers are on their way by a plan."""
        return topic in self._moves

    # -- clients and brokers --------------------------------------------------------------------------------

    def loaded(self, now: float) -> None:
        """Brokers were measured, or did not answer."""
        self._down = self._around.down(now)

    def orders(self, served: Served) -> bool:
        """Whether a subscription is, or is about to be, ordered to move."""
        subscribes = served.wish.role is ClientRole.SUBSCRIBER
        return subscribes and self._moves.orders(served.id, served.topic, served.broker)

    def confirmed(self, message: Migrated, now: float) -> list[Instruction]:
        """A client has moved a wish, or could not."""
        self._moves.confirmed(message)
        return self._step(now)

    def joined(self, served: Served, now: float) -> list[Instruction]:
        """A client says that it is served at a broker."""
        if served.wish.role is not ClientRole.SUBSCRIBER or served.topic not in self._moves:
            return []
        self._moves.joined(served.id, served.topic, served.broker, movable=movable(served))
        return self._step(now)

    def gone(self, wish: WishId, now: float) -> list[Instruction]:
        """A client has left, or does not want something any more."""
        if not len(self._moves):
            return []
        self._moves.gone(wish)
        return self._step(now)

    def take_silent(self) -> set[str]:
        """Clients that did not say what became of an order."""
        if self._rollout is None or not self._rollout.silent:
            return set()
        silent, self._rollout.silent = self._rollout.silent, set()
        return silent

    # -- store and time -------------------------------------------------------------------------------------

    def stored(self, write: int, now: float) -> list[Instruction]:
        """A write is in the store; a rollout that waited for it may begin."""
        self._records.stored(write)
        return self._step(now)

    def failed(self, write: int, now: float) -> None:
        """A write did not come about; it is repeated."""
        self._records.failed(write, now)

    def timer(self) -> float:
        """When to be called again."""
        given_up = math.inf if self._committing is None else self._committing.until
        rollout = math.inf if self._rollout is None else self._rollout.timer()
        return min(self._records.timer(), rollout, given_up, self._again[0])

    def handle_timer(self, now: float) -> list[Instruction]:
        """The time for which `timer` asked has come."""
        told = self._records.handle_timer(now)
        waiting = self._committing
        if waiting is not None and now >= waiting.until:
            self._committing = None
            told += _refuse(waiting.token, "nothing was heard of its replication; `mangrove plan show` tells")
        if now >= self._again[0]:
            told += self._try_again(now)
        return told + self._step(now)

    def _step(self, now: float) -> list[Instruction]:
        rollout = self._rollout
        if rollout is None or rollout.done:
            return []
        if rollout.state is RolloutState.PREPARING and not self._records.pending(ROLLOUT_KEY):
            rollout.stored(now)
        told = rollout.step(self._term, now)
        if rollout.done:
            self._history.ended(rollout.plan.version, rollout.outcome)
            told += self._records.write({ROLLOUT_KEY: self._rollout_record()})
        return told

    def problems(self) -> list[str]:
        """Invariants that do not hold; for tests."""
        found: list[str] = []
        if len(self._moves) > self._rules.moves_at_once:
            found.append(f"{len(self._moves)} topics move at once")
        if len(self._moves) and (self._rollout is None or self._rollout.done):
            found.append("topics move, and no plan wants them to")
        found += [
            f"{topic} moves by plan and in a session"
            for topic in self._moves.topics
            if self._around.in_session(topic)
        ]
        return found


def _answer(token: int, told: PlanTaken | PlansTold) -> list[Instruction]:
    if token < 0:
        return []
    return [AnswerOperator(token, OperationAnswer(result=msgspec.json.encode(told)))]


def _refuse(token: int, problem: str) -> list[Instruction]:
    return [] if token < 0 else [AnswerOperator(token, OperationAnswer(problem=problem))]
