"""`mangrove evaluate harmony|six-nodes`: published scenarios message by message."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.measurement.options import (
    PlotOption,
    SeedOption,
    SeedsOption,
    conclude,
    plain,
    seed_range,
    told,
)
from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console

if TYPE_CHECKING:
    from mangrove.evaluation.traces.harmony import HarmonyResult
    from mangrove.evaluation.traces.six_nodes import SixNodeResult
    from mangrove.model.federation import Federation
    from mangrove.testbed.harmony import Phase
    from mangrove.testbed.traffic import StreamReport


def harmony(
    seeds: SeedsOption = 20,
    seed: SeedOption = 1,
    phase_s: Annotated[
        float, typer.Option("--phase-seconds", min=1.0, max=60.0, help="Length of each phase.")
    ] = 3.0,
    live: Annotated[
        float | None,
        typer.Option(min=8.0, max=600.0, help="Also run it with real brokers, for so many seconds."),
    ] = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Harmony's section 5: a link is slowed, then cut, then a site dies; four phases beside the paper's."""
    from rich.progress import Progress

    from mangrove.evaluation.traces.harmony import run_harmony

    with Progress(console=stderr_console(), transient=True) as progress:
        task = progress.add_task("seeds", total=None)
        result = run_harmony(
            _harmony_federation(),
            seed_range(seed, seeds),
            phase_s,
            lambda done, of: progress.update(task, completed=done, total=of),
        )
    measured = _run_live(live, seed) if live is not None else None
    if plot is not None:
        from mangrove.evaluation.drawings.traces import draw_harmony

        draw_harmony(result, plot)
    missed = result.missed()
    if measured is not None:
        from mangrove.cli.demonstration import harmony as demonstration

        missed += [f"live: {problem}" for problem in demonstration.failures(*measured)]
    if as_json:
        document = plain(result)
        del document["first"]
        if measured is not None:
            document["live"] = {"phases": measured[0], "streams": measured[1]}
        print_json({"experiment": "harmony", **document, "missed": missed})
    else:
        _show_harmony(result)
        if measured is not None:
            from mangrove.cli.demonstration import harmony as demonstration

            stdout_console().print("\nWith real brokers:")
            demonstration.render(*measured)
    conclude(missed)


def six_nodes(
    seeds: SeedsOption = 10,
    seed: SeedOption = 1,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """PCRT's six nodes (figures 9 and 10): a link fails at 30 and heals at 60; who notices when."""
    from rich.progress import Progress

    from mangrove.evaluation.traces.six_nodes import run_six_nodes

    with Progress(console=stderr_console(), transient=True) as progress:
        task = progress.add_task("runs", total=None)
        result = run_six_nodes(
            seed_range(seed, seeds),
            on_run=lambda done, of: progress.update(task, completed=done, total=of),
        )
    if plot is not None:
        from mangrove.evaluation.drawings.traces import draw_six_nodes

        draw_six_nodes(result, plot)
    missed, notes = result.missed(), result.notes()
    if as_json:
        print_json({"experiment": "six-nodes", **plain(result), "notes": notes, "missed": missed})
    else:
        _show_six_nodes(result)
        for line in notes:
            stdout_console().print(f"behind routers that compute at once: {line}")
    conclude(missed)


def _harmony_federation() -> Federation:
    from importlib import resources

    from mangrove.cli.demonstration.harmony import FILE
    from mangrove.config import parse_federation

    text = (resources.files("mangrove.testbed") / FILE).read_text()
    return parse_federation(text, FILE).require()


def _run_live(seconds: float, seed: int) -> tuple[list[Phase], list[StreamReport]]:
    from mangrove.cli.demonstration import harmony as demonstration
    from mangrove.cli.running import run_async

    with tempfile.TemporaryDirectory(prefix="mangrove-harmony-") as directory:
        return run_async(demonstration.run(seconds, seed, Path(directory)))


def _show_harmony(result: HarmonyResult) -> None:
    from mangrove.cli.tables.table import Table, details_column, name_column, number_column

    table = Table(
        "Harmony §5 in simulation (times in milliseconds)",
        name_column("phase, topic"),
        number_column("median"),
        number_column("worst"),
        number_column("in time"),
        number_column("gap"),
        details_column("paths"),
    )
    count = len(result.seeds)
    for phase in result.phases:
        mark, style = ("✓", "green") if phase.held == count else ("✗", "red")
        table.section(f"{mark} {phase.name}. Paper: {phase.paper}", style)
        moved = "" if not phase.moved_ms.mean else f" after {phase.moved_ms.rounded(0)} ms"
        table.section(f"  ours: {phase.expectation}{moved}, in {phase.held} of {count} seeds", style)
        for topic, routes in phase.routes.items():
            table.add(
                f"  {topic}",
                phase.median_ms[topic].rounded(1),
                f"{phase.worst_ms[topic]:.0f}",
                f"{phase.in_time[topic]:.1%}",
                f"{phase.longest_gap_ms[topic]:.0f}",
                "; ".join(" → ".join(path) for path in routes),
            )
    console = stdout_console()
    table.show(console)
    lost = sum(phase.lost for phase in result.phases)
    deadlines = ", ".join(f"{topic} {deadline:g} ms" for topic, deadline in result.deadlines_ms.items())
    console.print(
        f"{told(result.seeds)}; deadlines: {deadlines}; {lost} lost, {result.duplicates} delivered twice; "
        "the worst and the longest gap between arrivals are over all seeds. The paper prints no times."
    )


def _show_six_nodes(result: SixNodeResult) -> None:
    from mangrove.cli.tables.table import Table, name_column, number_column
    from mangrove.evaluation.traces.six_nodes import LABELS

    table = Table(
        "Link 2–3 of six nodes fails at 30 and heals at 60 (units of time)",
        name_column("protocol"),
        *map(number_column, ("delivers again after", "packets lost", "healed link used after")),
    )
    for summary in result.schemes:
        table.add(
            LABELS[summary.scheme],
            summary.reconverged.rounded(2),
            summary.lost.rounded(1),
            summary.healed.rounded(2),
        )
    console = stdout_console()
    table.show(console)
    console.print(
        f"{told(result.seeds)}; a packet a unit, a tenth of a unit a hop; ± is the 95 % interval of the mean"
    )
