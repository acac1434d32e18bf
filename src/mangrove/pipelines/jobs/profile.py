"""`profile`: from `topic_rates` to an allocation problem.

The rows are read once, into a cube of messages by second and stream; streams, busy minutes, faults, and exact
sums over the windows of the peak periods all come from it. What follows is small and happens in the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mangrove.errors import InputError
from mangrove.lake.files import LakeFile, Skipped, shown
from mangrove.model.telemetry import TOPIC_RATES
from mangrove.pipelines.grouping.dealt_cube import Dealt, dealt_topics
from mangrove.pipelines.jobs.profile_result import JOB, Profile, write_profile
from mangrove.pipelines.rates import items as grouping
from mangrove.pipelines.rates.blocks import BLOCK, COUNTS
from mangrove.pipelines.rates.brokers import Brokers
from mangrove.pipelines.rates.cube import cube_of, in_parts, row_count, tuned
from mangrove.pipelines.rates.day_sums import DaySums, keepable
from mangrove.pipelines.rates.facts import Facts, facts_of, kept_facts
from mangrove.pipelines.rates.peaks import find_peaks, periods
from mangrove.pipelines.rates.settings import ProfileSettings
from mangrove.pipelines.rates.statistics import RateStatistics, statistics
from mangrove.pipelines.rates.sums import Adder, collect_by_day, topics_of
from mangrove.pipelines.reading.lake_scan import Part
from mangrove.pipelines.reading.rows import Rows, unharmed
from mangrove.pipelines.reading.source import Source, as_source
from mangrove.pipelines.state.following import keep_current
from mangrove.pipelines.state.state import State, open_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["JOB", "Brokers", "Profile", "ProfileSettings", "follow", "profile", "write_profile"]

STATE_VERSION = 1
SUMS = "sums"
# A Gram matrix of more topics than this does not fit beside others in a worker's memory: they become items.
MAX_TOPICS = 6000
NEGATIVE = "left out: a negative count (a counter was reset)"
DIFFERING = "a clock went backwards, or counts differ: of rows for the same moment the largest is used"


def profile(
    spark: SparkSession,
    source: str | Source,
    settings: ProfileSettings | None = None,
    progress: Callable[[str], None] = lambda _: None,
    state: Path | None = None,
) -> Profile:
    """Read the rows of a lake (or of a table) and compute the figures.

    With `state`, a directory that keeps the cube, only days and domains whose files changed are read; the
    figures are the same.
    """
    settings = settings or ProfileSettings()
    place = as_source(source)
    if state is not None:
        return _from_state(spark, place, settings, progress, state)
    rows = _opened(spark, place, settings)
    if settings.days is not None:
        settings = settings.counted_back(rows.files)
        rows = _opened(spark, place, settings, rows.files)
    progress(f"{len(rows.files)} files, {row_count(rows):,} rows; adding up seconds")
    return unharmed(lambda: _from_rows(rows, settings, progress), rows)


def _opened(
    spark: SparkSession, source: Source, settings: ProfileSettings, known: Sequence[LakeFile] = ()
) -> Rows:
    """The rows in question; of `known` files footers are not read again."""
    return Rows(
        spark,
        source,
        TOPIC_RATES,
        domains=settings.domains,
        since_s=settings.since_s,
        until_s=settings.until_s,
        known=known,
    ).require()


def refresh(spark: SparkSession, state: State) -> tuple[Rows, tuple[Part, ...]]:
    """Bring the cube of a state up to date with its lake, and publish it."""
    rows = state.rows(spark, TOPIC_RATES).require()
    with tuned(spark, row_count(rows)):
        parts = state.refresh(rows, cube_of)
    state.publish()
    rows.restrict(None)
    return rows, parts


def follow(
    spark: SparkSession,
    source: Source,
    state: Path,
    seconds: float | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> None:
    """Keep a state current while files arrive: for some seconds, or until what is there now is in it."""
    with open_state(state, JOB, STATE_VERSION, source) as held:

        def once() -> dict[str, Any]:
            return {"parts": refresh(spark, held)[1]}

        keep_current(spark, held, (TOPIC_RATES,), once, seconds=seconds, progress=progress)


def _from_state(
    spark: SparkSession,
    source: Source,
    settings: ProfileSettings,
    progress: Callable[[str], None],
    directory: Path,
) -> Profile:
    with open_state(directory, JOB, STATE_VERSION, source) as state:
        progress("looking for files that are new or changed")
        rows, parts = refresh(spark, state)
        settings = settings.counted_back(rows.files)
        progress(f"{len(parts)} days of domains were new or changed; adding up from the state")
        domains, since_s, until_s = settings.domains, settings.since_s, settings.until_s
        cube = whole = state.frame(spark, TOPIC_RATES, BLOCK, domains, since_s, until_s)
        if since_s is not None:
            cube = cube.where(f"start_s >= {since_s}")
        if until_s is not None:
            cube = cube.where(f"start_s < {until_s}")
        with tuned(spark, row_count(rows)):
            places = state.places(TOPIC_RATES, domains, since_s, until_s)
            facts = kept_facts(whole, places, since_s, until_s)
            kept = DaySums(state.directory / SUMS, state.runs(TOPIC_RATES))
            return profile_of_cube(cube, rows, settings, progress, facts, kept)


def _from_rows(rows: Rows, settings: ProfileSettings, progress: Callable[[str], None]) -> Profile:
    from pyspark import StorageLevel

    with tuned(rows.spark, row_count(rows)):
        # Looked at several times, and small; on disk, so that it need not fit in memory.
        cube = cube_of(rows).persist(StorageLevel.DISK_ONLY)
        try:
            return profile_of_cube(cube, rows, settings, progress)
        finally:
            cube.unpersist()


def profile_of_cube(
    cube: DataFrame,
    rows: Rows,
    settings: ProfileSettings,
    progress: Callable[[str], None],
    facts: Facts | None = None,
    kept: DaySums | None = None,
) -> Profile:
    """The figures of a cube; sums of days come from those that are kept, if there are any."""
    facts = facts or facts_of(cube)
    skipped = [each for each in rows.report() if settings.concerns(each.path)] + faults(rows, facts)
    _check(rows, facts, skipped, settings)
    peaks = {
        domain: find_peaks(*minutes) if settings.peak is None else settings.peak
        for domain, minutes in facts.minutes.items()
    }
    when = periods(peaks, facts.first_s, facts.last_s, settings.window_s)
    if when.windows < 2:
        raise InputError(
            f"{rows.source}: {when.windows} window{'' if when.windows == 1 else 's'} of "
            f"{settings.window_s} s in the peak periods, from {facts.rows} rows; "
            "a covariance needs two or more",
            hint="record longer, choose a shorter --window, or use --peak all",
        )
    dealt = None
    if len(topics_of(facts.streams)) > MAX_TOPICS:
        progress("dealing very many topics to items")
        dealt = _dealt(cube, facts, settings)
        # Items follow the rates, so sums of days that were kept before are of other items.
        cube, kept = dealt.cube(cube), None
        facts.streams = dealt.streams
    by_day = kept is not None and keepable(when)
    adder = Adder(facts.streams, when, by_day=by_day)
    topics = adder.topics
    progress(f"{len(topics):,} topics; adding up {when.windows:,} windows of {settings.window_s} s")
    if kept is not None and by_day:
        sums = kept.collect(cube, adder, facts.parts)
    else:
        sums = collect_by_day(cube, adder)[0]
    figures = statistics(sums, adder.topic_of_stream, when, settings.shrinkage)
    if dealt is not None:
        figures = replace(
            figures,
            filters=dealt.averaged(dealt.totals.filters),
            subscribers=dealt.averaged(dealt.totals.subscribers),
        )
    if settings.groups is not None:
        members = grouping.given_groups(settings.groups, topics)
    elif settings.cluster:
        members = grouping.found_groups(figures.mean_rate, figures.covariance, topics)
    else:
        members = {name: [number] for number, name in enumerate(grouping.item_names(topics))}
    return Profile(
        topics=topics,
        statistics=figures,
        members=members,
        peaks=peaks,
        periods=when,
        rows=facts.rows,
        data_until=facts.last_s + 1,
        repeated=facts.repeated,
        windows_without_messages=when.windows - sums.windows,
        skipped=skipped,
        warnings=_warnings(figures),
        dealt=dealt,
    )


def _dealt(cube: DataFrame, facts: Facts, settings: ProfileSettings) -> Dealt:
    """Items of topics that are too many for a matrix."""
    if settings.groups is not None or settings.cluster:
        raise InputError(
            f"--groups and --cluster go with at most {MAX_TOPICS:,} topics",
            hint="more are dealt to items; leave the option out, or profile domains one by one with --domain",
        )
    return dealt_topics(cube, facts.last_s + 1 - facts.first_s)


def faults(rows: Rows, facts: Facts) -> list[Skipped]:
    """What the cube tells about faulty rows, by file where they can be found again."""
    found = []
    if facts.negative:
        rows.restrict(facts.negative if in_parts(rows) else None)
        found += rows.count_by_file(" OR ".join(f"{name} < 0" for name in COUNTS), NEGATIVE)
    where = rows.source.place(TOPIC_RATES)
    found += [
        Skipped(f"{where}/date={part.date}/domain={part.domain}", DIFFERING, count)
        for part, count in sorted(facts.differing.items())
    ]
    return found


def _check(rows: Rows, facts: Facts, skipped: list[Skipped], settings: ProfileSettings) -> None:
    if not facts.streams:
        raise InputError(
            f"no usable row of {TOPIC_RATES.name} in {rows.source} ({len(rows.files)} files)\n"
            + shown(skipped),
            hint="look at the files named above, or at --domain, --since and --until",
        )
    domains = {stream[0] for stream in facts.streams}
    if settings.domains is not None and (missing := sorted(settings.domains - domains)):
        raise InputError(f"the lake has no rows of the domain {', '.join(missing)}")


def _warnings(figures: RateStatistics) -> list[str]:
    warnings = []
    if constant := int((figures.variance == 0).sum()):
        warnings.append(f"{constant} topics never change their rate: no variance, no covariance")
    if figures.shrinkage:
        warnings.append(
            f"{figures.windows} windows for {len(figures.mean_rate)} topics: covariances were reduced by "
            f"{figures.shrinkage:.1%}"
        )
    return warnings
