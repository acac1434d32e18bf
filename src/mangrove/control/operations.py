"""What operators ask of a leader, and how that is refused."""

from __future__ import annotations

from mangrove.control.instructions import AnswerOperator, Instruction
from mangrove.model.agents.operations import OperationAnswer


def refused(token: int, problem: str) -> list[Instruction]:
    """Answer that nothing was done, and why."""
    return [AnswerOperator(token, OperationAnswer(problem=problem))]
