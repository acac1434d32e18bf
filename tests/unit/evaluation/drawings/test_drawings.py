"""Every picture is drawn, and is a picture."""

from __future__ import annotations

from importlib import resources
from itertools import product
from pathlib import Path

import pytest

from mangrove.config import parse_federation
from mangrove.errors import InputError
from mangrove.evaluation.allocation import Setting, run
from mangrove.evaluation.broker_costs import BrokerRun, fit_costs
from mangrove.evaluation.disasters.collection import run_collection
from mangrove.evaluation.disasters.recorded import recorded_disasters
from mangrove.evaluation.disasters.survival import run_survival
from mangrove.evaluation.drawings.networks import draw_collection, draw_lookup, draw_survival
from mangrove.evaluation.drawings.planning import draw_costs, draw_gains, draw_improvements
from mangrove.evaluation.drawings.traces import draw_harmony, draw_six_nodes
from mangrove.evaluation.lookup import run_lookup
from mangrove.evaluation.separation.backbones import backbone
from mangrove.evaluation.six_items import run_six_items
from mangrove.evaluation.traces.harmony import run_harmony
from mangrove.evaluation.traces.six_nodes import run_six_nodes
from mangrove.planning.solvers.genetic import GeneticParams


def is_picture(file: Path) -> bool:
    return file.read_bytes().startswith(b"\x89PNG") and file.stat().st_size > 5000


def test_planning(tmp_path: Path) -> None:
    draw_gains(run_six_items(), tmp_path / "gains.png")
    setting, short = Setting(items=9, round_robin_orders=20), GeneticParams(generations=20)
    draw_improvements(run([1], setting, params=short), tmp_path / "improvements.png")
    runs = [BrokerRun(64, n, r, 1e-6 + r * 1e-7, 1e-6) for n, r in product((0, 10, 100), (1, 2, 4))]
    draw_costs(fit_costs(runs, 1, draws=5), runs, tmp_path / "costs.png")
    assert all(is_picture(file) for file in tmp_path.iterdir())


def test_networks(tmp_path: Path) -> None:
    draw_lookup(run_lookup([1], (6, 12), 1000), tmp_path / "lookup.png")
    graph = {"topozoo/Abilene": backbone("topozoo/Abilene")}
    draw_collection(run_collection(graph, [1], pairs=10, regions=10), tmp_path / "collection.png")
    survival = run_survival(recorded_disasters(), graph)
    assert survival.summaries
    draw_survival(survival, tmp_path / "survival.png")
    assert all(is_picture(file) for file in tmp_path.iterdir())


def test_traces(tmp_path: Path) -> None:
    text = (resources.files("mangrove.testbed") / "harmony.yaml").read_text()
    draw_harmony(
        run_harmony(parse_federation(text, "harmony.yaml").require(), [1], 1.0), tmp_path / "harmony.png"
    )
    draw_six_nodes(run_six_nodes([1], ("mangrove_slow", "ospf")), tmp_path / "six.png")
    assert all(is_picture(file) for file in tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write"):
        draw_gains(run_six_items(), tmp_path / "missing" / "gains.png")
