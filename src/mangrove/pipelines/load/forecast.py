"""Load of the coming day by hour: a mean over the same hours of past weeks, the last ones counting most.

Its error is found by backtest: every hour of the last part of the history is forecast a day ahead from what
was known then, beside the naive forecast (as at the same hour the day before). Each hour of the coming day
carries the error of its own hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

HOURS_A_DAY = 24
HOURS_A_WEEK = 168
AHEAD = HOURS_A_DAY
# The weight of a week (or day) against the one after it.
DECAY = 0.7
# Of the history that is forecast to find the error.
TESTED = 0.25


@dataclass(frozen=True, slots=True)
class Forecast:
    """A broker's coming hours."""

    season_hours: int
    first_hour: int
    """Hours since 1970."""
    load: tuple[float, ...]
    error: float | None
    """Mean absolute difference in the backtest; None: the history is too short for one."""
    naive_error: float | None
    tested_hours: int
    hour_error: tuple[float | None, ...] = ()
    """The error of each hour of `load`: that of the same hour of tested days, of all where none was."""


def forecast(history: Mapping[int, float], last: int | None = None) -> Forecast | None:
    """From load by hour since 1970, of the hours after `last`, or after its own; hours may be missing.

    None: there is no day to go by, or none of it is within a day of `last`.
    """
    if not history:
        return None
    first, seen = min(history), max(history)
    last = seen if last is None else last
    span = seen - first + 1
    if span < HOURS_A_DAY or last - seen >= AHEAD:
        return None
    season = HOURS_A_WEEK if span >= 2 * HOURS_A_WEEK else HOURS_A_DAY
    load = tuple(seasonal(history, hour, last, season) for hour in range(last + 1, last + 1 + AHEAD))
    tests: list[tuple[float, float]] = []
    by_hour: dict[int, list[float]] = {}
    for hour in range(seen - round(TESTED * span) + 1, seen + 1):
        known = hour - AHEAD
        if hour in history and known in history and known - first >= season:
            guess = seasonal(history, hour, known, season)
            tests.append((abs(guess - history[hour]), abs(history[known] - history[hour])))
            by_hour.setdefault(hour % HOURS_A_DAY, []).append(tests[-1][0])
    error = sum(own for own, _ in tests) / len(tests) if tests else None
    naive = sum(other for _, other in tests) / len(tests) if tests else None
    hour_error = tuple(
        sum(own) / len(own) if (own := by_hour.get(hour % HOURS_A_DAY)) else error
        for hour in range(last + 1, last + 1 + AHEAD)
    )
    return Forecast(season, last + 1, load, error, naive, len(tests), hour_error)


def seasonal(history: Mapping[int, float], hour: int, known: int, season: int) -> float:
    """The weighted mean of the same hour in past seasons, of what was known at `known`.

    Without any of them it is the mean of the last day.
    """
    first = min(history)
    total = weights = 0.0
    weight = 1.0
    place = hour - season
    while place >= first:
        if place <= known and place in history:
            total += weight * history[place]
            weights += weight
        weight *= DECAY
        place -= season
    if weights:
        return total / weights
    day = [history[each] for each in range(known - HOURS_A_DAY + 1, known + 1) if each in history]
    return sum(day) / len(day) if day else history[min(history, key=lambda each: abs(each - known))]
