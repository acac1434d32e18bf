"""What operators asked of this agent and the brain has not answered yet."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable

import msgspec

from mangrove.agent.serving.outbox import Outbox
from mangrove.control.stimuli import OperatorAsked
from mangrove.model.agents.operations import MAX_OPERATION_BYTES, Operation, OperationAnswer

MAX_WAITING = 100
NOT_LEADING = "the agent that was asked does not lead any more; ask again"

_operation: msgspec.json.Decoder[Operation] = msgspec.json.Decoder(Operation)


class Operators:
    """Every question is answered once: by the brain, or with the reason why it never will be."""

    def __init__(self, outbox: Outbox, tell: Callable[[OperatorAsked], None], refused: Counter[str]) -> None:
        self._outbox = outbox
        self._tell = tell
        self._refused = refused
        self._tokens = 0
        self._waiting: OrderedDict[int, str] = OrderedDict()

    def heard(self, data: bytes, reply: str) -> None:
        """An operator asks; the brain is told unless that cannot be read or too many wait."""
        if len(data) > MAX_OPERATION_BYTES:
            self._refuse(reply, f"it is larger than {MAX_OPERATION_BYTES >> 20} MB", "too large")
            return
        try:
            operation = _operation.decode(data)
        except msgspec.DecodeError as error:
            self._refuse(reply, f"it cannot be read: {error}", "unreadable")
            return
        if len(self._waiting) >= MAX_WAITING:
            self._refuse(reply, f"{MAX_WAITING} operations wait already; try again later", "too many waited")
            return
        self._tokens += 1
        self._waiting[self._tokens] = reply
        self._tell(OperatorAsked(operation, self._tokens))

    def answer(self, token: int, answer: OperationAnswer) -> None:
        """The brain has answered; that is said also by an agent that has just stepped down."""
        reply = self._waiting.pop(token, None)
        if reply is not None:
            self._say(reply, answer)

    def drop(self) -> None:
        """This agent leads no more: whoever waits asks the next."""
        while self._waiting:
            _, reply = self._waiting.popitem(last=False)
            self._say(reply, OperationAnswer(problem=NOT_LEADING))

    def _refuse(self, reply: str, problem: str, reason: str) -> None:
        self._refused[f"operations refused: {reason}"] += 1
        self._say(reply, OperationAnswer(problem=problem))

    def _say(self, reply: str, answer: OperationAnswer) -> None:
        if not reply:
            return
        payload = msgspec.json.encode(answer)
        if len(payload) > MAX_OPERATION_BYTES:
            problem = f"the answer is larger than {MAX_OPERATION_BYTES >> 20} MB"
            payload = msgspec.json.encode(OperationAnswer(problem=problem))
        self._outbox.put(reply, payload, as_leader=False, max_bytes=MAX_OPERATION_BYTES)
