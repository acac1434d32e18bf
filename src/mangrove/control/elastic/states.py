"""The states of a broker that may be switched off, and the one table that leads from each to the next."""

from __future__ import annotations

from enum import Enum, StrEnum, auto


class Power(StrEnum):
    """Whether a broker is to run."""

    ON = "on"
    LEAVING = "leaving"
    """Its topics are moved to others, without loss; it is given nothing new."""
    CHECKING = "checking"
    """It is looked whether anybody is left who cannot be told to move."""
    OFF = "off"
    STARTING = "starting"


class Step(Enum):
    """What takes a broker from one state to the next."""

    NOT_NEEDED = auto()
    EMPTY = auto()
    NOBODY_LEFT = auto()
    STAYS = auto()
    """Somebody cannot move, or load asks for it after all."""
    NEEDED = auto()
    ANSWERED = auto()
    NOT_STARTED = auto()


TRANSITIONS: dict[tuple[Power, Step], Power] = {
    (Power.ON, Step.NOT_NEEDED): Power.LEAVING,
    (Power.LEAVING, Step.EMPTY): Power.CHECKING,
    (Power.LEAVING, Step.STAYS): Power.ON,
    (Power.CHECKING, Step.NOBODY_LEFT): Power.OFF,
    (Power.CHECKING, Step.STAYS): Power.ON,
    (Power.OFF, Step.NEEDED): Power.STARTING,
    (Power.OFF, Step.ANSWERED): Power.ON,
    (Power.STARTING, Step.ANSWERED): Power.ON,
    (Power.STARTING, Step.NOT_STARTED): Power.OFF,
}
"""Nothing is switched off that has not been emptied and looked at."""


def next_power(power: Power, step: Step) -> Power:
    """The state after a step; KeyError where the table has none."""
    return TRANSITIONS[power, step]
