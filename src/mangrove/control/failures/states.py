"""The states of a broker in the eyes of an agent, and the one table that leads from each to the next."""

from __future__ import annotations

from enum import Enum, StrEnum, auto


class Health(StrEnum):
    """What an agent takes a broker for."""

    ALIVE = "alive"
    SUSPECTED = "suspected"
    """A probe was missed, or a client says that it is gone: nothing is done but to look closer."""
    FAILED = "failed"
    """Proven: new things go elsewhere at once, and after a grace what it had does, too."""
    RETURNING = "returning"
    """It answers again, and has not done so for long enough to be relied on."""


class Finding(Enum):
    """What a probe or a report comes to."""

    ANSWERED = auto()
    MISSED = auto()
    REPORTED = auto()
    """A client takes it for dead."""
    PROVEN = auto()
    """Enough probes were missed, or one was that two clients have reported."""
    REFUSED = auto()
    """Its connection was closed and nobody listens where it was: its process has ended."""
    STEADY = auto()
    """It has answered often enough in a row."""


TRANSITIONS: dict[tuple[Health, Finding], Health] = {
    (Health.ALIVE, Finding.ANSWERED): Health.ALIVE,
    (Health.ALIVE, Finding.MISSED): Health.SUSPECTED,
    (Health.ALIVE, Finding.REPORTED): Health.SUSPECTED,
    (Health.ALIVE, Finding.REFUSED): Health.FAILED,
    (Health.SUSPECTED, Finding.ANSWERED): Health.ALIVE,
    (Health.SUSPECTED, Finding.MISSED): Health.SUSPECTED,
    (Health.SUSPECTED, Finding.REPORTED): Health.SUSPECTED,
    (Health.SUSPECTED, Finding.PROVEN): Health.FAILED,
    (Health.SUSPECTED, Finding.REFUSED): Health.FAILED,
    (Health.FAILED, Finding.ANSWERED): Health.RETURNING,
    (Health.FAILED, Finding.MISSED): Health.FAILED,
    (Health.FAILED, Finding.REPORTED): Health.FAILED,
    (Health.FAILED, Finding.PROVEN): Health.FAILED,
    (Health.FAILED, Finding.REFUSED): Health.FAILED,
    (Health.RETURNING, Finding.ANSWERED): Health.RETURNING,
    (Health.RETURNING, Finding.MISSED): Health.RETURNING,
    (Health.RETURNING, Finding.REPORTED): Health.RETURNING,
    (Health.RETURNING, Finding.PROVEN): Health.FAILED,
    (Health.RETURNING, Finding.REFUSED): Health.FAILED,
    (Health.RETURNING, Finding.STEADY): Health.ALIVE,
}
"""FAILED is reached by proof alone, and left only through answers of the broker itself."""


def next_health(health: Health, finding: Finding) -> Health:
    """The state after a finding; KeyError where the table has none."""
    return TRANSITIONS[health, finding]
