"""`mangrove evaluate allocation|six-items|broker-costs|heavy-tails`: the thesis's chapter 4, and beyond."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.measurement.options import (
    PlotOption,
    SeedOption,
    SeedsOption,
    conclude,
    failures,
    plain,
    seed_range,
)
from mangrove.cli.measurement.trials.place import (
    MasterOption,
    Place,
    RemoteOption,
    ResultsOption,
    WorkersOption,
)
from mangrove.cli.optional import require_library
from mangrove.cli.output import JsonOption, print_json, stdout_console
from mangrove.errors import EXIT_NEGATIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mangrove.evaluation.allocation import Summary
    from mangrove.evaluation.broker_costs import BrokerCosts, Interval
    from mangrove.evaluation.heavy_tails import Summary as HeavyTails
    from mangrove.evaluation.six_items import Comparison


def allocation(
    seeds: SeedsOption = 20,
    seed: SeedOption = 1,
    plot: PlotOption = None,
    workers: WorkersOption = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    results: ResultsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Genetic against round-robin allocation, 100 topics on 3 brokers (tables 4-6 to 4-8 of RQMOM)."""
    from mangrove.evaluation.allocation import allocation_trials, summarise
    from mangrove.evaluation.trials.experiment import MAIN

    if master is None and remote is None:
        require_library("pymoo")
    trials = allocation_trials()
    found = Place(workers, master, remote, results).collect(trials, trials.tasks(seed_range(seed, seeds)))
    summary = summarise(found.of(MAIN))
    if plot is not None:
        from mangrove.evaluation.drawings.planning import draw_improvements

        draw_improvements(summary, plot)
    if as_json:
        print_json(summary)
    else:
        _show_allocation(summary)
    conclude(failures(found.failed))
    if any(count < len(summary.seeds) for count in summary.held.values()):
        raise typer.Exit(EXIT_NEGATIVE)


def heavy_tails(
    seeds: SeedsOption = 20,
    seed: SeedOption = 1,
    shocks: Annotated[
        float, typer.Option(min=0.0, help="Shocks of each group in an hour; 0: nothing but normal traffic.")
    ] = 1.0,
    load: Annotated[float, typer.Option(min=0.1, max=0.99, help="Mean rate over capacity.")] = 0.75,
    workers: WorkersOption = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    results: ResultsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Plans from means and covariances against plans from observed tails, on days that neither has seen."""
    from mangrove.evaluation.heavy_tails import Setting, heavy_tails_trials, summarised
    from mangrove.evaluation.trials.experiment import MAIN

    setting = Setting(shocks_per_hour=shocks, load=load)
    trials = heavy_tails_trials(setting)
    found = Place(workers, master, remote, results).collect(trials, trials.tasks(seed_range(seed, seeds)))
    summary = summarised(found.of(MAIN), setting)
    if as_json:
        print_json(summary)
    else:
        _show_heavy_tails(summary)
    conclude(failures(found.failed))
    if shocks and summary.ratio >= 1.0:
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


def _show_allocation(summary: Summary) -> None:
    from mangrove.cli.tables.table import Table, name_column, number_column

    count = len(summary.seeds)
    table = Table(
        f"Joint probability that all brokers are fine, mean of {count} seeds from {summary.seeds[0]}",
        name_column("test"),
        name_column("start"),
        *map(number_column, ("round robin", "genetic", "search", "improvement of genetic")),
    )
    for test, rows in summary.means.items():
        for row in rows:
            numbers = (f"{row[name]:.6f}" for name in ("round_robin", "genetic", "search"))
            table.add(test, str(row["start"]), *numbers, f"{row['improvement']:.1%}")
    console = stdout_console()
    table.show(console)
    for finding, held in summary.held.items():
        console.print(f"{held:>3} of {count}: {finding}")


def _show_heavy_tails(summary: HeavyTails) -> None:
    from mangrove.cli.tables.table import Table, name_column, number_column

    count = len(summary.seeds)
    table = Table(
        f"Share of seconds in which a broker is overloaded, mean of {count} seeds from {summary.seeds[0]}",
        name_column("plan"),
        *map(number_column, ("promised", "days it was made from", "later days", "later, any broker")),
    )
    for name, plan in summary.means.items():
        figures = (plan.promised, plan.seen, plan.held_out, plan.any_broker)
        table.add(name, *(f"{figure:.2g}" for figure in figures))
    out = stdout_console()
    table.show(out)
    out.print(
        f"empirical over normal on later days: {summary.ratio:.2f} "
        f"[{summary.ratio_low:.2f}, {summary.ratio_high:.2f}]; less often in {summary.less_often} of {count}",
        markup=False,
    )
    out.print(
        f"observed over promised on later days: normal {summary.normal_error:.3g}, "
        f"empirical {summary.empirical_error:.3g}"
    )


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
