"""The jobs of `mangrove pipeline` besides `profile`: thin commands around `mangrove.pipelines`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.cli.pipeline.session import (
    OutputOption,
    SeedOption,
    open_session,
    report_skipped,
    session_options,
)
from mangrove.cli.pipeline.sources import (
    LakeOption,
    SecondsOption,
    SinceOption,
    StateOption,
    StreamOption,
    TableOption,
    UntilOption,
    check_stream,
)
from mangrove.cli.tables.layout import Column
from mangrove.cli.tables.table import (
    EXTRA,
    USEFUL,
    Table,
    details_column,
    name_column,
    number_column,
    word_column,
)
from mangrove.errors import EXIT_NEGATIVE, InputError
from mangrove.pipelines.session.settings import SparkSettings

TargetOption = Annotated[float, typer.Option(help="Share of messages that must be in time.")]


@session_options
def calibrate(
    output: OutputOption,
    input_: LakeOption = None,
    table: TableOption = None,
    time: Annotated[
        str, typer.Option(help="What is fitted: processing_time_s (at saturation) or cpu_time_s.")
    ] = "processing_time_s",
    *,
    session: SparkSettings,
    as_json: JsonOption = False,
) -> None:
    """Fit broker parameters to the runs that `mangrove calibrate` recorded."""
    with open_session(session) as (spark, progress):
        from mangrove.model.telemetry import CALIBRATION_RUNS
        from mangrove.pipelines.jobs import calibration
        from mangrove.pipelines.reading.source import parse_source

        source = parse_source(input_, table or [], [CALIBRATION_RUNS])
        progress("fitting broker models")
        summary = calibration.run(spark, source, output, time)
    columns = {
        "broker_type": name_column("broker type"),
        "message_bytes": number_column("bytes"),
        "runs": number_column("runs", EXTRA),
        "t_rcv": number_column("t_rcv"),
        "t_fltr": number_column("t_fltr"),
        "t_tx": number_column("t_tx"),
        "relative_rms": number_column("relative rms", USEFUL),
    }
    _finish(summary, summary["models"], columns, output, as_json)


@session_options
def availability(
    output: OutputOption,
    input_: LakeOption = None,
    table: TableOption = None,
    state: StateOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    stream: StreamOption = False,
    seconds: SecondsOption = None,
    *,
    session: SparkSettings,
    as_json: JsonOption = False,
) -> None:
    """Failure probability and repair time of brokers, links and domains, for resilient routing."""
    check_stream(stream, seconds, input_, table, state)
    with open_session(session) as (spark, progress):
        from mangrove.pipelines.jobs import availability as job
        from mangrove.pipelines.reading.source import parse_source
        from mangrove.pipelines.state.partial import parse_period

        source, period = parse_source(input_, table or [], job.READ), parse_period(since, until)
        progress("counting outages")
        if stream and state is not None:
            summary = job.follow(
                spark, source, output, state, period=period, seconds=seconds, progress=progress
            )
        else:
            summary = job.run(spark, source, output, state=state, period=period)
    columns = {
        "kind": word_column("kind"),
        "component": name_column("component"),
        "observed_s": number_column("observed s", EXTRA),
        "failures": number_column("failures"),
        "failure_probability": number_column("failure probability"),
        "mean_repair_s": number_column("mean repair s", USEFUL),
    }
    _finish(summary, summary["rows"], columns, output, as_json)


@session_options
def slo(
    output: OutputOption,
    input_: LakeOption = None,
    table: TableOption = None,
    target: TargetOption = 0.999,
    state: StateOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Follow the lake. With --state, keep it and the results current; without, append each hour "
            "once when it is over, and go on where the last run ended.",
        ),
    ] = False,
    seconds: SecondsOption = None,
    *,
    session: SparkSettings,
    as_json: JsonOption = False,
) -> None:
    """In-time delivery, latency quantiles, error budget, worst hours, anomalies."""
    appending = stream and state is None
    if appending and (input_ is None or table or since or until):
        raise InputError(
            "--stream follows a lake",
            hint="give --input, leave --table out; --since and --until need --state",
        )
    if not appending:
        check_stream(stream, seconds, input_, table, state)
    with open_session(session) as (spark, progress):
        from mangrove.pipelines.jobs import slo_job, slo_stream
        from mangrove.pipelines.reading.source import parse_source
        from mangrove.pipelines.state.partial import parse_period

        source, period = parse_source(input_, table or [], slo_job.READ), parse_period(since, until)
        if appending:
            progress("following the deliveries")
            summary = slo_stream.stream(spark, str(input_), output, target, seconds=seconds)
        elif stream and state is not None:
            summary = slo_job.follow(
                spark, source, output, target, state, period=period, seconds=seconds, progress=progress
            )
        else:
            progress("adding up deliveries")
            summary = slo_job.run(spark, source, output, target, state=state, period=period)
    if appending:
        _finish(summary, [], {}, output, as_json, f"{summary['windows']} finished windows")
        return
    columns = {
        "topic": name_column("topic"),
        "domain": name_column("domain"),
        "delivered": number_column("delivered"),
        "in_time_ratio": number_column("in time"),
        "budget_burn": number_column("budget burn", USEFUL),
        "p50_ms": number_column("p50 ms", EXTRA),
        "p99_ms": number_column("p99 ms"),
        "route": details_column("route"),
    }
    note = f"{len(summary['worst_hours'])} worst hours, {len(summary['anomalies'])} anomalies"
    _finish(summary, summary["routes"], columns, output, as_json, note)


@session_options
def cases(
    input_: Annotated[Path, typer.Option("--input", help="problem.json, or the output of `profile`.")],
    output: OutputOption,
    double: Annotated[bool, typer.Option(help="Also every pair of failed brokers.")] = True,
    solver: Annotated[str, typer.Option(help="auto, exact, genetic, search or round-robin.")] = "auto",
    seed: SeedOption = 1,
    *,
    session: SparkSettings,
    as_json: JsonOption = False,
) -> None:
    """Plans for every failure state, one Spark task each."""
    from mangrove.planning.solvers.registry import SolverName

    names = [name.value for name in SolverName]
    if solver not in names:
        raise InputError(f"--solver: {solver!r}", hint=f"one of: {', '.join(names)}")
    with open_session(session) as (spark, progress):
        from mangrove.pipelines.jobs import cases as job

        progress("computing cases")
        summary = job.run(spark, input_, output, seed, solver, double=double)
    note = f"{summary['cases']} cases, {len(summary['infeasible'])} break a constraint; seed {seed}"
    _finish(summary, [], {}, output, as_json, note)
    for line in summary["infeasible"]:
        stderr_console().print(f"[red]infeasible[/red]: {line}")
    if summary["infeasible"]:
        raise typer.Exit(EXIT_NEGATIVE)


def report(
    input_: Annotated[Path, typer.Option("--input", help="Directory with the outputs of the other jobs.")],
    output: OutputOption,
    plan: Annotated[
        Path | None, typer.Option(help="A plan to show: the answer of `plan allocate --json`.")
    ] = None,
    before: Annotated[Path | None, typer.Option(help="The plan of before, to compare with.")] = None,
    as_json: JsonOption = False,
) -> None:
    """One HTML page of what the other jobs found, and of a plan."""
    from mangrove.pipelines.jobs import report as job

    summary = job.run(input_, output, plan, before)
    _finish(summary, [], {}, output, as_json, f"page: {summary['page']}")


def _finish(
    summary: dict[str, Any],
    rows: list[dict[str, Any]],
    columns: dict[str, Column],
    output: Path,
    as_json: bool,
    note: str = "",
) -> None:
    report_skipped(summary)
    if as_json:
        print_json(summary)
        return
    console = stdout_console()
    if rows:
        table = Table("", *columns.values())
        for row in rows:
            table.add(*(_shown(row[key]) for key in columns))
        table.show(console)
    if note:
        console.print(note, soft_wrap=True)
    stderr_console().print(f"written to {output}", soft_wrap=True)


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, int):
        return f"{value:,}"
    return "-" if value is None else str(value)
