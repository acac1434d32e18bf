"""The planners' results beside the thesis's figures 4-6 and 4-9, and a broker's measured times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.evaluation.broker_costs import CLOCKS, BrokerCosts, BrokerRun
from mangrove.evaluation.drawings.figures import INK, figure, finish, panels
from mangrove.evaluation.published import JOINT_OK
from mangrove.evaluation.six_items import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mangrove.evaluation.allocation import Summary  # needs the genetic solver's library

COLOURS = ("#9fb4c4", "#c0792b", "#1e8449")
FILTER_COLOURS = (*COLOURS, "#7d3c98")


def draw_gains(comparisons: Sequence[Comparison], file: Path) -> None:
    """Figure 4-6: the share of each broker's risk that an allocation takes away."""
    with figure(file, 9.0, 4.4) as axes:
        brokers = len(comparisons[0].gain)
        for offset, (comparison, colour) in enumerate(zip(comparisons, COLOURS, strict=True)):
            at = [broker + (offset - 1) * 0.27 for broker in range(brokers)]
            bars = axes.bar(at, comparison.gain, 0.25, color=colour, label=comparison.name)
            axes.bar_label(bars, [f"{gain:.2f}" for gain in comparison.gain], fontsize=8, padding=2)
        axes.axhline(0.0, color=INK, linewidth=0.8)
        axes.set_yscale("symlog", linthresh=1.0)
        axes.set_ylim(-15, 2)
        axes.set_yticks([-10, -5, -1, 0, 1], ["−10", "−5", "−1", "0", "1"])
        axes.set_xticks(range(brokers), [f"broker {number}" for number in range(1, brokers + 1)])
        axes.set_ylabel("risk taken away, share of round robin's")
        axes.set_title("Figure 4-6: six items on three brokers", fontsize=11, loc="left", color=INK)
        finish(axes)
        axes.legend(fontsize=8, frameon=False, loc="lower left")


def draw_improvements(summary: Summary, file: Path) -> None:
    """Figure 4-9: improvement of the joint probability over round robin, by the quality of the start."""
    cases = ("case 1: good", "case 2: medium", "case 3: weak")
    with panels(file, 12.0, 4.6, 2) as (left, right):
        for axes, title in ((left, "printed (tables 4-6 to 4-8)"), (right, "ours, generated workloads")):
            for test, colour in (("A", "#2e5f8a"), ("B", "#c0392b")):
                name = f"test {test}: {'mixed' if test == 'A' else 'positive'} correlations"
                if axes is left:
                    before, after = JOINT_OK[test]
                    values = [(a - b) / b for b, a in zip(before, after, strict=True)]
                else:
                    values = [float(row["improvement"]) for row in summary.means[test]]
                axes.plot(range(3), [100 * value for value in values], "o-", color=colour, label=name)
                for position, value in enumerate(values):
                    axes.annotate(
                        f"{100 * value:.1f}",
                        (position, 100 * value),
                        xytext=(0, 6 if test == "A" else -13),
                        textcoords="offset points",
                        ha="center",
                        fontsize=8,
                        color=INK,
                    )
            axes.set_xticks(range(3), cases)
            axes.set_ylim(bottom=0)
            axes.margins(x=0.12, y=0.12)
            axes.set_ylabel("improvement on round robin (%)")
            axes.set_title(f"Figure 4-9, {title}", fontsize=11, loc="left", color=INK)
            finish(axes)


def draw_costs(costs: Sequence[BrokerCosts], runs: Sequence[BrokerRun], file: Path) -> None:
    """Cost of a message by subscribers, measured and by the model: clocks in rows, sizes in columns."""
    with panels(file, 4.2 * max(len(costs) // len(CLOCKS), 2), 7.6, len(costs), rows=len(CLOCKS)) as all_axes:
        ordered = sorted(costs, key=lambda cost: (CLOCKS.index(cost.clock), cost.message_bytes))
        for axes, cost in zip(all_axes, ordered, strict=True):
            _draw_cost(axes, cost, [run for run in runs if run.message_bytes == cost.message_bytes])


def _draw_cost(axes: Axes, cost: BrokerCosts, runs: Sequence[BrokerRun]) -> None:
    times = {name: interval.value for name, interval in cost.times_s.items()}
    most = max(run.replication for run in runs)
    for filters, colour in zip(sorted({run.filters for run in runs}), FILTER_COLOURS * 3, strict=False):
        chosen = [run for run in runs if run.filters == filters]
        axes.plot(
            [run.replication for run in chosen],
            [1e6 * getattr(run, cost.clock) for run in chosen],
            "o",
            markersize=3.5,
            color=colour,
            label=f"{filters} further filters",
        )
        line = [times["t_rcv"] + filters * times["t_fltr"] + r * times["t_tx"] for r in (0, most)]
        axes.plot((0, most), [1e6 * value for value in line], color=colour, linewidth=1.0)
    axes.set_xlabel("subscribers that get each message")
    clock = "time that passes" if cost.clock == "seconds" else "broker's processor time"
    axes.set_ylabel(f"{clock}, µs a message")
    axes.set_ylim(bottom=0)
    axes.set_title(f"{cost.message_bytes} bytes", fontsize=11, loc="left", color=INK)
    finish(axes)
