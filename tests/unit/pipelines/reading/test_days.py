"""Days that a time touches."""

from __future__ import annotations

from mangrove.pipelines.reading.days import DAY_S, Days, days_between


def test_a_midnight_ends_a_day_and_begins_none() -> None:
    assert days_between(DAY_S, 2 * DAY_S) == Days("1970-01-02", "1970-01-02")
    assert days_between(DAY_S - 1, 2 * DAY_S + 0.5) == Days("1970-01-01", "1970-01-03")
    assert days_between(0.5, DAY_S - 0.5) == Days("1970-01-01", "1970-01-01")


def test_files_concern_days_unless_they_are_of_others() -> None:
    days = days_between(DAY_S, 2 * DAY_S)
    assert days.concern("/lake/topic_rates/date=1970-01-02/domain=a/f.parquet")
    assert not days.concern("/lake/topic_rates/date=1970-01-03/domain=a/f.parquet")
    assert days.concern("/lake/topic_rates/date=unknown/domain=a/f.parquet")
    assert days.concern("/lake/topic_rates/f.parquet")


def test_days_without_a_bound_are_all() -> None:
    dates = ("1969-12-31", "1970-01-02", "1970-01-03")
    assert [date in days_between(None, None) for date in dates] == [True, True, True]
    assert [date in days_between(DAY_S, None) for date in dates] == [False, True, True]
    assert [date in days_between(None, 2 * DAY_S) for date in dates] == [True, True, False]
