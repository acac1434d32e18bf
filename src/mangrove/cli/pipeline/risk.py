"""`mangrove pipeline risk`: a plan against history."""

from __future__ import annotations

from datetime import UTC, datetime
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
from mangrove.cli.pipeline.sources import LakeOption, TableOption
from mangrove.cli.tables.table import (
    EXTRA,
    USEFUL,
    Table,
    details_column,
    name_column,
    number_column,
    word_column,
)
from mangrove.errors import InputError
from mangrove.pipelines.session.settings import SparkSettings

WORST_ITEMS = 10


@session_options
def risk(
    output: OutputOption,
    plan: Annotated[Path, typer.Option(help="Answer of `mangrove plan allocate --json`.")],
    input_: LakeOption = None,
    table: TableOption = None,
    problem: Annotated[
        Path | None,
        typer.Option(help="The problem, or `profile`'s output. [default: figures that the plan carries]"),
    ] = None,
    peak: Annotated[str, typer.Option(help="Peak periods: auto, all, or 09:00-11:00,… in UTC.")] = "auto",
    window: Annotated[int, typer.Option(min=1, max=3600, help="Seconds over which loads are taken.")] = 1,
    since: Annotated[str, typer.Option(help="Only rows from this day or moment on (UTC).")] = "",
    until: Annotated[str, typer.Option(help="Only rows before this day or moment (UTC).")] = "",
    block: Annotated[
        int, typer.Option(min=1, help="Seconds that the bootstrap keeps together: longer than a surge.")
    ] = 300,
    tail: Annotated[
        float, typer.Option(help="Share of a broker's windows, the largest, that make its tail.")
    ] = 0.02,
    seed: SeedOption = 1,
    *,
    session: SparkSettings,
    as_json: JsonOption = False,
) -> None:
    """Check a plan against history: predicted and observed overload, and where the normal model is wrong."""
    if not 0 < tail <= 0.5:
        raise InputError(f"--tail: {tail}", hint="a share above 0 and up to 0.5")
    since_s, until_s = _moment("--since", since), _moment("--until", until)
    from mangrove.model.telemetry import TOPIC_RATES
    from mangrove.pipelines.reading.source import parse_source
    from mangrove.pipelines.risk.plans import read_plan

    source = parse_source(input_, table or (), [TOPIC_RATES])
    read = read_plan(plan, problem)
    with open_session(session) as (spark, progress):
        from mangrove.pipelines.jobs import risk as job
        from mangrove.pipelines.rates.peaks import parse_peak

        settings = job.RiskSettings(
            peak=parse_peak(peak),
            window_s=window,
            block_s=block,
            tail_share=tail,
            seed=seed,
            since_s=since_s,
            until_s=until_s,
        )
        summary = job.run(spark, source, read, output, settings, progress)
    report_skipped(summary)
    if as_json:
        print_json(summary)
        return
    _show(summary)
    stderr_console().print(f"written to {output}", soft_wrap=True)


def _show(summary: dict[str, Any]) -> None:
    console = stdout_console()
    table = Table(
        "Probability of overload",
        name_column("broker"),
        number_column("capacity", EXTRA),
        number_column("largest load", EXTRA),
        number_column("predicted"),
        number_column("normal", USEFUL),
        number_column("observed"),
        name_column("95 %"),
        number_column("tail"),
        number_column("shape", USEFUL),
        word_column("prediction"),
        details_column("because of"),
    )
    for row in summary["brokers"]:
        table.add(
            row["broker"],
            f"{row['limit_msg_s']:.5g}",
            f"{row['most_msg_s']:.5g}",
            f"{row['predicted']:.2g}",
            f"{row['normal_of_history']:.2g}",
            f"{row['observed']['value']:.2g}",
            _interval(row["observed"]),
            "-" if row["tail"] is None else f"{row['tail']['value']:.2g}",
            "-" if row["tail_shape"] is None else f"{row['tail_shape']:.2f}",
            _verdict(row),
            ", ".join(f"{each['item']} {each['share']:.0%}" for each in row["blamed"]),
        )
    table.show(console)
    wrong = summary["misjudged_items"]
    if wrong:
        items = Table(
            f"Items that exceed the level of probability {summary['item_risk']:g} more often",
            name_column("item"),
            name_column("broker", USEFUL),
            number_column("mean msg/s", EXTRA),
            number_column("level", USEFUL),
            number_column("largest"),
            number_column("observed"),
            name_column("95 %"),
            number_column("factor"),
            number_column("shape"),
            elsewhere="items.parquet",
        )
        for row in wrong[:WORST_ITEMS]:
            items.add(
                row["item"],
                row["broker"],
                f"{row['mean_msg_s']:.5g}",
                f"{row['level_msg_s']:.5g}",
                f"{row['most_msg_s']:.5g}",
                f"{row['observed']['value']:.2g}",
                _interval(row["observed"]),
                "-" if row["factor"] is None else f"{row['factor']:.3g}",
                "-" if row["tail_shape"] is None else f"{row['tail_shape']:.2f}",
            )
        items.leave_out(len(wrong[WORST_ITEMS:]))
        items.show(console)
    for domain, spans in summary["peaks"].items():
        console.print(f"peak in {domain} (UTC): {', '.join(spans)}")
    console.print(
        f"{summary['rows']:,} rows, {summary['windows']:,} windows of {summary['window_s']} s in "
        f"{summary['blocks']:,} blocks of {summary['block_s']} s; {summary['repeated_rows']} repeated rows; "
        f"seed {summary['seed']}"
    )
    low, items_low = len(summary["misjudged_brokers"]), len(wrong)
    console.print(
        f"the normal model promises too much for {low} of {len(summary['brokers'])} brokers and "
        f"{items_low} of {summary['items']} items"
    )


def _verdict(row: dict[str, Any]) -> str:
    factor = row["factor"]
    if row["verdict"] == "fits" or factor is None:
        return str(row["verdict"])
    by = factor if row["verdict"] == "too low" else 1.0 / factor if factor > 0 else None
    return str(row["verdict"]) if by is None else f"{row['verdict']}, {by:.2g}x"


def _interval(share: dict[str, float]) -> str:
    return f"{share['low']:.2g} – {share['high']:.2g}"


def _moment(option: str, text: str) -> float | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option}: {text!r}", hint="2026-03-02, or 2026-03-02T09:00") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
