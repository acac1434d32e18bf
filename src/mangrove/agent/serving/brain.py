"""What the daemon asks of a brain; the one that decides is `control.brain.AgentBrain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mangrove.control.instructions import Instruction
from mangrove.control.stimuli import Stimulus
from mangrove.model.agents.directory import DirectoryAnswer, DirectoryQuestion
from mangrove.model.agents.status import AgentStatus
from mangrove.model.agents.usefulness import CapacityTold
from mangrove.model.events.event_log import Event


class Brain(Protocol):
    """Decides; does nothing itself. Times are of the monotonic clock."""

    def handle(self, stimulus: Stimulus, now: float) -> Sequence[Instruction]:
        """Something has happened."""

    def handle_timer(self, now: float) -> Sequence[Instruction]:
        """The time has come that `timer` named."""

    def timer(self) -> float:
        """When it wants to be called, if nothing happens before."""

    def status(self, now: float) -> AgentStatus:
        """Its account of itself."""

    def directory_page(self, question: DirectoryQuestion, now: float) -> DirectoryAnswer:
        """A page of the directory."""

    def capacity_problem(self, told: CapacityTold) -> str:
        """Why a broker cannot be told to carry that, or nothing."""

    def take_events(self) -> list[Event]:
        """Events since the last call."""
