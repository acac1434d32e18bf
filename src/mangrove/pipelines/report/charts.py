"""Drawings in SVG: each mark says on hover what it is. Colours come from the page's style, light or dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mangrove.pipelines.report.page import number, text

WIDTH = 720
LEFT = 56
LABELS = 190
RIGHT = 12
KEY_WIDTH = 216


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a chart: its length, what it is called, what hovering says."""

    label: str
    value: float
    hover: str
    style: str = "main"
    spread: float = 0.0
    mark: float | None = None
    """A line across: a limit."""


def columns(bars: Sequence[Bar], unit: str, height: int = 240) -> str:
    """Upright bars with whiskers; names on hover, for many of them."""
    top = _nice(max([each.value + each.spread for each in bars], default=1.0))
    floor, room = height - 22, height - 50
    step = min((WIDTH - LEFT - RIGHT) / max(len(bars), 1), 60.0)
    parts = [_scale(top, floor, room, unit)]
    for place, each in enumerate(bars):
        x, tall = LEFT + place * step, room * each.value / top
        middle = x + step / 2
        low, high = (floor - room * max(each.value + s * each.spread, 0) / top for s in (-1, 1))
        parts.append(
            f'<g data-t="{text(each.hover)}"><rect x="{x:.1f}" y="{floor - room}" width="{step:.1f}" '
            f'height="{room}" fill="transparent"/><rect class="{each.style}" x="{x + step * 0.12:.1f}" '
            f'y="{floor - tall:.1f}" width="{step * 0.76:.1f}" height="{max(tall, 0.5):.1f}"/>'
        )
        if each.spread:
            parts.append(f'<path class="whisker" d="M{middle:.1f} {low:.1f}V{high:.1f}"/>')
        parts.append("</g>")
    return _svg(height, parts)


def rows(bars: Sequence[Bar], unit: str, *, top: float | None = None) -> str:
    """Lying bars with their names beside them."""
    most = max([each.value + each.spread for each in bars] + [each.mark or 0.0 for each in bars], default=1.0)
    full = top if top is not None else _nice(most)
    room = WIDTH - LABELS - RIGHT - 70
    parts = []
    for place, each in enumerate(bars):
        y = 6 + 22 * place
        long = room * min(each.value / full, 1.0)
        parts.append(
            f'<g data-t="{text(each.hover)}"><rect x="0" y="{y - 3}" width="{WIDTH}" height="22" '
            f'fill="transparent"/><text class="name" x="{LABELS - 8}" y="{y + 11}" text-anchor="end">'
            f'{text(_short(each.label, 30))}</text><rect class="{each.style}" x="{LABELS}" y="{y}" '
            f'width="{max(long, 1):.1f}" height="15" rx="2"/>'
        )
        if each.spread:
            low, high = (room * max(0.0, min((each.value + s * each.spread) / full, 1.0)) for s in (-1, 1))
            parts.append(f'<path class="whisker" d="M{LABELS + low:.1f} {y + 7}H{LABELS + high:.1f}"/>')
        if each.mark is not None and each.mark <= full:
            parts.append(f'<path class="mark" d="M{LABELS + room * each.mark / full:.1f} {y - 2}v19"/>')
        reach = room * min((each.value + each.spread) / full, 1.0)
        end = LABELS + max(long, reach, 1) + 6
        line = LABELS + room * (each.mark or 0.0) / full
        if each.mark is not None and end - 6 < line < end + 50:
            end = line + 6
        parts.append(f'<text x="{end:.1f}" y="{y + 11}">{text(number(each.value))}{text(unit)}</text></g>')
    return _svg(22 * len(bars) + 10, parts)


