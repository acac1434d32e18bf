"""The planners' results beside the thesis's figures 4-6 and 4-9, and a broker's measured times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.evaluation.broker_costs import BrokerCosts, BrokerRun
from mangrove.evaluation.figures import INK, figure, finish, panels
from mangrove.evaluation.published import ACTIVEMQ, JOINT_OK
from mangrove.evaluation.six_items import Comparison

if TYPE_CHECKING:
    from mangrove.evaluation.allocation import Summary  # needs the genetic solver's library

COLOURS = ("#9fb4c4", "#c0792b", "#1e8449")


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
    """Time of a message by subscribers, measured and by the model, for each message size."""
    sizes = sorted({cost.message_bytes for cost in costs})
    with panels(file, 4.2 * max(len(sizes), 2), 4.4, len(sizes)) as all_axes:
        for axes, size in zip(all_axes, sizes, strict=True):
            cost = next(c for c in costs if c.message_bytes == size and c.clock == "seconds")
            times = {name: interval.value for name, interval in cost.times_s.items()}
            mine = [run for run in runs if run.message_bytes == size]
            for filters, colour in zip(sorted({run.filters for run in mine}), COLOURS * 3, strict=False):
                chosen = [run for run in mine if run.filters == filters]
                axes.plot(
                    [run.replication for run in chosen],
                    [1e6 * run.seconds for run in chosen],
                    "o",
                    markersize=3.5,
                    color=colour,
                    label=f"{filters} further filters",
                )
                most = max(run.replication for run in mine)
                line = [times["t_rcv"] + filters * times["t_fltr"] + r * times["t_tx"] for r in (0, most)]
                axes.plot((0, most), [1e6 * value for value in line], color=colour, linewidth=1.0)
            axes.set_xlabel("subscribers that get each message")
            axes.set_ylabel("µs a message")
            axes.set_ylim(bottom=0)
            axes.set_title(f"{size} bytes", fontsize=11, loc="left", color=INK)
            finish(axes)
        slower = ACTIVEMQ.t_tx_s / cost.times_s["t_tx"].value if cost.times_s["t_tx"].value else float("inf")
        all_axes[-1].annotate(
            f"ActiveMQ in table 4-5: t_tx {1e6 * ACTIVEMQ.t_tx_s:.1f} µs ({slower:.0f} ×)",
            (0.98, 0.03),
            xycoords="axes fraction",
            ha="right",
            fontsize=8,
            color=INK,
        )
