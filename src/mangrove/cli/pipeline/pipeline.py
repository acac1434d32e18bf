"""`mangrove pipeline JOB`: Spark jobs from the telemetry lake to plans."""

from __future__ import annotations

import json
import time
from datetime import UTC, date, datetime
from datetime import time as clock
from pathlib import Path
from typing import Annotated, Any

import typer

from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.cli.pipeline import jobs as pipeline_jobs
from mangrove.cli.pipeline import load_jobs, run
from mangrove.cli.pipeline import risk as risk_command
from mangrove.cli.pipeline import semantics as semantics_command
from mangrove.cli.pipeline.session import (
    DomainOption,
    OutputOption,
    SeedOption,
    open_session,
    report_skipped,
    session_options,
)
from mangrove.errors import InputError
from mangrove.pipelines.session.settings import SparkSettings

app = typer.Typer(help="Turn recorded telemetry into plans, on Spark.", no_args_is_help=True)
BUSIEST = 10


@session_options
def profile(
    output: OutputOption,
    input_: Annotated[
        str | None, typer.Option("--input", help="The telemetry lake: a directory or an object store's URL.")
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="A table of Spark's catalog instead: CATALOG.DB.TABLE.")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="Directory that keeps what was read: only days with new files are read again."),
    ] = None,
    since: Annotated[str | None, typer.Option(help="Only from this day on, in UTC: 2026-03-02.")] = None,
    until: Annotated[str | None, typer.Option(help="Only until before this day, in UTC.")] = None,
    days: Annotated[
        int | None, typer.Option(min=1, help="Only so many days, up to the lake's last one.")
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="With --state: keep it current as files arrive, then profile.")
    ] = False,
    seconds: Annotated[
        float | None, typer.Option(min=1, help="With --stream: follow the lake for so long, then end.")
    ] = None,
    peak: Annotated[str, typer.Option(help="Peak periods: auto, all, or 09:00-11:00,… in UTC.")] = "auto",
    window: Annotated[int, typer.Option(min=1, max=3600, help="Seconds over which rates are taken.")] = 1,
    domain: DomainOption = None,
    groups: Annotated[
        Path | None, typer.Option(help='Items as a JSON file: {"item": ["topic or pattern", …]}.')
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Group correlated topics of low rate into items.")
    ] = False,
    shrinkage: Annotated[
        str, typer.Option(help="Reduction of covariances: auto (short histories), none, or 0 to 1.")
    ] = "auto",
    federation: Annotated[
        Path | None, typer.Option(help="Federation file: its edge brokers and their capacities.")
    ] = None,
    capacity: Annotated[
        float | None, typer.Option(help="Capacity of each broker, messages per second.")
    ] = None,
    brokers: Annotated[
        int | None, typer.Option(min=1, help="Number of brokers, with --capacity or --model.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Broker model: model.json of the job `calibrate`.")
    ] = None,
    max_risk: Annotated[
        float | None, typer.Option(help="Bound on each broker's probability of overload.")
    ] = None,
    scenarios: Annotated[
        int | None,
        typer.Option(help="Also keep so many windows for `plan allocate --risk empirical`: scenarios.npz."),
    ] = None,
    seed: SeedOption = 1,
    *,
    session: SparkSettings,
    as_json: JsonOption = False,
) -> None:
    """Rates, variances and covariances of topics at peak; writes a problem for `mangrove plan allocate`."""
    from mangrove.cli.pipeline.brokers import choose_brokers

    targets = choose_brokers(federation, frozenset(domain or ()), capacity, brokers, model, max_risk)
    if seconds is not None and not stream:
        raise InputError("--seconds goes with --stream")
    if stream and state is None:
        raise InputError("--stream keeps a state", hint="give --state DIR")
    if days is not None and (since or until):
        raise InputError("--days and --since or --until exclude each other", hint="give one of them")
    since_s, until_s = _midnight("--since", since), _midnight("--until", until)
    if since_s is not None and until_s is not None and since_s >= until_s:
        raise InputError(f"--since {since} is not before --until {until}")
    with open_session(session) as (spark, progress):
        from mangrove.model.telemetry import TOPIC_RATES
        from mangrove.pipelines.jobs import profile as job
        from mangrove.pipelines.output import check_output
        from mangrove.pipelines.rates.items import read_groups
        from mangrove.pipelines.rates.peaks import parse_peak
        from mangrove.pipelines.reading.source import parse_source

        settings = job.ProfileSettings(
            peak=parse_peak(peak),
            window_s=window,
            domains=frozenset(domain) if domain else None,
            shrinkage=_shrinkage(shrinkage),
            groups=None if groups is None else read_groups(_read_json(groups), str(groups)),
            cluster=cluster,
            since_s=since_s,
            until_s=until_s,
            days=days,
        )
        source = parse_source(input_, [table] if table else [], [TOPIC_RATES])
        check_output(output, job.JOB)
        started = time.monotonic()
        if stream and state is not None:
            job.follow(spark, source, state, seconds, progress)
        found = job.profile(spark, source, settings, progress, state)
        kept = None
        if scenarios is not None:
            from mangrove.pipelines.risk.scenario_sample import profile_scenarios

            progress(f"choosing {scenarios:,} windows")
            kept = profile_scenarios(spark, source, found, scenarios, seed)
        summary = job.write_profile(found, targets, output, kept)
    summary["seconds"] = round(time.monotonic() - started, 3)
    report_skipped(summary)
    if as_json:
        print_json(summary)
        return
    _show_profile(found, summary)
    stderr_console().print(f"written to {output}; next: mangrove plan allocate {output / 'problem.json'}")


