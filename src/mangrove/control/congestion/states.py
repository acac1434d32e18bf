"""The states of congestion control, and every transition between them."""

from __future__ import annotations

from enum import Enum, StrEnum, auto


class ControlState(StrEnum):
    """How a domain stands."""

    CLEAR = "clear"
    """Nobody is limited because of congestion."""
    CONGESTED = "congested"
    """Limits follow, period by period, from what brokers can carry and who is useful."""
    LIFTING = "lifting"
    """There has been room for a while: limits are raised step by step, the most important first."""


class Change(Enum):
    """What takes congestion control from one state to the next."""

    SHORTAGE = auto()
    """A broker is overloaded, and nobody has room for what it must lose; or limits must be lower."""
    ROOM_LASTS = auto()
    """More could have been said for as long as `lift_after_s`."""
    NOTHING_TO_RAISE = auto()
    """What is still limited does not fit."""
    NOBODY_LIMITED = auto()
    """All may say what they want, and what they want fits."""


TRANSITIONS: dict[tuple[ControlState, Change], ControlState] = {
    **{(state, Change.SHORTAGE): ControlState.CONGESTED for state in ControlState},
    (ControlState.CONGESTED, Change.ROOM_LASTS): ControlState.LIFTING,
    (ControlState.CONGESTED, Change.NOBODY_LIMITED): ControlState.CLEAR,
    (ControlState.LIFTING, Change.NOTHING_TO_RAISE): ControlState.CONGESTED,
    (ControlState.LIFTING, Change.NOBODY_LIMITED): ControlState.CLEAR,
}
"""From CLEAR nothing but a shortage leads away."""


def next_state(state: ControlState, change: Change) -> ControlState:
    """The state after a change; KeyError where the table has none."""
    return TRANSITIONS[state, change]
