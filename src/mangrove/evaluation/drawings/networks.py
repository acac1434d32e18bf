"""Curves by size of network, and what disasters leave: PCRT's figure 6, backbones, recorded disasters."""

from __future__ import annotations

from pathlib import Path

from mangrove.evaluation.disasters.collection import RADIUS_SHARES, CollectionResult
from mangrove.evaluation.disasters.survival import LABELS, SurvivalResult
from mangrove.evaluation.drawings.figures import COLOURS, INK, figure, finish, panels
from mangrove.evaluation.drawings.figures import LABELS as METHOD_LABELS
from mangrove.evaluation.lookup import LookupResult
from mangrove.evaluation.separation.gap import METHODS

WAY_COLOURS = {"disjoint": "#c0792b", "gap": "#1e8449", "possible": "#c9ced4"}


def draw_lookup(result: LookupResult, file: Path) -> None:
    """Time of a look-up (figure 6) and memory, by size of network."""
    nodes = [size.nodes for size in result.sizes]
    with panels(file, 12.0, 4.6, 2) as (left, right):
        for name, label, scale, colour in (
            ("lookup_ns", "look-up in Python", 1.0, "#1e8449"),
            ("vectorised_ns", "the same read by numpy", 1.0, "#58b37c"),
            ("recompute_us", "shortest paths computed anew", 1000.0, "#c0792b"),
        ):
            values = [getattr(size, name) for size in result.sizes]
            left.errorbar(
                nodes,
                [scale * value.mean for value in values],
                # Below zero a logarithmic scale has no place.
                yerr=[scale * min(value.half_width or 0.0, 0.9 * value.mean) for value in values],
                fmt="o-",
                color=colour,
                capsize=2,
                label=label,
            )
        left.set_ylabel("nanoseconds")
        left.set_title("Figure 6: time to find the next hop", fontsize=11, loc="left", color=INK)
        for name, label, colour in (
            ("condensed_bytes", "condensed, with its array", "#1e8449"),
            ("uncondensed_bytes", "a table for each colour", "#c0792b"),
        ):
            values = [getattr(size, name) for size in result.sizes]
            right.plot(nodes, [value.mean for value in values], "o-", color=colour, label=label)
        right.set_ylabel("bytes of one broker")
        right.set_title("Memory of one broker's tables", fontsize=11, loc="left", color=INK)
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xticks(nodes, [str(count) for count in nodes])
            axes.minorticks_off()
            axes.set_xlabel("brokers (two links each on average)")
            finish(axes)


def draw_collection(result: CollectionResult, file: Path) -> None:
    """Failures avoided by radius, the mean over all backbones of each group."""
    count = len(result.groups)
    with panels(file, 3.6 * max(count, 2), 4.2, count) as all_axes:
        for axes, group in zip(all_axes, result.groups, strict=True):
            for offset, method in enumerate(METHODS):
                values = group.improvement[method]
                axes.bar(
                    [position + (offset - 1.5) * 0.2 for position in range(len(values))],
                    [value.mean for value in values],
                    0.184,
                    yerr=[value.half_width or 0.0 for value in values],
                    color=COLOURS[method],
                    ecolor=INK,
                    error_kw={"linewidth": 0.8},
                    label=METHOD_LABELS[method],
                )
            axes.set_xticks(range(len(RADIUS_SHARES)), [f"{share:.0%}" for share in RADIUS_SHARES])
            axes.set_xlabel("radius, share of the width")
            axes.set_ylabel("failures avoided")
            axes.set_title(f"{group.group}: {group.backbones} backbones", fontsize=10, loc="left", color=INK)
            finish(axes)


def draw_survival(result: SurvivalResult, file: Path) -> None:
    """Of the pairs whose only path a disaster breaks, the share that a second path saves."""
    with figure(file, 12.0, 0.55 * len(result.summaries) + 1.6) as axes:
        ways = list(WAY_COLOURS)
        for row, summary in enumerate(reversed(result.summaries)):
            for offset, way in enumerate(reversed(ways)):
                axes.barh(
                    row + (offset - 1) * 0.27,
                    summary.saved[way],
                    0.25,
                    color=WAY_COLOURS[way],
                    label=LABELS.get(way, "any way at all") if row == 0 else None,
                )
        axes.set_yticks(
            range(len(result.summaries)),
            [f"{s.disaster.title} ({s.backbones})" for s in reversed(result.summaries)],
        )
        axes.set_xlim(0, 1)
        axes.set_xlabel("share of the pairs whose only path is broken that a second path saves")
        axes.set_title("Recorded disasters (backbones touched)", fontsize=11, loc="left", color=INK)
        finish(axes)
        handles, labels = axes.get_legend_handles_labels()
        axes.legend(handles[::-1], labels[::-1], fontsize=8, frameon=False, loc="lower right")
