"""What happens when new subscribers are led to a linked domain, and when they are called back."""

from __future__ import annotations

from typing import ClassVar

from mangrove.control.events.wording import clients, listed
from mangrove.model.events.happening import Happening, Tone, kinds_by_name


class SteeringDecided(Happening, frozen=True, kw_only=True):
    """Subscribers of a topic would better be served in a linked domain, which is asked to take them."""

    errand: str
    topic: str
    domain: str
    clients: int
    sources: dict[str, int]
    """Domains that publish what is asked for, and how many topics each."""
    home_crossings: float
    crossings: float
    home_ms: float
    there_ms: float
    slack_ms: float
    """How much longer than at home a client's round trip may be."""
    why: str

    def sentence(self) -> str:
        """Who, where to, and what is spared."""
        return (
            f"{self.topic} ({clients(self.clients)}) is to be served in {self.domain}: {self.why}; "
            f"who has a round trip longer by {self.slack_ms:.3g} ms stays"
        )


class SteeringRefused(Happening, frozen=True, kw_only=True):
    """A linked domain takes none of these topics now; they may be asked for again."""

    errand: str
    domain: str
    topics: tuple[str, ...]
    why: str

    def sentence(self) -> str:
        """Who took what not."""
        return f"{self.domain} does not take {listed(self.topics)} now: {self.why}"


class SubscribersSteered(Happening, frozen=True, kw_only=True):
    """The subscribers of a topic have been told, and this became of them."""

    errand: str
    topic: str
    broker: str
    moved: int
    stayed: dict[str, int]
    """Reasons, and how many had each."""

    def sentence(self) -> str:
        """How many are where."""
        reasons = "; ".join(f"{count} stayed: {why}" for why, count in self.stayed.items())
        told = f"{clients(self.moved)} of {self.topic} served at {self.broker}"
        return f"{told}; {reasons}" if reasons else told


class GuestsRecalled(Happening, frozen=True, kw_only=True):
    """A linked domain has had too much load for a while: those who were led there come home."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL

    errand: str
    domain: str
    topics: tuple[str, ...]
    clients: int

    def sentence(self) -> str:
        """Who, and why."""
        return f"{clients(self.clients)} come home from {self.domain}, whose edges have no room any more"


STEERING = kinds_by_name(SteeringDecided, SteeringRefused, SubscribersSteered, GuestsRecalled)
