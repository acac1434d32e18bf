"""Operators are answered once each, whatever they ask."""

from __future__ import annotations

from collections import Counter

import msgspec

from mangrove.agent.serving.operators import MAX_WAITING, NOT_LEADING, Operators
from mangrove.agent.serving.outbox import Outbox
from mangrove.control.stimuli import OperatorAsked
from mangrove.model.agents.operations import MAX_OPERATION_BYTES, OperationAnswer, PauseAsked, PlanApplied


class Desk:
    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self.told: list[OperatorAsked] = []
        self.outbox = Outbox(self.refused)
        self.operators = Operators(self.outbox, self.told.append, self.refused)

    def answers(self) -> dict[str, OperationAnswer]:
        waiting = self.outbox._waiting
        said = [waiting.get_nowait() for _ in range(waiting.qsize())]
        return {each.subject: msgspec.json.decode(each.payload, type=OperationAnswer) for each in said}


PAUSE = msgspec.json.encode(PauseAsked(paused=True, by="ann"))


async def test_the_brain_is_told_and_its_answer_goes_to_who_asked() -> None:
    desk = Desk()
    plan = bytes(range(256)) * 8_000
    desk.operators.heard(PAUSE, "_INBOX.1")
    desk.operators.heard(msgspec.json.encode(PlanApplied(plan=plan)), "_INBOX.2")
    assert [each.operation for each in desk.told] == [
        PauseAsked(paused=True, by="ann"),
        PlanApplied(plan=plan),
    ]
    desk.operators.answer(desk.told[1].token, OperationAnswer(result=plan))
    desk.operators.answer(desk.told[1].token, OperationAnswer(problem="a second time"))
    assert desk.answers() == {"_INBOX.2": OperationAnswer(result=plan)}


async def test_nonsense_and_what_is_too_much_is_refused_with_the_reason() -> None:
    desk = Desk()
    desk.operators.heard(b'{"type": "destroy"}', "_INBOX.1")
    desk.operators.heard(b" " * (MAX_OPERATION_BYTES + 1), "_INBOX.2")
    for number in range(MAX_WAITING + 1):
        desk.operators.heard(PAUSE, f"_INBOX.many{number}")
    answers = desk.answers()
    assert "cannot be read" in answers["_INBOX.1"].problem
    assert "larger than" in answers["_INBOX.2"].problem
    assert "wait already" in answers[f"_INBOX.many{MAX_WAITING}"].problem
    assert len(desk.told) == MAX_WAITING
    assert sum(desk.refused.values()) == 3


async def test_who_waits_hears_that_the_agent_leads_no_more() -> None:
    desk = Desk()
    desk.operators.heard(PAUSE, "_INBOX.1")
    desk.operators.drop()
    desk.operators.answer(desk.told[0].token, OperationAnswer())
    assert desk.answers() == {"_INBOX.1": OperationAnswer(problem=NOT_LEADING)}
