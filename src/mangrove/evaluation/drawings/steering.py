"""What crosses links, takes time and loads edges, with and without steering."""

from __future__ import annotations

from pathlib import Path

from mangrove.errors import InputError
from mangrove.evaluation.drawings.figures import INK, panels
from mangrove.evaluation.steering.experiment import SteeringResult

COLOURS = {"home": "#c0792b", "steered": "#1e8449"}
PANELS = (
    ("link_msg_s", "over links between domains, messages/s × links"),
    ("line_msg_s", "over clients' own lines, messages/s × links"),
    ("mean_ms", "from publisher to subscriber, ms in the mean"),
    ("busiest", "utilisation of the busiest edge"),
)


def draw_steering(result: SteeringResult, folder: Path) -> list[Path]:
    """One figure with a panel for each measure, as a PNG file in a folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make {folder}: {error.strerror}") from error
    file = folder / "steering.png"
    with panels(file, 11.0, 7.4, 4, rows=2) as axes:
        for panel, (name, title) in zip(axes, PANELS, strict=True):
            measure = result.measures[name]
            for position, (arm, spread) in enumerate((("home", measure.home), ("steered", measure.steered))):
                low, high = spread.mean_95
                bar = panel.bar(
                    position,
                    spread.mean,
                    0.6,
                    yerr=[[spread.mean - low], [high - spread.mean]],
                    color=COLOURS[arm],
                    ecolor=INK,
                    capsize=3,
                )
                panel.bar_label(bar, [f"{spread.mean:.4g}"], fontsize=8, padding=2)
            panel.set_xticks((0, 1), ("at home", "steered"))
            panel.set_title(title, fontsize=9)
            panel.margins(y=0.15)
    return [file]
