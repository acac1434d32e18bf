"""Whether automatic decisions of a domain are paused: an operator's word, which outlives leaders.

What is under way ends; clients are registered, the directory is kept, and clients act on failures by
themselves as before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import msgspec

from mangrove.control.events.member_happenings import DecisionsPaused, DecisionsResumed
from mangrove.control.instructions import AnswerOperator, Instruction, Store, StoreWrite
from mangrove.control.store_writes import LOST_S, SESSIONS
from mangrove.model.agents.operations import OperationAnswer, PauseAsked
from mangrove.model.agents.status import PauseStatus
from mangrove.model.events.event_log import EventLog
from mangrove.model.unreadable import UNREADABLE

PAUSE_KEY = "pause"
MAX_NAME = 100


class StoredPause(msgspec.Struct, frozen=True, kw_only=True, tag="pause"):
    """Decisions are paused as long as this is in the store."""

    by: str
    since: float


_decoder = msgspec.json.Decoder(StoredPause)


class Pause:
    """In force from when it is asked for; answered when it is stored."""

    def __init__(
        self, records: Iterable[bytes], log: EventLog, *, number: Callable[[], int], clock_shift_s: float
    ) -> None:
        """`records` are what the store holds beside the directory."""
        self._log = log
        self._number = number
        self._clock_shift_s = clock_shift_s
        self._stored: StoredPause | None = None
        for record in records:
            try:
                self._stored = _decoder.decode(record)
            except UNREADABLE:  # another's
                continue
        self._wanted = self._stored
        self._write = -1
        self._tokens: list[int] = []
        self._until = math.inf

    @property
    def in_force(self) -> bool:
        """Whether nothing may be begun."""
        return self._wanted is not None

    @property
    def status(self) -> PauseStatus | None:
        """For people."""
        return None if self._wanted is None else PauseStatus(by=self._wanted.by, since=self._wanted.since)

    def asked(self, operation: PauseAsked, token: int, now: float) -> list[Instruction]:
        """An operator wants decisions to be paused, or to go on."""
        if self._write >= 0:
            problem = "another such wish is being stored; ask again"
            return [AnswerOperator(token, OperationAnswer(problem=problem))]
        if operation.paused == self.in_force:
            return [AnswerOperator(token, OperationAnswer(result=self._told()))]
        by = operation.by[:MAX_NAME]
        self._wanted = None
        if operation.paused:
            self._wanted = StoredPause(by=by, since=now + self._clock_shift_s)
        self._log.note(DecisionsPaused(by=by) if operation.paused else DecisionsResumed(by=by), now)
        self._write, self._until = self._number(), now + LOST_S
        self._tokens.append(token)
        value = None if self._wanted is None else msgspec.json.encode(self._wanted)
        return [Store(self._write, (StoreWrite(SESSIONS, PAUSE_KEY, value),))]

    def stored(self, write: int) -> list[Instruction]:
        """A write is in the store."""
        if write != self._write:
            return []
        self._stored, self._write, self._until = self._wanted, -1, math.inf
        return self._answer(OperationAnswer(result=self._told()))

    def failed(self, write: int, problem: str, now: float) -> list[Instruction]:
        """A write did not come about in time: all is as it was before."""
        if write != self._write:
            return []
        paused = self._wanted is not None
        self._wanted, self._write, self._until = self._stored, -1, math.inf
        by = "the agent, as that could not be stored"
        self._log.note(DecisionsResumed(by=by) if paused else DecisionsPaused(by=by), now)
        return self._answer(OperationAnswer(problem=f"that could not be stored: {problem}"))

    def timer(self) -> float:
        """When a write is given up."""
        return self._until

    def handle_timer(self, now: float) -> list[Instruction]:
        """Give up a write of which nothing was heard."""
        if now < self._until:
            return []
        return self.failed(self._write, "nothing was heard of the write", now)

    def _answer(self, answer: OperationAnswer) -> list[Instruction]:
        tokens, self._tokens = self._tokens, []
        return [AnswerOperator(token, answer) for token in tokens]

    def _told(self) -> bytes:
        return msgspec.json.encode({"paused": self.in_force})