def lines(
    series: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    x_label: str,
    y_label: str,
    *,
    logarithmic: bool = False,
    height: int = 250,
) -> str:
    """Curves over a common axis."""
    points = [point for _, each in series for point in each]
    if not points:
        return _svg(30, ['<text x="10" y="20">nothing to draw</text>'])
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    floor, room = height - 34, height - 62

    def level(value: float) -> float:
        return math.log10(max(value, 1e-300)) if logarithmic else value

    lowest, highest = min(level(y) for _, y in points), max(level(y) for _, y in points)
    lowest = lowest if logarithmic else min(lowest, 0.0)
    span = (highest - lowest) or 1.0
    parts = [f'<text x="4" y="12">{text(y_label)}</text>']
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = floor - room * share
        value = lowest + share * span
        shown = 10**value if logarithmic else value
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{text(_tick(shown))}</text>')
    wide = (right - left) or 1.0
    for place, (name, each) in enumerate(series):
        path = "L".join(
            f"{LEFT + (WIDTH - LEFT - RIGHT) * (x - left) / wide:.1f} "
            f"{floor - room * (level(y) - lowest) / span:.1f}"
            for x, y in each
        )
        parts.append(f'<path class="{_stroke(place)}" data-t="{text(name)}" d="M{path}"/>')
    for share in (0.0, 0.5, 1.0):
        x = LEFT + (WIDTH - LEFT - RIGHT) * share
        anchor = {0.0: "start", 0.5: "middle", 1.0: "end"}[share]
        middle = left + share * wide
        whole = float(left).is_integer() and float(right).is_integer()
        shown_x = number(round(middle)) if whole else number(middle)
        parts.append(f'<text x="{x:.0f}" y="{floor + 15}" text-anchor="{anchor}">{text(shown_x)}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{height - 4}" text-anchor="end">{text(x_label)}</text>')
    for place, (name, _) in enumerate(series):
        x, y = LEFT + place % 3 * KEY_WIDTH, height + 12 + 16 * (place // 3)
        parts.append(f'<path class="{_stroke(place)}" d="M{x} {y - 4}h18"/>')
        parts.append(f'<text x="{x + 24}" y="{y}">{text(_short(name, 34))}</text>')
    return _svg(height + 8 + 16 * -(-len(series) // 3), parts)


def tiles(
    names: Sequence[str],
    heads: Sequence[str],
    shares: Sequence[Sequence[float | None]],
    hovers: Sequence[Sequence[str]],
) -> str:
    """A row for each name and a tile for each head; a share of 1 is good, 0 is bad, None is no data."""
    wide = (WIDTH - LABELS - RIGHT) / max(len(heads), 1)
    parts = []
    for place, name in enumerate(names):
        y = 4 + 18 * place
        parts.append(
            f'<text class="name" x="{LABELS - 8}" y="{y + 12}" text-anchor="end">'
            f"{text(_short(name, 30))}</text>"
        )
        for column, share in enumerate(shares[place]):
            if share is None:
                continue
            style = "main" if share >= 1.0 else "low"
            opacity = 0.35 if share >= 1.0 else 0.25 + 0.75 * (1.0 - max(share, 0.0))
            parts.append(
                f'<rect class="{style}" fill-opacity="{opacity:.2f}" y="{y}" '
                f'x="{LABELS + column * wide:.1f}" '
                f'width="{max(wide - 0.6, 0.8):.1f}" height="16" data-t="{text(hovers[place][column])}"/>'
            )
    bottom = 18 * len(names) + 20
    if heads:
        parts.append(f'<text x="{LABELS}" y="{bottom}">{text(heads[0])}</text>')
        parts.append(f'<text x="{WIDTH - RIGHT}" y="{bottom}" text-anchor="end">{text(heads[-1])}</text>')
    return _svg(bottom + 8, parts)


def _svg(height: float, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img">{"".join(parts)}</svg>'


def _stroke(place: int) -> str:
    """Five colours; beyond, the same ones broken."""
    return f"line s{place % 5}{' broken' if place >= 5 else ''}"


def _tick(value: float) -> str:
    """A figure that fits beside an axis."""
    for least, unit, name in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{value / unit:.3g} {name}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _scale(top: float, floor: int, room: int, unit: str) -> str:
    parts = [f'<text x="4" y="11">{text(unit)}</text>']
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = floor - room * share
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(
            f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{text(_tick(top * share))}</text>'
        )
    return "".join(parts)


def _nice(value: float) -> float:
    """A round number not below `value`."""
    if not value > 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= value)


def _short(name: str, length: int) -> str:
    if len(name) <= length:
        return name
    return f"{name[: length // 2]}…{name[-(length - length // 2 - 1) :]}"
