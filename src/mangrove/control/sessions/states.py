"""The states of an offload session, and every transition between them (ePEER §4.4.4)."""

from __future__ import annotations

from enum import Enum, StrEnum, auto

from mangrove.model.balancing import Balancing


class SessionState(StrEnum):
    """Where a session is."""

    LOCATING = "locating"
    """Looks for brokers of the domain that may take load."""
    SELECTING = "selecting"
    """Chooses topics and targets."""
    ASKING = "asking"
    """Waits for what linked domains have left."""
    ADMITTING = "admitting"
    """Waits for linked domains to take what was chosen."""
    PREPARING = "preparing"
    """Waits until the session is in the store; all brokers in it are BUSY."""
    MIGRATING = "migrating"
    """Tells clients to move, again and again, until all have said what became of it."""
    SETTLING = "settling"
    """Waits until the load is measured without what moved."""
    ENDED = "ended"


class Step(Enum):
    """What takes a session from one state to the next."""

    CANDIDATES_FOUND = auto()
    NO_CANDIDATES = auto()
    CHOSEN_HERE = auto()
    CHOSEN_ELSEWHERE = auto()
    NOTHING_CHOSEN = auto()
    ROOM_TOLD = auto()
    NO_ROOM = auto()
    ADMITTED = auto()
    REFUSED = auto()
    STORED = auto()
    NOT_STORED = auto()
    ALL_ANSWERED = auto()
    TIMED_OUT = auto()
    SETTLED = auto()
    GIVEN_UP = auto()


TRANSITIONS: dict[tuple[SessionState, Step], SessionState] = {
    (SessionState.LOCATING, Step.CANDIDATES_FOUND): SessionState.SELECTING,
    (SessionState.LOCATING, Step.NO_CANDIDATES): SessionState.ASKING,
    (SessionState.SELECTING, Step.CHOSEN_HERE): SessionState.PREPARING,
    (SessionState.SELECTING, Step.CHOSEN_ELSEWHERE): SessionState.ADMITTING,
    (SessionState.SELECTING, Step.NOTHING_CHOSEN): SessionState.ASKING,
    (SessionState.SELECTING, Step.NO_ROOM): SessionState.ENDED,
    (SessionState.ASKING, Step.ROOM_TOLD): SessionState.SELECTING,
    (SessionState.ASKING, Step.NO_ROOM): SessionState.ENDED,
    (SessionState.ADMITTING, Step.ADMITTED): SessionState.PREPARING,
    (SessionState.ADMITTING, Step.REFUSED): SessionState.ENDED,
    (SessionState.PREPARING, Step.STORED): SessionState.MIGRATING,
    (SessionState.PREPARING, Step.NOT_STORED): SessionState.ENDED,
    (SessionState.MIGRATING, Step.ALL_ANSWERED): SessionState.SETTLING,
    (SessionState.MIGRATING, Step.TIMED_OUT): SessionState.SETTLING,
    (SessionState.SETTLING, Step.SETTLED): SessionState.ENDED,
    **{(state, Step.GIVEN_UP): SessionState.ENDED for state in SessionState if state != SessionState.ENDED},
}
"""Before MIGRATING nothing has moved, and every way out leads to the end; after it, to SETTLING first.

A session asks its neighbours once: if nothing can be chosen after that, it ends.
"""

_TIMEOUTS_S = {
    SessionState.LOCATING: 1.0,
    SessionState.SELECTING: 2.0,
    SessionState.ASKING: 2.0,
    SessionState.ADMITTING: 2.0,
    SessionState.PREPARING: 2.0,
}


def timeout_s(state: SessionState, balancing: Balancing) -> float:
    """How long a session may be in a state."""
    if state is SessionState.MIGRATING:
        return balancing.migration_timeout_s
    if state is SessionState.SETTLING:
        return settling_s(balancing)
    return _TIMEOUTS_S[state]


def settling_s(balancing: Balancing) -> float:
    """After so long no sample of before weighs on the measured load."""
    return (balancing.window + 1) * balancing.period_s


def next_state(state: SessionState, step: Step) -> SessionState:
    """The state after a step; KeyError where the table has none."""
    return TRANSITIONS[state, step]
