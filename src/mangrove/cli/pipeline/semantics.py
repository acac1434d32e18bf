"""`mangrove pipeline semantics`: what words mean, from sampled texts."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.cli.pipeline.session import (
    DomainOption,
    OutputOption,
    SeedOption,
    open_session,
    report_skipped,
    session_options,
)
from mangrove.cli.pipeline.sources import LakeOption, TableOption
from mangrove.pipelines.session.settings import SparkSettings


@session_options
def semantics(
    output: OutputOption,
    input_: LakeOption = None,
    table: TableOption = None,
    domain: DomainOption = None,
    texts: Annotated[int, typer.Option(help="Texts to learn from at most; a sample of them.")] = 200_000,
    words: Annotated[int, typer.Option(help="Words to learn at most, the most frequent.")] = 20_000,
    least_count: Annotated[int, typer.Option(help="Leave out words that occur less often.")] = 5,
    dimensions: Annotated[int, typer.Option(help="Numbers in a word's vector.")] = 32,
    window: Annotated[int, typer.Option(help="Words to each side that count as near.")] = 5,
    passes: Annotated[int, typer.Option(help="How often all texts are gone through.")] = 10,
    learners: Annotated[
        int, typer.Option(help="Parts that learn side by side; their number changes the result.")
    ] = 1,
    seed: SeedOption = 1,
    *,
    session: SparkSettings,
    as_json: JsonOption = False,
) -> None:
    """Which words mean the same, learnt from sampled texts; a table for `subscribe(semantic=…)`."""
    from mangrove.model.telemetry import MESSAGE_TEXTS
    from mangrove.pipelines.reading.source import parse_source

    source = parse_source(input_, table or (), [MESSAGE_TEXTS])
    with open_session(session) as (spark, progress):
        from mangrove.pipelines.jobs import semantics as job
        from mangrove.pipelines.semantics.training import Training

        settings = job.SemanticsSettings(
            training=Training(dimensions, window, passes, learners, seed),
            domains=frozenset(domain) if domain else None,
            most_texts=texts,
            least_count=least_count,
            most_words=words,
        )
        summary = job.run(spark, source, output, settings, progress)
    report_skipped(summary)
    if as_json:
        print_json(summary)
        return
    _show(summary)
    stderr_console().print(f"written to {output}", soft_wrap=True)


def _show(summary: dict[str, Any]) -> None:
    from mangrove.cli.tables.table import Table, name_column, number_column

    table = Table(
        "some words from frequent to rare, and what is nearest to each",
        name_column("word"),
        name_column("nearest"),
        number_column("cosine"),
        name_column("then"),
        number_column("cosine"),
        elsewhere="words.parquet",
    )
    for each in summary["examples"]:
        first, second = (each["nearest"] + [{"word": "-", "cosine": 0.0}] * 2)[:2]
        table.add(
            each["word"],
            *(text for near in (first, second) for text in (near["word"], f"{near['cosine']:.2f}")),
        )
    table.leave_out(summary["words"] - len(summary["examples"]))
    console = stdout_console()
    table.show(console)
    console.print(
        f"{summary['words']:,} words from {summary['texts']:,} different texts; words with a cosine of "
        f"{summary['least_similarity']:.2f} or more count as related"
    )
