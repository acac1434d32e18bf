"""Plots of the routing and failover experiments beside the published figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.errors import InputError
from mangrove.evaluation import failover
from mangrove.evaluation.failover import FailoverSummary
from mangrove.evaluation.resilience import year
from mangrove.evaluation.resilience.year import YearSummary
from mangrove.evaluation.separation.gap import METHODS, PUBLISHED_IMPROVEMENT, GapSummary
from mangrove.evaluation.tables import SCHEMES, TablesResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, PALE = "#22303c", "#c9ced4"
COLOURS = {"gap_div": "#1e8449", "gap_log": "#58b37c", "ksp3": "#c0792b", "ksp5": "#e3b567"}
LABELS = {"gap_div": "GAP div", "gap_log": "GAP log", "ksp3": "EKSP k = 3", "ksp5": "EKSP k = 5"}


@contextmanager
def figure(file: Path, width: float, height: float) -> Iterator[Axes]:
    """One set of axes, written to a PNG file at the end."""
    with panels(file, width, height, 1) as axes:
        yield axes[0]


@contextmanager
def panels(file: Path, width: float, height: float, count: int, rows: int = 1) -> Iterator[list[Axes]]:
    """`count` sets of axes in `rows` rows, written to a PNG file at the end."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            "drawing needs the package matplotlib", hint="pip install 'mangrove-messaging[evaluation]'"
        ) from error
    drawing = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(drawing)
    yield list(drawing.subplots(rows, -(-count // rows), squeeze=False).flat)
    try:
        drawing.savefig(file, dpi=130)
    except OSError as error:
        raise InputError(f"cannot write {file}: {error.strerror}") from error


def draw_gap(summary: GapSummary, file: Path) -> None:
    """Improvement by radius (figure 5-7) and proximity (figure 5-6), with the published values."""
    with panels(file, 12.0, 4.6, 2) as (left, right):
        _improvement(left, summary)
        _proximity(right, summary)


def _improvement(axes: Axes, summary: GapSummary) -> None:
    width = 0.2
    for offset, method in enumerate(METHODS):
        at = [position + (offset - 1.5) * width for position in range(len(summary.setup.radii))]
        ours = summary.improvement[method]
        axes.bar(
            at,
            [e.mean for e in ours],
            width * 0.92,
            yerr=[e.half_width or 0.0 for e in ours],
            color=COLOURS[method],
            ecolor=INK,
            error_kw={"linewidth": 0.9},
            capsize=2,
            label=LABELS[method],
        )
        if summary.setup.published_setting:
            published = PUBLISHED_IMPROVEMENT[method]
            label = "published (table 5-3)" if offset == 0 else None
            axes.scatter(
                at, published, marker="D", s=20, color="white", edgecolors=INK, zorder=5, label=label
            )
    axes.set_xticks(range(len(summary.setup.radii)), [f"{radius:g}" for radius in summary.setup.radii])
    axes.set_xlabel("radius of the failure region" + (f" ({summary.unit})" if summary.unit else ""))
    axes.set_ylabel("failures avoided, share of primary-only")
    axes.set_title(f"{summary.topology}, {len(summary.seeds)} seeds", fontsize=11, loc="left", color=INK)
    finish(axes)


def _proximity(axes: Axes, summary: GapSummary) -> None:
    width = 0.38
    for offset, (label, shares, colour) in enumerate(
        (
            ("share of near nodes (§5.4.1)", summary.near_share, "#5d7b93"),
            ("the same, common ends left out", summary.inner_near_share, "#a9bccb"),
        )
    ):
        at = [position + (offset - 0.5) * width for position in range(len(METHODS))]
        axes.bar(
            at,
            [shares[m].mean for m in METHODS],
            width * 0.94,
            yerr=[shares[m].half_width or 0.0 for m in METHODS],
            color=colour,
            ecolor=INK,
            error_kw={"linewidth": 0.9},
            capsize=2,
            label=label,
        )
    axes.set_xticks(range(len(METHODS)), [LABELS[m] for m in METHODS])
    axes.set_ylim(0, 1.2)
    axes.set_ylabel("proximity factor")
    axes.set_title("How near the alternative runs to the primary", fontsize=11, loc="left", color=INK)
    finish(axes)


def draw_tables(result: TablesResult, file: Path) -> None:
    """Path lengths after single failures (PCRT figure 7), links and nodes side by side."""
    colours = {"pcrt": "#1e8449", "recomputed": "#9fb4c4", "layers": "#c0792b"}
    labels = {"pcrt": "PCRT tables", "recomputed": "recomputed shortest", "layers": "routing layers"}
    with panels(file, 12.0, 4.4, 2) as both:
        for axes, summary in zip(both, result.summaries, strict=True):
            longest = max(max(summary.share_by_hops[scheme]) for scheme in SCHEMES)
            for offset, scheme in enumerate(SCHEMES):
                shares = summary.share_by_hops[scheme]
                at = [hops + (offset - 1) * 0.27 for hops in range(1, longest + 1)]
                heights = [100 * shares.get(hops, 0.0) for hops in range(1, longest + 1)]
                axes.bar(at, heights, 0.25, color=colours[scheme], label=labels[scheme])
            axes.set_yscale("log")
            axes.set_ylim(1e-4, 100)
            axes.set_xticks(range(1, longest + 1))
            axes.set_xlabel("path length after the failure (hops)")
            axes.set_ylabel("share of all paths, % (logarithmic)")
            axes.set_title(
                f"every single {summary.failure} failing: {result.nodes} nodes, {result.links} links",
                fontsize=11,
                loc="left",
                color=INK,
            )
            finish(axes)


def draw_failover(summaries: Sequence[FailoverSummary], file: Path) -> None:
    """Time until messages arrive again, and messages lost meanwhile (PCRT figures 9 and 10)."""
    colours = dict(zip(failover.SCHEMES, ("#1e8449", "#58b37c", "#c0792b", "#e3b567"), strict=True))
    ticks = [f"one {s.failure} fails,\n{s.nodes} sites" for s in summaries]
    with panels(file, 12.0, 4.6, 2) as (left, right):
        for axes, label, values in (
            (left, "until messages arrive again (ms)", [s.reconverged_ms for s in summaries]),
            (right, "messages lost of each stream", [s.lost for s in summaries]),
        ):
            for offset, scheme in enumerate(failover.SCHEMES):
                at = [position + (offset - 1.5) * 0.2 for position in range(len(summaries))]
                means = [value[scheme].mean for value in values]
                bars = axes.bar(
                    at,
                    means,
                    0.184,
                    yerr=[value[scheme].half_width or 0.0 for value in values],
                    color=colours[scheme],
                    ecolor=INK,
                    error_kw={"linewidth": 0.9},
                    capsize=2,
                    label=failover.LABELS[scheme],
                )
                texts = [f"{mean:.0f}" if mean >= 100 else f"{mean:.3g}" for mean in means]
                axes.bar_label(bars, texts, fontsize=7, padding=2, color=INK)
            axes.set_yscale("symlog", linthresh=1.0)
            axes.set_ylim(0, 40_000)
            axes.set_xticks(range(len(summaries)), ticks)
            axes.set_ylabel(label)
            finish(axes)
            axes.legend(fontsize=8, frameon=False, loc="upper right", ncols=2)
        seeds = summaries[0].seeds
        left.set_title(
            f"Silent failures in simulation, {len(seeds)} seeds", fontsize=11, loc="left", color=INK
        )
        rate = 1 / failover.INTERVAL_S
        right.set_title(f"{rate:g} messages a second a stream", fontsize=11, loc="left", color=INK)


def draw_year(found: YearSummary, file: Path) -> None:
    """Share of time in which messages do not arrive, by scheme: predicted, never repaired, live."""
    parts = (
        ("predicted", [1 - each.predicted for each in found.schemes], "#9aa5b1"),
        ("set never repaired", [1 - each.fixed.mean for each in found.schemes], "#c0792b"),
        ("live", [1 - each.live.mean for each in found.schemes], "#1e8449"),
    )
    with figure(file, 9.5, 4.6) as axes:
        for offset, (label, values, colour) in enumerate(parts):
            at = [position + (offset - 1) * 0.26 for position in range(len(values))]
            axes.bar(at, [max(value, 1e-9) for value in values], 0.24, color=colour, label=label)
        for position, each in enumerate(found.schemes):
            if each.promised is not None:
                axes.hlines(
                    1 - each.promised, position - 0.42, position + 0.42, color=INK, linestyles="dashed"
                )
        axes.set_yscale("log")
        axes.set_xticks(range(len(found.schemes)), [year.LABELS[each.scheme] for each in found.schemes])
        axes.tick_params(axis="x", labelsize=8)
        axes.set_ylabel("share of time without delivery")
        axes.set_title(
            f"{found.days:g} days of {len(found.seeds)} seeds, {found.failures_a_year:.0f} failures a year; "
            "dashed: what was promised",
            fontsize=11,
            loc="left",
            color=INK,
        )
        finish(axes)


def finish(axes: Axes) -> None:
    """The plain look of all plots: no box, a pale grid, a small legend."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(fontsize=8, frameon=False)
