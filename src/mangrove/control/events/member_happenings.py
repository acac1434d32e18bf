"""What happens among the agents of a domain: members, policies, hand-overs and pauses."""

from __future__ import annotations

from typing import ClassVar

from mangrove.control.events.wording import listed
from mangrove.model.events.happening import Happening, Tone, kinds_by_name


class MembersChanged(Happening, frozen=True, kw_only=True):
    """Other agents than before are to hold a policy before it is in force."""

    members: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    def sentence(self) -> str:
        """Who is one, and who no longer."""
        gone = f"; {listed(self.left_out)} did not answer" if self.left_out else ""
        return f"policies are agreed on by {listed(self.members)}{gone}"


class PolicyProposed(Happening, frozen=True, kw_only=True):
    """All agents are to hold a policy."""

    version: int
    size_bytes: int
    members: tuple[str, ...]

    def sentence(self) -> str:
        """Which, and who."""
        return f"policy {self.version} ({self.size_bytes} bytes) is to be held by {listed(self.members)}"


class PolicyCommitted(Happening, frozen=True, kw_only=True):
    """All live agents hold a policy: it is in force."""

    version: int
    members: tuple[str, ...]
    completed: bool = False
    """Whether an earlier leader had proposed it."""

    def sentence(self) -> str:
        """Which, and who holds it."""
        whose = ", as an earlier leader wanted" if self.completed else ""
        return f"policy {self.version} is in force{whose}: {listed(self.members)} hold it"


class PolicyDiscarded(Happening, frozen=True, kw_only=True):
    """A policy that was proposed is not put in force."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    version: int
    reason: str

    def sentence(self) -> str:
        """Why."""
        return f"policy {self.version} is not put in force: {self.reason}"


class LeadershipHandedOver(Happening, frozen=True, kw_only=True):
    """An operator wanted another agent to lead."""

    to: str
    term: int

    def sentence(self) -> str:
        """To whom."""
        return f"hands over to {self.to}, as an operator asked (term {self.term})"


class DecisionsPaused(Happening, frozen=True, kw_only=True):
    """Nothing is decided automatically any more."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    by: str

    def sentence(self) -> str:
        """By whom."""
        return f"automatic decisions are paused by {self.by or 'an operator'}: what is under way ends"


class DecisionsResumed(Happening, frozen=True, kw_only=True):
    """Decisions are taken automatically again."""

    tone: ClassVar[Tone] = Tone.GOOD
    by: str

    def sentence(self) -> str:
        """By whom."""
        return f"automatic decisions are resumed by {self.by or 'an operator'}"


MEMBERS = kinds_by_name(
    MembersChanged,
    PolicyProposed,
    PolicyCommitted,
    PolicyDiscarded,
    LeadershipHandedOver,
    DecisionsPaused,
    DecisionsResumed,
)
