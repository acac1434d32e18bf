"""States at every boundary, and the whole transition table by enumeration."""

from __future__ import annotations

import math
from itertools import product

import pytest

from mangrove.control.load.states import FINDINGS, TRANSITIONS, LoadEvent, next_state, state_of
from mangrove.model.agents.load import LoadState

LOW, HIGH, OVERLOAD, BUSY = LoadState.LOW, LoadState.HIGH, LoadState.OVERLOAD, LoadState.BUSY
RANK = {LOW: 0, HIGH: 1, OVERLOAD: 2}

BOUNDARIES = [
    (0.0, LOW),
    (math.nextafter(0.90, 0), LOW),
    (0.90, HIGH),
    (math.nextafter(0.90, 1), HIGH),
    (math.nextafter(0.95, 0), HIGH),
    (0.95, OVERLOAD),
    (math.nextafter(0.95, 1), OVERLOAD),
    (1.0, OVERLOAD),
    (7.0, OVERLOAD),
]


@pytest.mark.parametrize(("utilisation", "expected"), BOUNDARIES)
def test_a_threshold_belongs_to_the_state_above_it(utilisation: float, expected: LoadState) -> None:
    assert state_of([utilisation], 0.90, 0.95) is expected


def test_the_fullest_of_three_metrics_decides() -> None:
    for one, two, three in product(BOUNDARIES, repeat=3):
        expected = max((one[1], two[1], three[1]), key=RANK.__getitem__)
        assert state_of([one[0], two[0], three[0]], 0.90, 0.95) is expected


def test_a_trigger_alone_is_overload_and_nothing_known_is_low() -> None:
    assert state_of([0.1], 0.90, 0.95, triggered=True) is OVERLOAD
    assert state_of([], 0.90, 0.95, triggered=True) is OVERLOAD
    assert state_of([], 0.90, 0.95) is LOW


def test_every_pair_of_state_and_event_is_in_the_table_but_a_second_session() -> None:
    every = set(product(LoadState, LoadEvent))
    assert every - TRANSITIONS.keys() == {(BUSY, LoadEvent.SESSION_BEGAN)}
    assert TRANSITIONS.keys() <= every


@pytest.mark.parametrize("state", list(LoadState))
@pytest.mark.parametrize("measured", [LOW, HIGH, OVERLOAD])
def test_the_table(state: LoadState, measured: LoadState) -> None:
    after_look = next_state(state, FINDINGS[measured], measured)
    assert after_look is (BUSY if state is BUSY else measured)
    after_session = next_state(state, LoadEvent.SESSION_ENDED, measured)
    assert after_session is (measured if state is BUSY else state)
    if state is BUSY:
        with pytest.raises(KeyError):
            next_state(state, LoadEvent.SESSION_BEGAN, measured)
    else:
        assert next_state(state, LoadEvent.SESSION_BEGAN, measured) is BUSY
