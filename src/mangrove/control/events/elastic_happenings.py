"""The kinds of things that happen when brokers are switched off and on with the load."""

from __future__ import annotations

from typing import ClassVar

from mangrove.model.events.happening import Happening, Tone, kinds_by_name


class BrokerLeaves(Happening, frozen=True, kw_only=True):
    """A broker is not needed: its topics are moved, so that it can be switched off."""

    broker: str
    topics: int
    use: float
    """Of the others without it, on the metric that is used most."""

    def sentence(self) -> str:
        """Which one, and why it can go."""
        return (
            f"{self.broker} is not needed, the others would be used to {self.use:.0%} without it: "
            f"its {self.topics} topics go, then it is switched off"
        )


class BrokerStays(Happening, frozen=True, kw_only=True):
    """A broker that was to be switched off is not."""

    broker: str
    why: str

    def sentence(self) -> str:
        """Why."""
        return f"{self.broker} stays on: {self.why}"


class BrokerSwitchedOff(Happening, frozen=True, kw_only=True):
    """A broker has nothing left to serve."""

    broker: str

    def sentence(self) -> str:
        """Which one."""
        return f"{self.broker} is switched off"


class BrokerSwitchedOn(Happening, frozen=True, kw_only=True):
    """A broker is started before load asks for it."""

    broker: str
    why: str

    def sentence(self) -> str:
        """Which one, and what for."""
        return f"{self.broker} is switched on: {self.why}"


class BrokerJoined(Happening, frozen=True, kw_only=True):
    """A broker that was switched on answers, and may be used."""

    tone: ClassVar[Tone] = Tone.GOOD
    broker: str
    after_s: float

    def sentence(self) -> str:
        """After how long."""
        return f"{self.broker} may be used, {self.after_s:.1f} s after it was switched on"


ELASTIC = kinds_by_name(BrokerLeaves, BrokerStays, BrokerSwitchedOff, BrokerSwitchedOn, BrokerJoined)
