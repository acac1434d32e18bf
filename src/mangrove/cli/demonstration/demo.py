"""`mangrove demo`: a federation with traffic, live progress and an account at the end."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Coroutine, Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from mangrove.cli.demonstration import damage as demo_damage
from mangrove.cli.demonstration import harmony as demo_harmony
from mangrove.cli.demonstration import highway as demo_highway
from mangrove.cli.demonstration import surge as demo_surge
from mangrove.cli.demonstration import tsunami as demo_tsunami
from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.cli.running import run_async
from mangrove.errors import EXIT_NEGATIVE, InputError, MangroveError

if TYPE_CHECKING:
    from rich.console import Console

    from mangrove.cli.tables.table import Table
    from mangrove.testbed.damage.scenario import DamageReport
    from mangrove.testbed.harmony import Phase
    from mangrove.testbed.highway.scenario import HighwayReport
    from mangrove.testbed.surge.scenario import SurgeReport
    from mangrove.testbed.traffic import Stream, StreamReport, Traffic
    from mangrove.testbed.tsunami.report import TsunamiReport

T = TypeVar("T")

DEMOS = {
    "five-cities": "five_cities.yaml",
    "harmony": demo_harmony.FILE,
    "surge": "",
    "damage": "",
    "highway": "",
    "tsunami": "",
}
SECONDS = 20.0
LONGER = {"tsunami": 75.0}


def demo(
    name: Annotated[str, typer.Argument(help=f"Which demo: {', '.join(DEMOS)}.")] = "five-cities",
    seconds: Annotated[
        float | None,
        typer.Option(min=1, max=3600, help="How long messages are sent. [default: 20, in `tsunami` 75]"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the emulated links' jitter.")] = 1,
    damage: Annotated[
        float, typer.Option(min=0.05, max=0.9, help="What is left of the edges' bandwidth in `damage`.")
    ] = 0.3,
    nats_only: Annotated[
        bool, typer.Option("--nats-only", help="`tsunami` without its RabbitMQ, with NATS in its place.")
    ] = False,
    keep: Annotated[Path | None, typer.Option("--run-dir", help="Keep logs and state here.")] = None,
    as_json: JsonOption = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Without the live view.")] = False,
) -> None:
    """Run real brokers with traffic, such as in five cities, and report what arrived."""
    if name not in DEMOS:
        raise InputError(f"there is no demo {name!r}", hint=f"choose one of: {', '.join(DEMOS)}")
    show = not no_browser and not as_json
    seconds = LONGER.get(name, SECONDS) if seconds is None else seconds
    if name == "tsunami":
        demo_tsunami.check_rabbitmq(wanted=not nats_only)
    with contextlib.ExitStack() as stack:
        directory = keep or stack.enter_context(_where_commands_look(name))
        if name == "harmony":
            phases, reports = _run(demo_harmony.run(seconds, seed, directory), directory, show)
            _conclude_harmony(phases, reports, seed, as_json)
            return
        if name == "surge":
            _conclude_surge(_run(demo_surge.run(seconds, seed, directory), directory, show), as_json)
            return
        if name == "damage":
            _conclude_damage(run_async(demo_damage.run(seconds, seed, directory, damage)), as_json)
            return
        if name == "highway":
            _conclude_highway(_run(demo_highway.run(seconds, seed, directory), directory, show), as_json)
            return
        if name == "tsunami":
            told = demo_tsunami.run(seconds, seed, directory, rabbitmq=not nats_only)
            _conclude_tsunami(_run(told, directory, show), as_json)
            return
        reports = _run(_demo(name, seconds, seed, directory), directory, show)
    failed = sum(report.lost + report.duplicated for report in reports)
    if as_json:
        print_json({"demo": name, "seconds": seconds, "seed": seed, "streams": reports})
    else:
        console = stdout_console()
        what_arrived(reports).show(console)
        verdict = "0 lost, 0 duplicated" if not failed else "[red]messages were lost or duplicated[/red]"
        console.print(f"Every message has a unique id; each is expected once per subscriber: {verdict}.")
    if failed:
        raise typer.Exit(EXIT_NEGATIVE)


@contextlib.contextmanager
def _where_commands_look(name: str) -> Iterator[Path]:
    """A run directory for as long as a demonstration lasts: `status`, `story` and `monitor` find it there."""
    from mangrove.host.run_directory import state_directory

    state = state_directory()
    state.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"demo-{name}-", dir=state) as directory:
        yield Path(directory)


def _run(demonstration: Coroutine[None, None, T], directory: Path, show: bool) -> T:
    """With the live view of what runs in `directory` beside it, if that is to be shown."""
    from mangrove.cli.monitoring.beside import watched

    return run_async(watched(directory, demonstration, wanted=show))


def _conclude_harmony(phases: list[Phase], reports: list[StreamReport], seed: int, as_json: bool) -> None:
    problems = demo_harmony.failures(phases, reports)
    if as_json:
        print_json(
            {"demo": "harmony", "seed": seed, "phases": phases, "streams": reports, "problems": problems}
        )
    else:
        demo_harmony.render(phases, reports)
    _blame(problems)


def _conclude_surge(report: SurgeReport, as_json: bool) -> None:
    problems = demo_surge.failures(report)
    if as_json:
        print_json({"demo": "surge", "report": report, "problems": problems})
    else:
        demo_surge.render(report)
    _blame(problems)


def _conclude_damage(reports: dict[str, DamageReport], as_json: bool) -> None:
    problems = demo_damage.failures(reports)
    if as_json:
        print_json({"demo": "damage", "reports": reports, "problems": problems})
    else:
        demo_damage.render(reports)
    _blame(problems)


def _conclude_highway(report: HighwayReport, as_json: bool) -> None:
    problems = demo_highway.failures(report)
    if as_json:
        print_json({"demo": "highway", "report": report, "problems": problems})
    else:
        demo_highway.render(report)
    _blame(problems)


def _conclude_tsunami(report: TsunamiReport, as_json: bool) -> None:
    if as_json:
        print_json({"demo": "tsunami", **report.document()})
    else:
        demo_tsunami.render(report)
    _blame(report.problems())


def _blame(problems: list[str]) -> None:
    """Say what did not go as it should, and end with that; nothing if all went well."""
    for problem in problems:
        stderr_console().print(f"[red]{problem}[/red]")
    if problems:
        raise typer.Exit(EXIT_NEGATIVE)


def streams_of_five_cities() -> tuple[Stream, ...]:
    """What is said in the five cities, and who listens."""
    from mangrove.testbed.traffic import Stream

    return (
        Stream("alert.tsunami", "seattle", ("washington", "orlando", "los-angeles"), 20, 100),
        Stream("alert.grid", "orlando", ("seattle", "denver"), 20, 100),
        Stream("market.quotes", "washington", ("los-angeles", "denver", "seattle", "orlando"), 200, 150),
        Stream("sensor.buoys", "los-angeles", ("seattle", "washington"), 100, 500),
        Stream("sensor.roads", "denver", ("orlando",), 100, 500),
        Stream("news.bulletin", "seattle", ("orlando", "washington"), 10, None),
    )


async def _demo(name: str, seconds: float, seed: int, directory: Path) -> list[StreamReport]:
    from mangrove.agent.inspection import wait_for_interest
    from mangrove.config import parse_federation
    from mangrove.testbed.local_federation import LocalFederation
    from mangrove.testbed.traffic import Traffic

    text = (resources.files("mangrove.testbed") / DEMOS[name]).read_text()
    federation = parse_federation(text, DEMOS[name]).require()
    console = stderr_console()
    brokers = sum(2 + len(domain.edges) for domain in federation.domains.values())
    console.print(
        f"[bold]{federation.name}[/bold]: {len(federation.domains)} sites, {brokers} nats-server processes, "
        f"{len(federation.domains)} gateways, {len(federation.links)} emulated WAN links (seed {seed})"
    )
    launched = LocalFederation(
        federation,
        directory,
        ephemeral=True,
        secured=True,
        seed=seed,
        progress=lambda text: console.print(f"  {text}"),
    )
    async with launched:
        traffic = Traffic(streams_of_five_cities(), directory)
        try:
            await traffic.open()
            if not await wait_for_interest(launched.runtime(), traffic.wanted(), timeout_s=30.0):
                raise MangroveError(
                    "the gateways did not learn of all subscriptions in time",
                    hint=f"keep the logs with --run-dir DIR and look below DIR/logs (now {directory})",
                )
            await _run_with_progress(traffic, seconds, console)
        finally:
            await traffic.close()
    return [account.report() for account in traffic.accounts]


async def _run_with_progress(traffic: Traffic, seconds: float, console: Console) -> None:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    total = sum(int(seconds * account.stream.rate_msg_s) for account in traffic.accounts)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
        console=console,
    ) as progress:
        bar = progress.add_task("messages cross the federation", total=total, figures="")
        running = asyncio.create_task(traffic.run(seconds))
        try:
            while not running.done():
                sent = sum(account.sent for account in traffic.accounts)
                delivered = sum(account.delivered for account in traffic.accounts)
                progress.update(bar, completed=sent, figures=f"{sent:,} sent, {delivered:,} deliveries")
                await asyncio.wait([running], timeout=0.2)
            await running
        finally:
            running.cancel()


def what_arrived(reports: list[StreamReport]) -> Table:
    """The account of all streams."""
    from mangrove.cli.tables.table import Table, bad, details_column, name_column, number_column

    table = Table(
        "What arrived (times in milliseconds)",
        name_column("topic"),
        *map(number_column, ("sent", "delivered", "in time", "lost", "dupl.", "p50", "p99", "limit")),
        details_column(""),
    )
    for report in reports:
        share = report.in_time / report.delivered if report.delivered else 0.0
        sites = len(report.subscribers)
        where = report.subscribers[0] if sites == 1 else f"{sites} sites"
        table.add(
            report.topic,
            f"{report.sent:,}",
            f"{report.delivered:,}",
            f"{share:.1%}",
            bad(f"{report.lost:,}") if report.lost else "0",
            bad(f"{report.duplicated:,}") if report.duplicated else "0",
            f"{report.p50_ms:.0f}",
            f"{report.p99_ms:.0f}",
            f"{report.deadline_ms:.0f}" if report.deadline_ms else "–",
            f"{report.publisher} → {where}",
        )
    return table
