"""The kinds of things that happen at an agent, each with its sentence for `mangrove story`."""

from __future__ import annotations

from typing import ClassVar

from mangrove.control.events.wording import listed, placed, shares
from mangrove.model.events.happening import Happening, Tone, kinds_by_name


class AgentLeads(Happening, frozen=True, kw_only=True):
    """This agent decides for its domain from now on."""

    term: int
    records: int
    sessions: int

    def sentence(self) -> str:
        """What it took over."""
        return (
            f"leads in term {self.term}, with {self.records} directory records "
            f"and {self.sessions} open sessions of before"
        )


class AgentFollows(Happening, frozen=True, kw_only=True):
    """This agent decides nothing any more."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    term: int
    sessions: int

    def sentence(self) -> str:
        """What it left."""
        return f"no longer leads (term {self.term}); {self.sessions} open sessions are its successor's"


class BrokerOverloaded(Happening, frozen=True, kw_only=True):
    """A broker must shed load."""

    tone: ClassVar[Tone] = Tone.BAD
    broker: str
    utilisation: dict[str, float]
    overloaded: tuple[str, ...]
    triggers: tuple[str, ...] = ()

    def sentence(self) -> str:
        """By which metrics, and how much."""
        because = [*self.overloaded, *self.triggers]
        return f"{self.broker} is overloaded by {listed(because)} ({shares(self.utilisation)})"


class BrokerHigh(Happening, frozen=True, kw_only=True):
    """A broker takes no more load."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    broker: str
    utilisation: dict[str, float]

    def sentence(self) -> str:
        """How loaded it is."""
        return f"{self.broker} is highly loaded ({shares(self.utilisation)})"


class BrokerEased(Happening, frozen=True, kw_only=True):
    """A broker has room again."""

    tone: ClassVar[Tone] = Tone.GOOD
    broker: str
    utilisation: dict[str, float]

    def sentence(self) -> str:
        """How loaded it is."""
        return f"{self.broker} has room again ({shares(self.utilisation)})"


class BrokerLost(Happening, frozen=True, kw_only=True):
    """A broker does not answer."""

    tone: ClassVar[Tone] = Tone.BAD
    broker: str
    problem: str

    def sentence(self) -> str:
        """Which one, and what is known."""
        return f"{self.broker} does not answer: {self.problem}"


class BrokerFound(Happening, frozen=True, kw_only=True):
    """A broker answers again."""

    tone: ClassVar[Tone] = Tone.GOOD
    broker: str

    def sentence(self) -> str:
        """Which one."""
        return f"{self.broker} answers again"


class NeighbourOnline(Happening, frozen=True, kw_only=True):
    """The agent of a linked domain is there."""

    tone: ClassVar[Tone] = Tone.GOOD
    peer: str
    accepts: bool
    """Whether it takes load from this domain."""

    def sentence(self) -> str:
        """Who, and what it offers."""
        return (
            f"the agent of {self.peer} is there and takes {'load' if self.accepts else 'no load'} from here"
        )


class NeighbourOffline(Happening, frozen=True, kw_only=True):
    """The agent of a linked domain is not heard of any more."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    peer: str

    def sentence(self) -> str:
        """Who."""
        return f"the agent of {self.peer} is not heard of any more"


class TopicPlaced(Happening, frozen=True, kw_only=True):
    """A topic's first subscriber was given a broker."""

    topic: str
    broker: str
    policy: str
    candidates: dict[str, float | None]
    """Headroom by broker; None where no capacity is known."""
    why: str
    crowded: bool = False
    """No broker had room for it."""

    def sentence(self) -> str:
        """Where, and why there."""
        return f"{self.topic} is served at {self.broker}: {self.why} ({placed(self.candidates)})"


class PublishingMoved(Happening, frozen=True, kw_only=True):
    """Local publishers of a topic publish at another broker from now on."""

    topic: str
    at: str
    why: str

    def sentence(self) -> str:
        """Where, and why there."""
        return f"{self.topic} is published at {self.at}: {self.why}"


class StoreLost(Happening, frozen=True, kw_only=True):
    """What must outlive the agent cannot be written down: nothing is moved."""

    tone: ClassVar[Tone] = Tone.BAD
    problem: str

    def sentence(self) -> str:
        """What is known."""
        return f"the store does not answer, so nothing is moved: {self.problem}"


class StoreFound(Happening, frozen=True, kw_only=True):
    """Writes reach the store again."""

    tone: ClassVar[Tone] = Tone.GOOD

    def sentence(self) -> str:
        """That it is so."""
        return "the store answers again"


class CongestionDeclared(Happening, frozen=True, kw_only=True):
    """A broker is overloaded, and neither this domain nor a neighbour has room: less must be sent."""

    tone: ClassVar[Tone] = Tone.BAD
    broker: str
    metrics: dict[str, float]
    tried: tuple[str, ...]
    """Why each broker or domain takes nothing."""

    def sentence(self) -> str:
        """Who is full, and who else."""
        return (
            f"{self.broker} is congested ({shares(self.metrics)}), nobody has room: {'; '.join(self.tried)}"
        )


class CongestionCleared(Happening, frozen=True, kw_only=True):
    """A congested broker has left overload."""

    tone: ClassVar[Tone] = Tone.GOOD
    broker: str

    def sentence(self) -> str:
        """Which one."""
        return f"{self.broker} is congested no more"


class PlainClientDisconnected(Happening, frozen=True, kw_only=True):
    """A client that cannot be told to move was disconnected, so that it connects elsewhere."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    session: str
    broker: str
    cid: int
    name: str
    messages_s: float
    deadline_ms: float | None
    expected_loss: float
    """Messages, if it is back within the usual time."""

    def sentence(self) -> str:
        """Who, and what it may cost."""
        who = f"{self.name or 'a plain client'} (connection {self.cid})"
        limit = "no deadline" if self.deadline_ms is None else f"{self.deadline_ms:g} ms"
        return (
            f"{who} of {limit} is disconnected from {self.broker}: {self.messages_s:.0f} messages/s go, "
            f"some {self.expected_loss:.0f} may be lost"
        )


class PlainClientReturned(Happening, frozen=True, kw_only=True):
    """A client that was disconnected is seen at a broker again."""

    tone: ClassVar[Tone] = Tone.GOOD
    name: str
    broker: str
    after_s: float
    estimated_loss: float
    """Messages: its rate times the time until it was seen."""

    def sentence(self) -> str:
        """Where, and what it cost at most."""
        return (
            f"{self.name} is at {self.broker} after {self.after_s:.1f} s, "
            f"at most {self.estimated_loss:.0f} messages lost"
        )


GENERAL = kinds_by_name(
    AgentLeads,
    AgentFollows,
    BrokerOverloaded,
    BrokerHigh,
    BrokerEased,
    BrokerLost,
    BrokerFound,
    NeighbourOnline,
    NeighbourOffline,
    TopicPlaced,
    PublishingMoved,
    StoreLost,
    StoreFound,
    CongestionDeclared,
    CongestionCleared,
    PlainClientDisconnected,
    PlainClientReturned,
)
