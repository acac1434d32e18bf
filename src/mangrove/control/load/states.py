"""The states of a broker, and every transition between them (ePEER §4.4.1.2, fig. 4-12)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

from mangrove.model.agents.load import LoadState


class LoadEvent(Enum):
    """What changes a state: the finding of a look, or a session that begins or ends."""

    FOUND_LOW = auto()
    FOUND_HIGH = auto()
    FOUND_OVERLOAD = auto()
    SESSION_BEGAN = auto()
    SESSION_ENDED = auto()


FINDINGS = {
    LoadState.LOW: LoadEvent.FOUND_LOW,
    LoadState.HIGH: LoadEvent.FOUND_HIGH,
    LoadState.OVERLOAD: LoadEvent.FOUND_OVERLOAD,
}

AS_MEASURED = None
"""The state that the last look found, which is kept beside BUSY."""

TRANSITIONS: dict[tuple[LoadState, LoadEvent], LoadState | None] = {
    **{(state, event): found for state in FINDINGS for found, event in FINDINGS.items()},
    **{(LoadState.BUSY, event): LoadState.BUSY for event in FINDINGS.values()},
    **{(state, LoadEvent.SESSION_BEGAN): LoadState.BUSY for state in FINDINGS},
    **{(state, LoadEvent.SESSION_ENDED): state for state in FINDINGS},
    (LoadState.BUSY, LoadEvent.SESSION_ENDED): AS_MEASURED,
}
"""A session that begins at a BUSY broker is the one pair left out: a broker takes part in one at a time."""


def next_state(state: LoadState, event: LoadEvent, measured: LoadState) -> LoadState:
    """The state after an event; KeyError for the pair that the table leaves out."""
    following = TRANSITIONS[state, event]
    return measured if following is AS_MEASURED else following


def state_of(utilisations: Iterable[float], low: float, high: float, *, triggered: bool = False) -> LoadState:
    """What a look finds: the fullest metric decides, and a threshold belongs to the state above it."""
    fullest = max(utilisations, default=0.0)
    if triggered or fullest >= high:
        return LoadState.OVERLOAD
    return LoadState.HIGH if fullest >= low else LoadState.LOW
