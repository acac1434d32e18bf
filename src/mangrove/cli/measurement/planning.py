"""`mangrove evaluate allocation|six-items|broker-costs`: the thesis's chapter 4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.measurement.options import PlotOption, plain
from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.errors import EXIT_NEGATIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mangrove.evaluation.broker_costs import BrokerCosts, Interval
    from mangrove.evaluation.six_items import Comparison


def allocation(
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to repeat the experiment over.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 1,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Genetic against round-robin allocation, 100 topics on 3 brokers (tables 4-6 to 4-8 of RQMOM)."""
    from rich.progress import Progress

    from mangrove.cli.tables.table import Table, name_column, number_column
    from mangrove.evaluation import allocation as experiment

    console = stderr_console()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("seeds", total=seeds)
        summary = experiment.run(range(seed, seed + seeds), on_seed=lambda _: bar.advance(task))
    if plot is not None:
        from mangrove.evaluation.drawings.planning import draw_improvements

        draw_improvements(summary, plot)
    if as_json:
        print_json(summary)
    else:
        table = Table(
            f"Joint probability that all brokers are fine, mean of {seeds} seeds from {seed}",
            name_column("test"),
            name_column("start"),
            *map(number_column, ("round robin", "genetic", "search", "improvement of genetic")),
        )
        for test, rows in summary.means.items():
            for row in rows:
                numbers = (f"{row[name]:.6f}" for name in ("round_robin", "genetic", "search"))
                table.add(test, str(row["start"]), *numbers, f"{row['improvement']:.1%}")
        out = stdout_console()
        table.show(out)
        for finding, count in summary.held.items():
            out.print(f"{count:>3} of {seeds}: {finding}")
    if any(count < seeds for count in summary.held.values()):
        raise typer.Exit(EXIT_NEGATIVE)


def six_items(
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search that the proof begins with.")] = 1,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Six items on three brokers (RQMOM figure 4-6): the printed gains, and those that follow."""
    from mangrove.evaluation.six_items import run_six_items

    comparisons = run_six_items(seed)
    if plot is not None:
        from mangrove.evaluation.drawings.planning import draw_gains

        draw_gains(comparisons, plot)
    if as_json:
        rows = [{**plain(one), "gain": list(one.gain)} for one in comparisons]
        print_json({"experiment": "six-items", "seed": seed, "comparisons": rows})
    else:
        _show_gains(comparisons, seed)


def broker_costs(
    subscribers: Annotated[str, typer.Option(help="Numbers of subscribers, comma-separated.")] = "1,2,4,8,16",
    filters: Annotated[str, typer.Option(help="Numbers of further patterns held.")] = "0,1000,4000,16000",
    sizes: Annotated[str, typer.Option(help="Payloads in bytes.")] = "64,256,1024",
    messages: Annotated[int, typer.Option(min=1000, help="Messages of each run.")] = 100_000,
    repeats: Annotated[int, typer.Option(min=1, max=50, help="Runs of each combination.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the order of the runs and of the draws.")] = 1,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure t_rcv, t_fltr and t_tx of nats-server on this machine, with 95 % intervals."""
    from mangrove.cli.pipeline.calibrate import combinations, measure_grid
    from mangrove.cli.running import run_async
    from mangrove.evaluation.broker_costs import BrokerRun, fit_costs

    grid = combinations(subscribers, filters, sizes)
    rows = run_async(measure_grid(grid * repeats, messages, None, seed))
    runs = [
        BrokerRun(
            row["message_bytes"],
            int(row["filters"]),
            int(row["replication"]),
            row["processing_time_s"],
            row["cpu_time_s"],
        )
        for row in rows
    ]
    costs = fit_costs(runs, seed)
    if plot is not None:
        from mangrove.evaluation.drawings.planning import draw_costs

        draw_costs(costs, runs, plot)
    broker = str(rows[0]["broker_type"])
    if as_json:
        print_json(
            {"experiment": "broker-costs", "broker": broker, "seed": seed, "costs": costs, "runs": runs}
        )
    else:
        _show_costs(costs, broker, seed)


def _show_gains(comparisons: Sequence[Comparison], seed: int) -> None:
    from mangrove.cli.tables.table import Table, name_column, number_column

    table = Table(
        "Risk that a broker is overloaded, and the gain of figure 4-6",
        name_column("broker"),
        name_column("round robin"),
        name_column("risk-aware"),
        *map(number_column, ("risk", "risk-aware", "gain")),
    )
    for one in comparisons:
        joint = ""
        if one.joint_ok_before is not None and one.joint_ok_after is not None:
            joint = f"; all are fine: {one.joint_ok_before:.4f} → {one.joint_ok_after:.4f}"
        table.section(one.name + joint, "")
        for broker, gain in enumerate(one.gain):
            table.add(
                f"broker {broker + 1}",
                ", ".join(map(str, one.before[broker])),
                ", ".join(map(str, one.after[broker])),
                f"{one.risk_before[broker]:.4f}",
                f"{one.risk_after[broker]:.4f}",
                f"{gain:+.2f}",
            )
    console = stdout_console()
    table.show(console)
    console.print(f"seed {seed}; the optimum is proven, so it does not depend on it")


def _show_costs(costs: Sequence[BrokerCosts], broker: str, seed: int) -> None:
    from mangrove.cli.tables.table import Table, number_column
    from mangrove.evaluation.published import ACTIVEMQ

    def shown(interval: Interval, scale: float, places: int) -> str:
        low, high = scale * interval.low, scale * interval.high
        return f"{scale * interval.value:.{places}f} [{low:.{places}f}, {high:.{places}f}]"

    table = Table(
        f"{broker}: what a message costs, with 95 % intervals",
        number_column("bytes"),
        number_column("t_rcv µs"),
        number_column("t_fltr ns"),
        number_column("t_tx µs"),
        number_column("misfit"),
    )
    labels = {"seconds": "time that passes at saturation", "cpu_s": "the broker's processor time"}
    for clock, label in labels.items():
        table.section(label, "")
        for cost in costs:
            if cost.clock == clock:
                table.add(
                    str(cost.message_bytes),
                    shown(cost.times_s["t_rcv"], 1e6, 2),
                    shown(cost.times_s["t_fltr"], 1e9, 3),
                    shown(cost.times_s["t_tx"], 1e6, 2),
                    f"{cost.relative_rms:.0%}",
                )
    table.section("ActiveMQ in the thesis, table 4-5", "")
    times = (1e6 * ACTIVEMQ.t_rcv_s, 1e9 * ACTIVEMQ.t_fltr_s, 1e6 * ACTIVEMQ.t_tx_s)
    table.add("–", *(f"{time:.1f}" for time in times), "–")
    console = stdout_console()
    table.show(console)
    for cost in costs:
        for warning in cost.warnings:
            console.print(f"{labels[cost.clock]}, {cost.message_bytes} bytes: {warning}")
    console.print(
        f"T = t_rcv + filters · t_fltr + subscribers · t_tx; seed {seed}; misfit: root mean square "
        "of what the model leaves, as a share of each run"
    )
