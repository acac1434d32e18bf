"""A subscriber that reads at a tenth of the rate among 99 others: what they notice of it, and what it gets.

A hundred SDK subscribers of one topic at a real broker, the slow one in a process of its own. In turns it
reads all at once, or one message for every ten that come, with `drop-least-useful`: the ratio is the median
99th percentile of the others' delays with it being slow over that without. By content it is checked what it
got; and its gap notices must add up with what it read to all that came. The other policies follow, and what
a broker does to a client of nats-py that does not read its socket.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from pathlib import Path

import msgspec
from rich.console import Console

from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, name_column, number_column, word_column
from mangrove.testbed.slow.comparison import Comparison, SlowReport, Turn

RATIO_BAR = 1.25
"""Or as much as every other turn without a slow one differs from the rest of them, if that is more."""
USEFUL_BAR = 0.9
ROUNDS, QUICK_ROUNDS = 12, 4
MESSAGES, QUICK_MESSAGES = 200, 200


def run(seed: int, quick: bool) -> dict[str, object]:
    """All parts."""
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory:
        comparison = Comparison(
            Path(directory),
            seed,
            QUICK_ROUNDS if quick else ROUNDS,
            QUICK_MESSAGES if quick else MESSAGES,
        )
        report = run_async(comparison.run(), asyncio.new_event_loop)
    ratio, noise = _ratio_and_noise(report.turns)
    return {**msgspec.to_builtins(report), "p99_ratio": ratio, "p99_noise": noise}


def _ratio_and_noise(turns: list[Turn]) -> tuple[float, float]:
    """The median p99 with a slow one over that without; and how much two halves of those without differ."""
    usual_ms = [max(each.p99_ms, 1e-9) for each in turns if not each.slow]
    slow_ms = [each.p99_ms for each in turns if each.slow]
    halves = [statistics.median(usual_ms[start::2]) for start in (0, 1)]
    return statistics.median(slow_ms) / statistics.median(usual_ms), max(halves) / min(halves)


def _report(result: dict[str, object]) -> SlowReport:
    return msgspec.convert(result, SlowReport)


def missed(result: dict[str, object]) -> list[str]:
    """The bars."""
    report = _report(result)
    ratio, noise = _ratio_and_noise(report.turns)
    lines = []
    if ratio > max(RATIO_BAR, noise):
        lines.append(f"the others' p99 is {ratio:.2f} times that without a slow one (noise {noise:.2f})")
    lines += [
        f"the others got {turn.deliveries:,} of {turn.expected:,} messages"
        for turn in report.turns
        if turn.deliveries != turn.expected
    ]
    least_useful = report.policies[0]
    for name, value in (
        ("the most useful messages", least_useful.useful_read),
        ("the possible usefulness", least_useful.usefulness),
    ):
        if value < USEFUL_BAR:
            lines.append(f"drop-least-useful got {value:.0%} of {name}, less than {USEFUL_BAR:.0%}")
    for each in report.policies:
        if not each.exact:
            lines.append(f"{each.policy}: {each.read:,} read and {each.lost:,} lost of {each.came:,}")
        if each.cut_off != (each.policy == "disconnect"):
            lines.append(f"{each.policy}: cut off is {each.cut_off}")
    sdk = next(each for each in report.floods if each.client == "sdk")
    if sdk.cut_off or sdk.received + sdk.told != sdk.sent:
        lines.append(f"flood: the SDK read {sdk.received:,}, was told of {sdk.told:,} of {sdk.sent:,}")
    return lines


def render(result: dict[str, object], console: Console) -> None:
    """Three tables and the ratio."""
    report = _report(result)
    turns = Table(
        "Delays of the 99 others",
        word_column("the 100th"),
        *map(number_column, ("turns", "deliveries", "p50", "p99")),
    )
    for slow in (False, True):
        chosen = [each for each in report.turns if each.slow is slow]
        turns.add(
            "reads a tenth" if slow else "reads all",
            str(len(chosen)),
            f"{sum(each.deliveries for each in chosen):,}",
            f"{statistics.median(each.p50_ms for each in chosen):.2f} ms",
            f"{statistics.median(each.p99_ms for each in chosen):.2f} ms",
        )
    turns.show(console)
    ratio, noise = _ratio_and_noise(report.turns)
    console.print(f"p99 with over without: {ratio:.2f}; bar {RATIO_BAR:g}, or the noise of {noise:.2f}")
    policies = Table(
        "What slow subscribers got",
        name_column("policy"),
        *map(number_column, ("came", "read", "told lost", "notices", "most useful", "usefulness")),
        word_column("exact"),
    )
    for each in report.policies:
        policies.add(
            each.policy + (" (cut off)" if each.cut_off else ""),
            f"{each.came:,}",
            f"{each.read:,}",
            f"{each.lost:,}",
            f"{each.notices:,}",
            f"{each.useful_read:.0%}",
            f"{each.usefulness:.0%}",
            "yes" if each.exact else "NO",
        )
    policies.show(console)
    floods = Table(
        "A flood for a reader of a tenth",
        name_column("client"),
        *map(number_column, ("sent", "received", "told lost", "cut off by broker")),
    )
    for flood in report.floods:
        floods.add(
            flood.client,
            f"{flood.sent:,}",
            f"{flood.received:,}",
            f"{flood.told:,}",
            str(flood.cut_off),
        )
    floods.show(console)
