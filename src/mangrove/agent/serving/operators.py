"""What operators asked of this agent and the brain has not answered yet."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable

import msgspec

from mangrove.agent.serving.outbox import Outbox
from mangrove.control.stimuli import OperatorAsked
from mangrove.host.audit.audit_log import AuditLog
from mangrove.model.agents.operations import (
    MAX_OPERATION_BYTES,
    Operation,
    OperationAnswer,
    PlanShown,
)
from mangrove.model.audit.entry import AuditKind, Fact
from mangrove.model.unreadable import UNREADABLE

MAX_WAITING = 100
NOT_LEADING = "the agent that was asked does not lead any more; ask again"

_operation: msgspec.json.Decoder[Operation] = msgspec.json.Decoder(Operation)


class Operators:
    """Every question is answered once: by the brain, or with the reason why it never will be."""

    def __init__(
        self,
        outbox: Outbox,
        tell: Callable[[OperatorAsked], None],
        refused: Counter[str],
        audit: AuditLog | None = None,
    ) -> None:
        self._outbox = outbox
        self._audit = audit or AuditLog()
        self._tell = tell
        self._refused = refused
        self._tokens = 0
        self._waiting: OrderedDict[int, tuple[str, Operation]] = OrderedDict()

    def heard(self, data: bytes, reply: str) -> None:
        """An operator asks; the brain is told unless that cannot be read or too many wait."""
        if len(data) > MAX_OPERATION_BYTES:
            self._refuse(reply, f"it is larger than {MAX_OPERATION_BYTES >> 20} MB", "too large")
            return
        try:
            operation = _operation.decode(data)
        except UNREADABLE as error:
            self._refuse(reply, f"it cannot be read: {error}", "unreadable")
            return
        if len(self._waiting) >= MAX_WAITING:
            self._refuse(reply, f"{MAX_WAITING} operations wait already; try again later", "too many waited")
            return
        self._tokens += 1
        self._waiting[self._tokens] = (reply, operation)
        self._tell(OperatorAsked(operation, self._tokens))

    def answer(self, token: int, answer: OperationAnswer) -> None:
        """The brain has answered; that is said also by an agent that has just stepped down."""
        waiting = self._waiting.pop(token, None)
        if waiting is not None:
            reply, operation = waiting
            self._note(operation, answer)
            self._say(reply, answer)

    def drop(self) -> None:
        """This agent leads no more: whoever waits asks the next."""
        while self._waiting:
            _, (reply, operation) = self._waiting.popitem(last=False)
            answer = OperationAnswer(problem=NOT_LEADING)
            self._note(operation, answer)
            self._say(reply, answer)

    def _note(self, operation: Operation, answer: OperationAnswer) -> None:
        """Who changed what, or tried to. To look is no change."""
        if isinstance(operation, PlanShown) or getattr(operation, "check", False):
            return
        facts: dict[str, Fact] = {
            name: value
            for name, value in msgspec.structs.asdict(operation).items()
            if isinstance(value, str | int | bool) and value not in ("", False)
        }
        kind = AuditKind.OPERATION_REFUSED if answer.problem else AuditKind.OPERATION_CARRIED_OUT
        if answer.problem:
            facts["problem"] = answer.problem
        self._audit.add(kind, {"operation": type(operation).__name__, **facts})

    def _refuse(self, reply: str, problem: str, reason: str) -> None:
        self._refused[f"operations refused: {reason}"] += 1
        self._audit.note(AuditKind.OPERATION_REFUSED, reason=reason)
        self._say(reply, OperationAnswer(problem=problem))

    def _say(self, reply: str, answer: OperationAnswer) -> None:
        if not reply:
            return
        payload = msgspec.json.encode(answer)
        if len(payload) > MAX_OPERATION_BYTES:
            problem = f"the answer is larger than {MAX_OPERATION_BYTES >> 20} MB"
            payload = msgspec.json.encode(OperationAnswer(problem=problem))
        self._outbox.put(reply, payload, as_leader=False, max_bytes=MAX_OPERATION_BYTES)
