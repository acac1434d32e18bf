"""Peaks of the day: found, read from the command line, made whole windows."""

from __future__ import annotations

import numpy as np
import pytest

from mangrove.errors import InputError
from mangrove.pipelines.rates.peaks import MINUTES, WHOLE_DAY, find_peaks, parse_peak, periods


def test_peaks_are_found_where_they_are() -> None:
    minute = np.arange(29_000_000, 29_000_000 + 3 * MINUTES)
    load = np.full(len(minute), 100.0)
    load[(minute % MINUTES >= 600) & (minute % MINUTES < 660)] = 250.0
    noisy = load + np.random.default_rng(1).normal(0, 5, len(load))
    assert find_peaks(minute, noisy) == ((600, 660),)
    assert find_peaks(minute, np.full(len(minute), 7.0)) == WHOLE_DAY
    assert find_peaks(minute[:60], load[:60]) == WHOLE_DAY
    assert find_peaks(minute[:0], load[:0]) == WHOLE_DAY


def test_periods_are_whole_windows_within_the_history() -> None:
    day = 20_000 * 86400
    when = periods({"a": ((60, 120),), "b": ((110, 130),)}, day + 3605, day + 86400 + 4000, 10)
    assert when.starts_s == (day + 3610, day + 86400 + 3600)
    assert when.ends_s == (day + 7800, day + 86400 + 4000)


@pytest.mark.parametrize("text", ["noon", "9-11", "09:00-09:00", "25:00-26:00", "09:61-10:00", ""])
def test_bad_peaks_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--peak"):
        parse_peak(text)


def test_peaks_may_go_over_midnight() -> None:
    assert parse_peak("23:00-01:00,00:30-02:00") == ((0, 120), (1380, 1440))
    assert parse_peak("auto") is None
