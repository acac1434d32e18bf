"""ePEER's figures 4-17 to 4-23 from our own experiments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.errors import InputError
from mangrove.evaluation.drawings.figures import INK, panels
from mangrove.evaluation.drd.experiment import DrdResult
from mangrove.evaluation.drd.runs import METHODS
from mangrove.evaluation.drd.trial import Trial, run_trial
from mangrove.evaluation.drd.workload import BURST_END_S, BURSTS_S, EDGES, REGISTERED_S, draw_workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {"drd": "#1e8449", "drd-optimal": "#58b37c", "peer": "#c0392b", "peer-drd": "#c0792b"}
EDGE_COLOURS = ("#2e5f8a", "#c0792b", "#1e8449", "#7d3c98")


def draw_offloading(result: DrdResult, folder: Path) -> list[Path]:
    """Means, pairs and one example, as PNG files in a folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make {folder}: {error.strerror}") from error
    files = [folder / name for name in ("means.png", "pairs.png", "example.png")]
    draw_means(result, files[0])
    draw_pairs(result, files[1])
    draw_example(result, files[2])
    return files


def draw_means(result: DrdResult, file: Path) -> None:
    """Figures 4-21 to 4-23: mean offloads and delays with their 95 % intervals, over all and after it."""
    with panels(file, 11.0, 7.4, 4, rows=2) as axes:
        places = (
            ("delay", "sum of relative delays, whole experiment", 100.0),
            ("offloads", "offloads, whole experiment", 1.0),
            ("delay_after", "sum of relative delays, all registered", 100.0),
            ("offloads_after", "offloads, all registered", 1.0),
        )
        for panel, (measure, title, scale) in zip(axes, places, strict=True):
            for position, method in enumerate(METHODS):
                spread = getattr(result.methods[method], measure)
                low, high = spread.mean_95
                bar = panel.bar(
                    position,
                    scale * spread.mean,
                    0.7,
                    yerr=[[scale * (spread.mean - low)], [scale * (high - spread.mean)]],
                    color=COLOURS[method],
                    ecolor=INK,
                    capsize=3,
                )
                panel.bar_label(bar, [f"{scale * spread.mean:.2f}"], fontsize=8, padding=2)
            panel.set_xticks(range(len(METHODS)), METHODS)
            panel.set_ylabel("%" if scale > 1 else "")
            panel.margins(y=0.15)
            panel.set_title(title, fontsize=10, loc="left", color=INK)
            _plain(panel)


def draw_pairs(result: DrdResult, file: Path) -> None:
    """Figures 4-19 and 4-20: PEER's less DRD's, experiment by experiment."""
    with panels(file, 11.0, 7.4, 4, rows=2) as axes:
        places = (
            ("delay", "sum of relative delays, whole experiment", 100.0),
            ("offloads", "offloads, whole experiment", 1.0),
            ("delay_after", "sum of relative delays, all registered", 100.0),
            ("offloads_after", "offloads, all registered", 1.0),
        )
        for panel, (measure, title, scale) in zip(axes, places, strict=True):
            drd = [scale * getattr(one["drd"], measure) for one in result.experiments]
            peer = [scale * getattr(one["peer"], measure) for one in result.experiments]
            less = [theirs - ours for ours, theirs in zip(drd, peer, strict=True)]
            whole = [edge - 0.5 for edge in range(int(min(less)), int(max(less)) + 2)]
            panel.hist(less, bins=30 if scale > 1 else whole, color=COLOURS["peer"], alpha=0.8)
            panel.axvline(0.0, color=INK, linewidth=1.0)
            panel.set_xlabel("peer less drd" + (", %" if scale > 1 else ""))
            panel.set_ylabel("experiments")
            panel.set_title(title, fontsize=10, loc="left", color=INK)
            _plain(panel)


def draw_example(result: DrdResult, file: Path) -> None:
    """Figures 4-17 and 4-18: the edges of one experiment over time, and when load was moved."""
    seed = next(
        (
            seed
            for seed, one in zip(result.seeds, result.experiments, strict=True)
            if one["drd"].offloads and one["peer"].offloads_after
        ),
        result.seeds[0],
    )
    workload = draw_workload(seed, result.setting.ranges)
    with panels(file, 11.0, 7.4, 2, rows=2) as axes:
        for panel, method in zip(axes, ("drd", "peer"), strict=True):
            trial = run_trial(workload, method, result.setting, history=True)
            _example(panel, trial, result)


def _example(panel: Axes, trial: Trial, result: DrdResult) -> None:
    times = [at for at, _ in trial.history]
    for edge, (name, colour) in enumerate(zip(EDGES, EDGE_COLOURS, strict=True)):
        panel.plot(times, [used[edge] for _, used in trial.history], color=colour, linewidth=1.0, label=name)
    for threshold in (result.setting.low, result.setting.high):
        panel.axhline(threshold, color=INK, linewidth=0.6, linestyle=":")
    for at in (REGISTERED_S, *BURSTS_S, BURST_END_S):
        panel.axvline(at, color="#c9ced4", linewidth=0.8)
    moved = [one.at_s for one in trial.offloads]
    panel.scatter(moved, [0.03] * len(moved), marker="|", s=60, color=INK, label="offload")
    panel.set_ylim(0.0, 1.1)
    panel.set_ylabel("matching utilisation")
    panel.set_title(
        f"{trial.method}, seed {trial.seed}: {trial.count()} offloads, sum of relative delays"
        f" {100 * trial.delay():.1f} %",
        fontsize=10,
        loc="left",
        color=INK,
    )
    _plain(panel)
    panel.legend(fontsize=8, frameon=False, loc="lower right", ncols=5)


def _plain(panel: Axes) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(labelsize=8, colors=INK)
