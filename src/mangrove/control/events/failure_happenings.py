"""The kinds of things that happen when brokers die and return: detector, decision, moves."""

from __future__ import annotations

from typing import ClassVar

from mangrove.control.events.wording import listed
from mangrove.model.events.happening import Happening, Tone, kinds_by_name


class BrokerReported(Happening, frozen=True, kw_only=True):
    """A client takes a broker for dead that the agent took for alive."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    broker: str
    client: str
    evidence: str

    def sentence(self) -> str:
        """Who says so, and what follows."""
        return f"client {self.client} takes {self.broker} for dead ({self.evidence}): it is probed at once"


class LinkTroubled(Happening, frozen=True, kw_only=True):
    """A client cannot reach a broker that the agent finds alive."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    broker: str
    client: str

    def sentence(self) -> str:
        """Whose line it is."""
        return f"{self.broker} is alive, but client {self.client} does not reach it: its line is in trouble"


class BrokerFailed(Happening, frozen=True, kw_only=True):
    """A broker is proven dead."""

    tone: ClassVar[Tone] = Tone.BAD
    broker: str
    evidence: str
    reporters: tuple[str, ...] = ()
    """Clients that said so, too."""

    def sentence(self) -> str:
        """Which one, and by what evidence."""
        said = f"; reported by {listed(self.reporters)}" if self.reporters else ""
        return f"{self.broker} is dead: {self.evidence}{said}"


class HostFailed(Happening, frozen=True, kw_only=True):
    """All brokers of one host are dead together."""

    tone: ClassVar[Tone] = Tone.BAD
    host: str
    brokers: tuple[str, ...]

    def sentence(self) -> str:
        """Which one, with what ran there."""
        return f"host {self.host} is gone with {listed(self.brokers)}"


class BrokerReturned(Happening, frozen=True, kw_only=True):
    """A broker that was dead answers again, steadily."""

    tone: ClassVar[Tone] = Tone.GOOD
    broker: str
    after_s: float
    replaced: bool
    """Whether what it had is served elsewhere by now."""

    def sentence(self) -> str:
        """After how long, and what becomes of it."""
        what = "serves new topics; what it had stays where it is" if self.replaced else "nothing was moved"
        return f"{self.broker} is back after {self.after_s:.1f} s: {what}"


class HostReturned(Happening, frozen=True, kw_only=True):
    """A broker of a host that was gone answers again."""

    tone: ClassVar[Tone] = Tone.GOOD
    host: str

    def sentence(self) -> str:
        """Which one."""
        return f"host {self.host} is back"


class FailoverDecided(Happening, frozen=True, kw_only=True):
    """What dead brokers had is served by others from now on."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    failed: tuple[str, ...]
    """All that are dead."""
    case: str
    """The case that the decision follows, in words."""
    head: str
    """Where is published that has no other place."""
    moved: dict[str, int]
    """Topics by the broker that they go to."""
    why: dict[str, int]
    """Topics by why they go there."""
    mirrors: int = 0
    """Topics that have another mirror from now on."""
    examples: tuple[str, ...] = ()

    def sentence(self) -> str:
        """What goes where, and why."""
        where = listed(f"{count} to {broker}" for broker, count in self.moved.items())
        why = listed(f"{count} by {reason}" for reason, count in self.why.items())
        mirrors = f"; {self.mirrors} have another mirror" if self.mirrors else ""
        return (
            f"without {listed(self.failed)} ({self.case}): {sum(self.moved.values())} topics go, {where} "
            f"({why}){mirrors}; the head is {self.head}"
        )


class CaseKept(Happening, frozen=True, kw_only=True):
    """A case was computed for a state that no plan foresaw."""

    failed: tuple[str, ...]
    items: int
    joint_ok: float
    feasible: bool

    def sentence(self) -> str:
        """For which state, and how good it is."""
        risk = f"risk of any overload {1.0 - self.joint_ok:.2g}"
        kept = "" if self.feasible else "; its bounds cannot be kept"
        return f"a case was computed for {listed(self.failed)} being down: {self.items} items, {risk}{kept}"


class CasesRefused(Happening, frozen=True, kw_only=True):
    """Cases that an earlier leader kept serve no longer."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    why: str

    def sentence(self) -> str:
        """Why."""
        return f"kept cases are not used: {self.why}"


class RestartOrdered(Happening, frozen=True, kw_only=True):
    """A broker whose process is there and does not answer is to be killed and started anew."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    broker: str
    attempt: int

    def sentence(self) -> str:
        """Which one, and for which time."""
        return f"{self.broker} is frozen: who supervises it is to start it anew (attempt {self.attempt})"


FAILURES = kinds_by_name(
    BrokerReported,
    LinkTroubled,
    BrokerFailed,
    HostFailed,
    BrokerReturned,
    HostReturned,
    FailoverDecided,
    CaseKept,
    CasesRefused,
    RestartOrdered,
)
