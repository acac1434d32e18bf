"""`mangrove pipeline load` and `utility`: what was recorded of load and of topics that nobody wants."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.cli.pipeline.session import OutputOption, open_session, report_skipped, session_options
from mangrove.cli.pipeline.sources import (
    LakeOption,
    SecondsOption,
    StateOption,
    StreamOption,
    TableOption,
    check_stream,
)
from mangrove.pipelines.session.settings import SparkSettings


@session_options
def load(
    output: OutputOption,
    input_: LakeOption = None,
    table: TableOption = None,
    imbalance: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Difference of two edges that starts PEER.")
    ] = 0.10,
    state: StateOption = None,
    stream: StreamOption = False,
    seconds: SecondsOption = None,
    *,
    session: SparkSettings,
    as_json: JsonOption = False,
) -> None:
    """How often each offloading method would have moved, what did move, the coming day's load by hour."""
    from mangrove.model.balancing import Balancing
    from mangrove.model.telemetry import LOAD_SAMPLES, OFFLOAD_SESSIONS
    from mangrove.pipelines.reading.source import parse_source

    check_stream(stream, seconds, input_, table, state)
    source = parse_source(input_, table or (), [LOAD_SAMPLES, OFFLOAD_SESSIONS])
    balancing = Balancing(imbalance=imbalance)
    with open_session(session) as (spark, progress):
        from mangrove.pipelines.jobs import load as job

        if stream and state is not None:
            summary = job.follow(spark, source, output, state, balancing, seconds=seconds, progress=progress)
        else:
            summary = job.run(spark, source, output, balancing, progress, state=state)
    _finish(summary, output, as_json, _show_load)


@session_options
def utility(
    output: OutputOption,
    input_: LakeOption = None,
    table: TableOption = None,
    share: Annotated[
        float, typer.Option(help="Share of a topic's messages that nobody in its domain asks for.")
    ] = 0.95,
    least_seconds: Annotated[int, typer.Option(min=1, help="For how many seconds at least.")] = 600,
    useless: Annotated[
        float, typer.Option(help="Utility, by its subscribers' votes, up to which a topic is of no use.")
    ] = 0.1,
    *,
    session: SparkSettings,
    as_json: JsonOption = False,
) -> None:
    """Topics that are chronically unwanted: nobody in their domain asks for them, or has a use for them."""
    from mangrove.model.telemetry import TOPIC_OPINIONS, TOPIC_RATES
    from mangrove.pipelines.reading.source import parse_source

    source = parse_source(input_, table or (), [TOPIC_RATES, TOPIC_OPINIONS])
    with open_session(session) as (spark, progress):
        from mangrove.pipelines.jobs import utility as job

        summary = job.run(spark, source, output, share, least_seconds, progress, useless=useless)
    _finish(summary, output, as_json, _show_utility)


def _finish(summary: dict[str, Any], output: Path, as_json: bool, show: Any) -> None:
    report_skipped(summary)
    if as_json:
        print_json(summary)
        return
    show(summary)
    stderr_console().print(f"written to {output}", soft_wrap=True)


def _show_load(summary: dict[str, Any]) -> None:
    from mangrove.cli.tables.table import USEFUL, Table, name_column, number_column, word_column

    console = stdout_console()
    methods = Table(
        "what would have moved",
        name_column("method"),
        word_column("started by", USEFUL),
        number_column("moves"),
        number_column("nobody takes"),
        number_column("brokers", USEFUL),
    )
    for each in summary["methods"]:
        figures = (f"{each[name]:,}" for name in ("would_move", "nobody_takes", "brokers"))
        methods.add(each["method"], each["started_by"], *figures)
    methods.show(console)
    table = Table(
        "the coming day",
        name_column("broker"),
        name_column("domain", USEFUL),
        number_column("worst load"),
        number_column("error"),
        number_column("naive error"),
        number_column("hours known", USEFUL),
    )
    for each in summary["forecasts"]:
        shown = (_share(each[name]) for name in ("worst_load", "error", "naive_error"))
        table.add(each["broker"], each["domain"], *shown, f"{each['history_hours']:,}")
    table.show(console)
    done = summary["done"]
    console.print(
        f"{summary['overload_s']:,} s in overload; {done['sessions']:,} sessions ended, "
        f"{done['without_a_move']:,} without a move; {done['moved']:,} subscriptions moved"
    )


def _show_utility(summary: dict[str, Any]) -> None:
    from mangrove.cli.tables.table import USEFUL, Table, name_column, number_column

    table = Table(
        "chronically unwanted",
        name_column("topic"),
        name_column("domain"),
        number_column("unwanted messages"),
        number_column("share"),
        number_column("seconds", USEFUL),
        elsewhere="topics.parquet",
    )
    for row in summary["unwanted"]:
        figures = (f"{row['unwanted_messages']:,}", _share(row["unwanted_share"]), f"{row['seconds']:,}")
        table.add(row["topic"], row["domain"], *figures)
    useless = Table(
        "chronically useless",
        name_column("topic"),
        name_column("domain"),
        number_column("utility"),
        number_column("useless messages"),
        number_column("share", USEFUL),
        number_column("subscribers", USEFUL),
        elsewhere="opinions.parquet",
    )
    for row in summary["useless"]:
        figures = (f"{row['utility']:.2f}", f"{row['useless_messages']:,}", _share(row["useless_share"]))
        useless.add(row["topic"], row["domain"], *figures, f"{row['subscribers']:,}")
    console = stdout_console()
    for each in (table, useless):
        if each:
            each.show(console)
    console.print(
        f"{summary['chronically_useless']:,} of {summary['judged_topics']:,} topics that have subscribers "
        "are of no use to them"
    )
    console.print(
        f"{summary['chronically_unwanted']:,} of {summary['topics']:,} topics; "
        f"{summary['unwanted_share']:.2%} of all messages were asked for by nobody in their domain"
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