def synthetic(
    output: Annotated[Path, typer.Option("--output", help="Directory of the new lake.")],
    topics: Annotated[int, typer.Option(min=1, help="Topics of each domain.")] = 20,
    hours: Annotated[float, typer.Option(help="Length of the history.")] = 24.0,
    domain: DomainOption = None,
    faults: Annotated[
        bool, typer.Option("--faults", help="Also copied, late, damaged files, reset counters and gaps.")
    ] = False,
    texts: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="Also so many sampled texts, with known synonyms.")
    ] = 0,
    seed: SeedOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Make a lake with known parameters, to try the jobs on."""
    from rich.progress import Progress

    from mangrove.pipelines.output import output_directory, write_json
    from mangrove.pipelines.synthetic.operations import SyntheticOperations, generate_operations
    from mangrove.pipelines.synthetic.rates import SyntheticRates, generate, truth
    from mangrove.pipelines.synthetic.texts import generate_texts

    if not 1 / 3600 <= hours <= 24 * 366:
        raise InputError(f"--hours: {hours}", hint="between one second and a year")
    domains = tuple(domain or ["seattle"])
    spec = SyntheticRates(
        topics=topics,
        seconds=round(hours * 3600),
        seed=seed,
        domains=domains,
        copied_files=2 if faults else 0,
        late_rows=200 if faults else 0,
        reset_rows=20 if faults else 0,
        damaged_files=1 if faults else 0,
        gap=faults,
    )
    console = stderr_console()
    with output_directory(output, "synthetic") as directory:
        with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task("rows", total=spec.rows)
            files = generate(spec, directory, lambda rows: bar.advance(task, rows))
        operations = SyntheticOperations(seconds=spec.seconds, seed=seed, domains=domains, start=spec.start)
        generate_operations(operations, directory)
        if texts:
            generate_texts(directory, texts, seed, domains, spec.start)
        facts = truth(spec)
        write_json(
            directory / "truth.json",
            {
                "seed": seed,
                "topics": facts.topics,
                "mean_rate": facts.mean_rate.tolist(),
                "variance": facts.covariance.diagonal().tolist(),
                "correlation_in_groups": spec.correlation,
                "group_size": spec.group_size,
                "replication": facts.replication.tolist(),
                "filters": facts.filters.tolist(),
            },
        )
    answer = {"lake": str(output), "rows": spec.rows, "files": len(files), "seed": seed}
    if as_json:
        print_json(answer)
    else:
        stdout_console().print(
            f"{spec.rows:,} rows of topic_rates in {len(files)} files at {output}, seed {seed}"
        )


def _midnight(option: str, text: str | None) -> int | None:
    """Seconds since 1970 of a day's beginning in UTC."""
    if text is None:
        return None
    try:
        return int(datetime.combine(date.fromisoformat(text), clock.min, UTC).timestamp())
    except ValueError:
        raise InputError(f"{option}: {text!r} is not a day", hint="e.g. 2026-03-02, in UTC") from None


def _shrinkage(text: str) -> float | None:
    if text == "auto":
        return None
    if text == "none":
        return 0.0
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise InputError(f"--shrinkage: {text!r}", hint="auto, none, or a number from 0 to 1")
    return value


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from error


def _show_profile(found: Any, summary: dict[str, Any]) -> None:
    import numpy as np

    from mangrove.cli.tables.table import EXTRA, USEFUL, Table, name_column, number_column

    figures = found.statistics
    table = Table(
        f"{summary['topics']} topics at peak, busiest first",
        name_column("topic"),
        name_column("domain", USEFUL),
        number_column("msg/s"),
        number_column("deviation"),
        number_column("burst", USEFUL),
        number_column("copies", USEFUL),
        number_column("filters", USEFUL),
        number_column("bytes", EXTRA),
        elsewhere="topics.parquet",
    )
    busiest = np.argsort(-figures.mean_rate, kind="stable")
    for place in busiest[:BUSIEST]:
        domain, topic = found.topics[place]
        table.add(
            topic,
            domain,
            f"{figures.mean_rate[place]:.5g}",
            f"{figures.variance[place] ** 0.5:.4g}",
            f"{figures.burst_factor[place]:.3g}",
            f"{figures.replication[place]:.3g}",
            f"{figures.filters[place]:.3g}",
            f"{figures.message_bytes[place]:.4g}",
        )
    table.leave_out(len(busiest[BUSIEST:]))
    console = stdout_console()
    table.show(console)
    for domain, spans in summary["peaks"].items():
        console.print(f"peak in {domain} (UTC): {', '.join(spans)}")
    rate = summary["rows"] / max(summary["seconds"], 1e-9)
    console.print(
        f"{summary['rows']:,} rows, {summary['windows']:,} windows of {summary['window_s']} s, "
        f"{summary['repeated_rows']} repeated rows; {summary['seconds']:.1f} s, {rate:,.0f} rows/s"
    )


# As they are met on the way from records to a plan.
app.command("profile")(profile)
app.command("availability")(pipeline_jobs.availability)
app.command("slo")(pipeline_jobs.slo)
app.command("risk")(risk_command.risk)
app.command("load")(load_jobs.load)
app.command("utility")(load_jobs.utility)
app.command("semantics")(semantics_command.semantics)
app.command("calibrate")(pipeline_jobs.calibrate)
app.command("cases")(pipeline_jobs.cases)
app.command("report")(pipeline_jobs.report)
app.command("run")(run.run)
app.command("synthetic")(synthetic)
