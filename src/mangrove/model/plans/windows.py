"""Times of day at which plans may be applied: `22:00-05:30`, in UTC."""

from __future__ import annotations

import re

DAY_S = 86_400.0
_SPAN = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]|24):([0-5]\d)")

Span = tuple[float, float]
"""Seconds since midnight; one that ends before it begins goes over midnight."""


def window_problem(text: str) -> str:
    """Why a text is no span of a day, or an empty string."""
    try:
        read_window(text)
    except ValueError as error:
        return str(error)
    return ""


def read_window(text: str) -> Span:
    """A span of the day; raises ValueError."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise ValueError("a time of day is written as 22:00-05:30, in UTC")
    hours, minutes, end_hours, end_minutes = map(int, found.groups())
    begin, end = 60.0 * (60 * hours + minutes), 60.0 * (60 * end_hours + end_minutes)
    if end > DAY_S or begin == end:
        raise ValueError("it ends after midnight of the same day, or when it begins")
    return begin, end


def opens_in_s(spans: tuple[Span, ...], wall: float) -> float:
    """How long until one of the spans has begun; 0 within one, and always without any."""
    if not spans:
        return 0.0
    clock = wall % DAY_S
    if any(_within(span, clock) for span in spans):
        return 0.0
    return min((begin - clock) % DAY_S for begin, _ in spans)


def _within(span: Span, clock: float) -> bool:
    begin, end = span
    return begin <= clock < end if begin < end else clock >= begin or clock < end
