"""What operators ask of a leader, handed to whoever can do it."""

from __future__ import annotations

from typing import Protocol

from mangrove.control.instructions import AnswerOperator, Instruction
from mangrove.model.agents.operations import OperationAnswer, PlanApplied, PlanRolledBack, PlanShown

PlanOperation = PlanApplied | PlanRolledBack | PlanShown


class PlanOperations(Protocol):
    """Whoever puts plans in force; it answers at once or later, by `AnswerOperator` with the same token."""

    def operator_asked(self, operation: PlanOperation, token: int, now: float) -> list[Instruction]:
        """An operator wants something of a plan."""

    def take_proposals(self) -> list[bytes]:
        """Documents that all agents are to hold before they are in force."""

    def policy_committed(self, version: int, body: bytes, now: float) -> list[Instruction]:
        """A document is in force, this leader's or an earlier one's."""

    def policy_refused(self, body: bytes, reason: str, now: float) -> list[Instruction]:
        """A document will not be in force."""


class NoPlans:
    """A domain in which no plan can be put in force."""

    def operator_asked(self, operation: PlanOperation, token: int, now: float) -> list[Instruction]:
        """Say so."""
        return refused(token, "no plans here")

    def take_proposals(self) -> list[bytes]:
        """None."""
        return []

    def policy_committed(self, version: int, body: bytes, now: float) -> list[Instruction]:
        """Nobody can use it."""
        return []

    def policy_refused(self, body: bytes, reason: str, now: float) -> list[Instruction]:
        """Nobody proposed it."""
        return []


def refused(token: int, problem: str) -> list[Instruction]:
    """Answer that nothing was done, and why."""
    return [AnswerOperator(token, OperationAnswer(problem=problem))]
