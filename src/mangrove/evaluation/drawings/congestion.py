"""ePEER's figures 5-3 to 5-9 from our own experiments, and what they leave out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.errors import InputError
from mangrove.evaluation.drawings.figures import INK, PALE, panels
from mangrove.evaluation.fdcc.experiment import PUBLISHED_QOE, FdccResult
from mangrove.evaluation.fdcc.registration import registered
from mangrove.evaluation.fdcc.trial import ARMS, Controlled, run_control
from mangrove.evaluation.fdcc.workload import BROKERS, DAMAGE_S, RECOVERY_S, draw_workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {"undamaged": "#2e5f8a", "uncontrolled": "#c0392b", "random": "#c0792b", "fdcc": "#1e8449"}
BROKER_COLOURS = (INK, "#2e5f8a", "#c0792b", "#1e8449", "#7d3c98")


def draw_congestion(result: FdccResult, folder: Path) -> list[Path]:
    """Means, pairs and one example, as PNG files in a folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make {folder}: {error.strerror}") from error
    files = [folder / name for name in ("arms.png", "pairs.png", "example.png")]
    draw_arms(result, files[0])
    draw_pairs(result, files[1])
    draw_example(result, files[2])
    return files


def draw_arms(result: FdccResult, file: Path) -> None:
    """Figure 5-9 for all arms, and what QoE does not show: utility delivered, good messages, load."""
    with panels(file, 11.0, 7.4, 4, rows=2) as axes:
        for panel, (title, measure, scale) in zip(
            axes,
            (
                ("QoE, silent publishers left out", "qoe", 1.0),
                ("utility delivered, thousands a second", "utility_s", 1e-3),
                ("good messages delivered in time, %", "good_in_time", 100.0),
            ),
            strict=False,
        ):
            for place, arm in enumerate(ARMS):
                value = scale * getattr(result.arms[arm], measure)
                bar = panel.bar(place, value, 0.7, color=COLOURS[arm])
                panel.bar_label(bar, [f"{value:.3g}"], fontsize=8, padding=2)
            panel.set_xticks(range(len(ARMS)), ARMS)
            panel.margins(y=0.15)
            panel.set_title(title, fontsize=10, loc="left", color=INK)
            _plain(panel)
        axes[0].scatter(
            [ARMS.index("undamaged"), ARMS.index("fdcc")],
            PUBLISHED_QOE,
            marker="D",
            s=22,
            color="white",
            edgecolors=INK,
            zorder=5,
            label="printed",
        )
        axes[0].legend(fontsize=8, frameon=False)
        _reductions(axes[3], result)


def _reductions(panel: Axes, result: FdccResult) -> None:
    for place, (_, found) in enumerate(result.load_reduced.items()):
        values = (found.points.mean, found.relative, found.measured_points, found.measured_relative)
        for offset, (value, colour) in enumerate(
            zip(values, ("#1e8449", "#58b37c", "#5d7b93", "#a9bccb"), strict=True)
        ):
            panel.bar(place + 0.2 * (offset - 1.5), 100 * value, 0.18, color=colour)
        panel.scatter(
            place - 0.3, 100 * found.published, marker="D", s=22, color="white", edgecolors=INK, zorder=5
        )
    panel.set_xticks(range(3), ("output", "input", "matching"))
    panel.set_title(
        "load reduced, %: points, relative; measured: points, relative", fontsize=10, loc="left", color=INK
    )
    _plain(panel)


def draw_pairs(result: FdccResult, file: Path) -> None:
    """Figures 5-7 and 5-8: experiment by experiment."""
    found = result.experiments
    with panels(file, 11.0, 4.2, 2) as (left, right):
        before = [one.arms["undamaged"].qoe for one in found]
        after = [one.arms["fdcc"].qoe for one in found]
        left.scatter(before, after, s=6, color=COLOURS["fdcc"], alpha=0.6)
        ends = [min(before), max(before)]
        left.plot(ends, ends, color=PALE, linewidth=1.0)
        left.set_xlabel("QoE before the damage")
        left.set_ylabel("QoE under control")
        left.set_title("every experiment; grey: no change", fontsize=10, loc="left", color=INK)
        ratios = [one.arms["fdcc"].utility_s / one.arms["random"].utility_s for one in found]
        right.hist(ratios, bins=30, color=COLOURS["fdcc"], alpha=0.8)
        right.axvline(1.0, color=INK, linewidth=1.0)
        right.set_xlabel("utility delivered, by that of random limiting of the same volume")
        right.set_ylabel("experiments")
        _plain(left)
        _plain(right)


def draw_example(result: FdccResult, file: Path) -> None:
    """Figures 5-3 to 5-5: the brokers of one experiment over time, as they are measured."""
    workload = draw_workload(result.seeds[0], result.setting.ranges)
    served = registered(workload, result.setting.balancing)
    controlled = run_control(workload, served, result.setting, history=True)
    with panels(file, 11.0, 8.4, 3, rows=3) as axes:
        for panel, (metric, title) in zip(axes, ((1, "output"), (0, "input"), (2, "matching")), strict=True):
            _example(panel, controlled, metric, f"{title} utilisation, seed {workload.seed}")


def _example(panel: Axes, controlled: Controlled, metric: int, title: str) -> None:
    times = [at for at, _ in controlled.utilisations]
    for number, (name, colour) in enumerate(zip(BROKERS, BROKER_COLOURS, strict=True)):
        used = [rows[number, metric] for _, rows in controlled.utilisations]
        panel.plot(times, used, color=colour, linewidth=1.0, label=name)
    for threshold in (0.90, 0.95):
        panel.axhline(threshold, color=INK, linewidth=0.6, linestyle=":")
    for at in (DAMAGE_S, RECOVERY_S):
        panel.axvline(at, color=PALE, linewidth=0.8)
    panel.set_ylim(0.0, 1.1)
    panel.set_title(title, fontsize=10, loc="left", color=INK)
    _plain(panel)
    panel.legend(fontsize=8, frameon=False, loc="center right", ncols=5)


def _plain(panel: Axes) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(labelsize=8, colors=INK)
