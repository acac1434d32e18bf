"""Days in UTC, as directories of the lake are named."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mangrove.lake.files import is_day, partition_value

if TYPE_CHECKING:
    from pyspark.sql import Column

DAY_S = 86400


@dataclass(frozen=True, slots=True)
class Days:
    """From the first to the last one, which is included; None: without a bound."""

    first: str | None = None
    last: str | None = None

    def __contains__(self, date: str) -> bool:
        return (self.first is None or date >= self.first) and (self.last is None or date <= self.last)

    def concern(self, path: str) -> bool:
        """Whether a file is of one of these days, or its directory names none."""
        date = partition_value(path, "date")
        return date is None or not is_day(date) or date in self

    def condition(self, date: Column) -> Column:
        """The same of a column."""
        from pyspark.sql import functions as f

        condition = f.lit(True)
        if self.first is not None:
            condition &= date >= self.first
        if self.last is not None:
            condition &= date <= self.last
        return condition


def days_between(since_s: float | None, until_s: float | None) -> Days:
    """The days that have a moment from `since_s` until before `until_s`: a midnight begins no day more."""
    return Days(
        None if since_s is None else _name(math.floor(since_s / DAY_S)),
        None if until_s is None else _name(math.ceil(until_s / DAY_S) - 1),
    )


def _name(day: int) -> str:
    return datetime.fromtimestamp(day * DAY_S, UTC).date().isoformat()
