"""Latency of each message over time, with what happened: Harmony's phases, PCRT's six nodes (figure 9)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mangrove.evaluation.drawings.figures import INK, PALE, figure, finish, panels
from mangrove.evaluation.traces import six_nodes
from mangrove.evaluation.traces.harmony import HarmonyResult
from mangrove.evaluation.traces.harmony_phases import LOOSE, TIGHT
from mangrove.evaluation.traces.six_nodes import SixNodeResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREEN, ORANGE, RED = "#1e8449", "#c0792b", "#c0392b"
GROUND = 0.12
"""Where lost packets are drawn."""


def draw_harmony(result: HarmonyResult, file: Path) -> None:
    """Both topics of the first seed, their deadlines, and the moments of the events."""
    with figure(file, 12.0, 4.6) as axes:
        for topic, colour in ((TIGHT, GREEN), (LOOSE, ORANGE)):
            trace = np.array(result.first.trace[topic])
            axes.plot(trace[:, 0], trace[:, 1], ".", markersize=2.5, color=colour, label=topic)
            deadline = result.deadlines_ms.get(topic)
            if deadline is not None:
                label = f"its deadline, {deadline:g} ms"
                axes.axhline(deadline, color=colour, linewidth=1.0, linestyle=(0, (5, 3)), label=label)
        axes.set_ylim(0, 1.12 * max(result.deadlines_ms.values()))
        for at, phase in zip(result.first.events_s, result.phases, strict=True):
            _moment(axes, at, phase.name)
        axes.set_xlabel("seconds")
        axes.set_ylabel("from publisher's to subscriber's gateway (ms)")
        axes.set_title(
            f"Harmony §5 in simulation, seed {result.first.seed}: two paths a topic",
            fontsize=11,
            loc="left",
            color=INK,
        )
        finish(axes)
        axes.legend(fontsize=8, frameon=False, loc="upper right", bbox_to_anchor=(1.0, 0.9))


def draw_six_nodes(result: SixNodeResult, file: Path) -> None:
    """Latency of each packet by each scheme; lost packets as crosses on the ground."""
    with panels(file, 12.0, 7.0, 4, rows=2) as all_axes:
        shown = [summary for summary in result.schemes if summary.scheme != "mangrove_two_paths"]
        for axes, summary in zip(all_axes, shown, strict=False):
            ours = summary.scheme.startswith("mangrove")
            arrived = [(sent, took) for sent, took in summary.trace if took is not None]
            lost = [sent for sent, took in summary.trace if took is None]
            axes.plot(
                *zip(*arrived, strict=True),
                "o",
                markersize=3.2,
                color=GREEN if ours else ORANGE,
                label=f"delivers again after {summary.reconverged.rounded(2)}",
            )
            axes.plot(
                lost,
                [GROUND] * len(lost),
                "x",
                color=RED,
                markersize=5,
                label=f"lost: {summary.lost.rounded(1)}",
            )
            axes.plot([], [], " ", label=f"healed link used after {summary.healed.rounded(2)}")
            for at, what in ((six_nodes.FAILS_S, "link 2–3 fails"), (six_nodes.HEALS_S, "it heals")):
                _moment(axes, at, what)
            axes.set_xlim(0, six_nodes.ENDS_S)
            axes.set_yscale("log")
            axes.set_ylim(0.1, 20.0)
            axes.set_yticks([0.2, 0.4, 1, 4], ["0.2", "0.4", "1", "4"])
            axes.minorticks_off()
            axes.set_xlabel("time (units)")
            axes.set_ylabel("latency (units)")
            axes.set_title(six_nodes.LABELS[summary.scheme], fontsize=10, loc="left", color=INK)
            finish(axes)
            axes.legend(fontsize=8, frameon=False, loc="upper right", bbox_to_anchor=(1.0, 0.92))


def _moment(axes: Axes, at: float, what: str) -> None:
    axes.axvline(at, color=PALE, linewidth=1.2, zorder=0)
    axes.annotate(
        what,
        (at, 0.99),
        xycoords=("data", "axes fraction"),
        xytext=(4, -2),
        textcoords="offset points",
        va="top",
        fontsize=8,
        color=INK,
    )
