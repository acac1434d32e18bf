"""What happens in an offload session, here and at the neighbour that takes load."""

from __future__ import annotations

from typing import ClassVar

from mangrove.control.events.wording import clients, counted, listed, placed, shares
from mangrove.model.events.happening import Happening, Tone, kinds_by_name


class SessionOpened(Happening, frozen=True, kw_only=True):
    """Load of a broker is to be moved."""

    session: str
    broker: str
    metrics: dict[str, float]
    """Overloaded ones, with their utilisation."""
    need: dict[str, float]
    """How much must go, in the metric's own unit."""
    candidates: dict[str, float | None]
    """Brokers that may take it, with their headroom."""
    left_out: dict[str, str]
    """Why the others may not."""

    def sentence(self) -> str:
        """Which broker, by what, and where to."""
        return (
            f"session {self.session} relieves {self.broker} ({shares(self.metrics)}); "
            f"candidates: {placed(self.candidates)}"
        )


class NeighboursAsked(Happening, frozen=True, kw_only=True):
    """A session looks for room in linked domains."""

    session: str
    peers: tuple[str, ...]
    why: str

    def sentence(self) -> str:
        """Whom, and why not at home."""
        return f"session {self.session} asks {listed(self.peers)} for room: {self.why}"


class NeighbourAnswered(Happening, frozen=True, kw_only=True):
    """A linked domain has told what it can take."""

    session: str
    peer: str
    brokers: dict[str, float | None]

    def sentence(self) -> str:
        """Which brokers."""
        return f"{self.peer} offers session {self.session}: {placed(self.brokers)}"


class MoveDecided(Happening, frozen=True, kw_only=True):
    """A topic's clients are to be served elsewhere."""

    session: str
    topic: str
    source: str
    to: str
    domain: str = ""
    clients: int
    publishers: bool = False
    whole: bool = True
    deadline_ms: float | None = None
    audience: str = ""
    relief: dict[str, float]
    cost: dict[str, float]
    why: str = ""

    def sentence(self) -> str:
        """What goes where, and why."""
        where = f"{self.to} of {self.domain}" if self.domain else self.to
        limit = "no deadline" if self.deadline_ms is None else f"{self.deadline_ms:g} ms"
        reason = f": {self.why}" if self.why else ""
        return (
            f"{self.topic} ({limit}, {clients(self.clients)}) is to go from {self.source} to {where}{reason}"
        )


class TopicMoved(Happening, frozen=True, kw_only=True):
    """All clients of a topic that could be moved are served elsewhere."""

    tone: ClassVar[Tone] = Tone.GOOD
    session: str
    topic: str
    to: str
    moved: int
    failed: int = 0
    vanished: int = 0
    """Clients that left before they had moved."""
    silent: int = 0
    """Clients that did not confirm in time."""
    held_ms: float = 0.0
    """The longest that a message was held up."""
    repeated: int = 0

    def sentence(self) -> str:
        """How many, and what became of the others."""
        rest = [
            f"{count} {word}"
            for count, word in (
                (self.failed, "could not"),
                (self.vanished, "left"),
                (self.silent, "did not say"),
            )
            if count
        ]
        held = f", held up by at most {self.held_ms:.0f} ms" if self.held_ms else ""
        others = f" ({', '.join(rest)})" if rest else ""
        return f"{self.topic} is served at {self.to}: {clients(self.moved)} moved{others}{held}"


class AdmissionRefused(Happening, frozen=True, kw_only=True):
    """A linked domain does not take what it had room for."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    session: str
    peer: str
    topics: tuple[str, ...]
    why: str

    def sentence(self) -> str:
        """Who, and what."""
        return f"{self.peer} does not take {listed(self.topics)} of session {self.session}: {self.why}"


class SessionEnded(Happening, frozen=True, kw_only=True):
    """A session is over; its brokers are busy no more."""

    session: str
    broker: str
    outcome: str
    topics: int = 0
    moved: int = 0
    seconds: float = 0.0

    def sentence(self) -> str:
        """What came of it."""
        return (
            f"session {self.session} of {self.broker} ended after {self.seconds:.1f} s: {self.outcome}; "
            f"{clients(self.moved)} of {counted(self.topics, 'topic')} moved"
        )


class SessionResumed(Happening, frozen=True, kw_only=True):
    """A session of an earlier leader goes on."""

    session: str
    broker: str
    topics: int

    def sentence(self) -> str:
        """Which one."""
        return f"session {self.session} of {self.broker} goes on with {self.topics} topics"


class SessionUndone(Happening, frozen=True, kw_only=True):
    """A session of an earlier leader is ended, and nothing of it moves."""

    session: str
    broker: str
    why: str

    def sentence(self) -> str:
        """Which one, and why."""
        return f"session {self.session} of {self.broker} is given up: {self.why}"


class LoadAdmitted(Happening, frozen=True, kw_only=True):
    """This domain takes clients of a linked one."""

    session: str
    peer: str
    topics: dict[str, str]
    """Topic → broker."""
    refused: dict[str, str]

    def sentence(self) -> str:
        """Whose, and where they go."""
        taken = listed(f"{topic} at {broker}" for topic, broker in self.topics.items())
        refused = listed(f"{topic} ({why})" for topic, why in self.refused.items())
        return f"takes from {self.peer} for session {self.session}: {taken}; refuses {refused}"


class AdmissionEnded(Happening, frozen=True, kw_only=True):
    """A linked domain's session is over here."""

    session: str
    peer: str
    brokers: tuple[str, ...]
    why: str

    def sentence(self) -> str:
        """Which brokers are free again, and why."""
        return f"session {self.session} of {self.peer} is over here ({self.why}): {listed(self.brokers)}"


SESSIONS = kinds_by_name(
    SessionOpened,
    NeighboursAsked,
    NeighbourAnswered,
    MoveDecided,
    TopicMoved,
    AdmissionRefused,
    SessionEnded,
    SessionResumed,
    SessionUndone,
    LoadAdmitted,
    AdmissionEnded,
)
