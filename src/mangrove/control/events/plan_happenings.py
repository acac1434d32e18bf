"""What happens with plans: found, proposed, refused, put in force, rolled out."""

from __future__ import annotations

from typing import ClassVar

from mangrove.control.events.wording import listed
from mangrove.model.events.happening import Happening, Tone, kinds_by_name


class PlanProposed(Happening, frozen=True, kw_only=True):
    """A plan was found that an operator may put in force."""

    name: str
    digest: str
    moves: int
    joint_before: float | None
    joint_after: float

    def sentence(self) -> str:
        """What it would do."""
        return (
            f"plan {self.name} ({self.digest}) is proposed: {_topics(self.moves)} would move, "
            f"{_chances(self.joint_before, self.joint_after)}"
        )


class PlanRefused(Happening, frozen=True, kw_only=True):
    """A plan is not put in force."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    name: str
    why: str

    def sentence(self) -> str:
        """Which, and why."""
        return f"plan {self.name} is refused: {self.why}"


class PlanPutInForce(Happening, frozen=True, kw_only=True):
    """All agents hold a plan: from now on it says where topics belong."""

    version: int
    digest: str
    by: str
    what: str
    items: int
    moves: int
    joint_before: float | None
    joint_after: float

    def sentence(self) -> str:
        """Which, on whose word, and what follows."""
        return (
            f"plan {self.version} ({self.digest}, {self.what} by {self.by or 'an operator'}) is in force: "
            f"{_topics(self.moves)} move, {_chances(self.joint_before, self.joint_after)}"
        )


class RolloutResumed(Happening, frozen=True, kw_only=True):
    """A new leader goes on with what its predecessor had begun."""

    version: int

    def sentence(self) -> str:
        """Which."""
        return f"the moves of plan {self.version} go on under this leader"


class PlannedMoveDecided(Happening, frozen=True, kw_only=True):
    """A topic's clients are to be served where the plan says."""

    version: int
    topic: str
    sources: tuple[str, ...]
    to: str
    mirror: str = ""
    clients: int

    def sentence(self) -> str:
        """What goes where."""
        beside = f", mirrored at {self.mirror}" if self.mirror else ""
        return (
            f"{self.topic} ({self.clients} clients) goes from {listed(self.sources)} to {self.to}{beside} "
            f"by plan {self.version}"
        )


class PlanRolledOut(Happening, frozen=True, kw_only=True):
    """Everything that a plan wanted to move has moved, or could not."""

    tone: ClassVar[Tone] = Tone.GOOD
    version: int
    topics: int
    moved: int
    failed: int
    silent: int
    skipped: dict[str, int]
    seconds: float

    def sentence(self) -> str:
        """How many, and what became of the others."""
        counts = ((self.failed, "could not"), (self.silent, "did not say"))
        rest = [f"{count} {word}" for count, word in counts if count]
        rest += [f"{count} topics stay: {why}" for why, count in self.skipped.items()]
        extra = f" ({'; '.join(rest)})" if rest else ""
        return (
            f"plan {self.version} is rolled out: {_topics(self.topics)}, {self.moved} subscriptions moved in "
            f"{self.seconds:.1f} s{extra}"
        )


class RolloutSuperseded(Happening, frozen=True, kw_only=True):
    """A later plan came before an earlier one had moved everything: what is left is the later one's."""

    version: int
    by: int

    def sentence(self) -> str:
        """Which by which."""
        return f"plan {self.by} takes the place of plan {self.version}, which had not moved everything"


def _topics(count: int) -> str:
    return f"{count} topic{'' if count == 1 else 's'}"


def _chances(before: float | None, after: float) -> str:
    was = "unknown" if before is None else f"{1 - before:.3g}"
    return f"risk of any overload {was} → {1 - after:.3g}"


PLANS = kinds_by_name(
    PlanProposed,
    PlanRefused,
    PlanPutInForce,
    RolloutResumed,
    PlannedMoveDecided,
    PlanRolledOut,
    RolloutSuperseded,
)
