"""Partial results of one table: computed when they are asked for, or kept in a state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mangrove.errors import InputError
from mangrove.lake.files import MissingTableError, Skipped
from mangrove.model.telemetry import Table
from mangrove.pipelines.reading.days import days_between
from mangrove.pipelines.reading.rows import Rows
from mangrove.pipelines.reading.source import Source
from mangrove.pipelines.state.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Period:
    """From `since_s` until before `until_s`; None: without a bound."""

    since_s: int | None = None
    until_s: int | None = None

    def require_hours(self) -> Period:
        """Itself, if it is made of whole hours, as sums of hours are."""
        for option, moment_s in (("--since", self.since_s), ("--until", self.until_s)):
            if moment_s is not None and moment_s % HOUR_S:
                raise InputError(f"{option}: results are by the hour", hint="give a full hour")
        return self


def parse_period(since: str | None, until: str | None) -> Period:
    """Two moments in UTC, such as 2026-03-02 or 2026-03-02T10:00."""
    period = Period(_moment("--since", since), _moment("--until", until))
    if period.since_s is not None and period.until_s is not None and period.since_s >= period.until_s:
        raise InputError(f"--since {since} is not before --until {until}")
    return period


@dataclass(frozen=True, slots=True)
class Recipe:
    """How partial results are made of a table's rows.

    `compute` gets the rows and, with a state, the column `date` to keep beside `domain`; `schema` is the
    result's, without `date` and `domain`.
    """

    table: Table
    columns: tuple[str, ...]
    compute: Callable[[DataFrame, tuple[str, ...]], DataFrame]
    schema: str


class Partial:
    """Partial results of one table over a period. `rows` is None when a state holds them."""

    def __init__(self, spark: SparkSession, recipe: Recipe, rows: Rows, state: State | None, period: Period):
        self._spark, self._recipe, self._state, self._period = spark, recipe, state, period
        self._all = rows
        if state is not None:
            state.refresh(rows, lambda stale: recipe.compute(stale.dated, ("date",)))

    @property
    def rows(self) -> Rows | None:
        """What `unharmed` has to look after."""
        return self._all if self._state is None else None

    @property
    def empty(self) -> bool:
        """Whether there is not a row to work on."""
        return self._all.empty

    def frame(self) -> DataFrame:
        """The partial results; with a state, of all days that the period touches."""
        if self._state is None and self._all.empty:
            return self._spark.createDataFrame([], f"{self._recipe.schema}, domain string")
        if self._state is None:
            return self._recipe.compute(self._all.frame, ())
        return self._state.frame(
            self._spark,
            self._recipe.table,
            f"{self._recipe.schema}, date string, domain string",
            since_s=self._period.since_s,
            until_s=self._period.until_s,
        )

    def skipped(self) -> list[Skipped]:
        """What was left out on the days of the period."""
        days = days_between(self._period.since_s, self._period.until_s)
        return [each for each in self._all.report() if days.concern(each.path)]


def open_partial(
    spark: SparkSession,
    source: Source,
    recipe: Recipe,
    *,
    state: State | None = None,
    period: Period | None = None,
    required: bool = False,
) -> Partial | None:
    """Partial results of a table, or None when the source does not have it and it is not required."""
    bounds = period or Period()
    if not required and not source.has(recipe.table):
        return None
    try:
        if state is not None:
            rows = state.rows(spark, recipe.table, recipe.columns)
        else:
            rows = Rows(
                spark,
                source,
                recipe.table,
                columns=recipe.columns,
                since_s=bounds.since_s,
                until_s=bounds.until_s,
            )
    except MissingTableError:
        if required:
            raise
        return None
    if required and (state is not None or bounds == Period()):
        rows.require()
    return Partial(spark, recipe, rows, state, bounds)


def skipped_in(partials: Sequence[Partial | None]) -> list[dict[str, Any]]:
    """What was left out, for a summary."""
    skipped = [each for partial in partials if partial is not None for each in partial.skipped()]
    return [{"path": each.path, "reason": each.reason, "rows": each.rows} for each in skipped]


def _moment(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option}: {text!r}", hint="in UTC: 2026-03-02 or 2026-03-02T10:00") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    if moment.microsecond:
        raise InputError(f"{option}: {text!r}", hint="whole seconds")
    return int(moment.timestamp())
