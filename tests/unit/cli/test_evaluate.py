"""`mangrove evaluate` as a user meets it: one JSON document, seeds, exit codes, refusals in words."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.kit.command import mangrove


def evaluate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return mangrove("evaluate", *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("harmony", "--seeds", "1", "--phase-seconds", "2"),
        ("lookup", "--seeds", "1", "--sizes", "6", "--lookups", "1000"),
        ("backbones", "--seeds", "1", "--groups", "sndlib", "--max-nodes", "12", "--pairs", "10"),
        ("six-nodes", "--seeds", "1"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_experiments_answer_in_json(arguments: tuple[str, ...]) -> None:
    done = evaluate(*arguments, "--json")
    assert done.returncode in (0, 1), done.stderr
    document = json.loads(done.stdout)
    assert document["experiment"] == arguments[0]
    assert document["seeds"] == [1]
    assert (done.returncode == 1) == bool(document["missed"])


def test_disasters(tmp_path: Path) -> None:
    plot = tmp_path / "plot.png"
    arguments = ("disasters", "--groups", "sndlib", "--max-nodes", "30", "--max-pairs", "30")
    done = evaluate(*arguments, "--json")
    assert done.returncode in (0, 1), done.stderr
    document = json.loads(done.stdout)
    assert document["seed"] == 1
    assert document["separation_km"] == 200.0
    assert {one["disaster"]["kind"] for one in document["summaries"]} <= {"earthquake", "storm"}
    shown = evaluate(*arguments, "--plot", str(plot))
    assert "Pairs that keep a path" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert plot.exists()


def test_six_items() -> None:
    document = json.loads(evaluate("six-items", "--json").stdout)
    assert [len(one["gain"]) for one in document["comparisons"]] == [3, 3, 3]
    assert "printed risks" in evaluate("six-items").stdout


def test_broker_costs_measures_a_real_broker() -> None:
    grid = ("--subscribers", "1,4", "--filters", "0,50", "--sizes", "64", "--messages", "2000")
    done = evaluate("broker-costs", *grid, "--repeats", "2", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["broker"].startswith("nats-server-")
    assert len(document["runs"]) == 8
    wall = document["costs"][0]
    assert wall["clock"] == "seconds"
    assert all(t["low"] <= t["high"] for t in wall["times_s"].values())


def test_the_list_of_backbones() -> None:
    done = evaluate("backbones", "--list", "--groups", "sndlib", "--json")
    names = [one["name"] for one in json.loads(done.stdout)]
    assert "sndlib/germany50" in names
    assert "germany50" in evaluate("backbones", "--list", "--groups", "sndlib").stdout


def test_a_log_of_pairs(tmp_path: Path) -> None:
    log = tmp_path / "pairs.csv"
    small = ("gap", "--seeds", "2", "--nodes", "80", "--m", "3", "--pairs", "10", "--regions", "10")
    done = evaluate(*small, "--log", str(log), "--json")
    assert done.returncode in (0, 1), done.stderr
    assert len(log.read_text().splitlines()) == 21
    assert "20 pairs in" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("gap", "--log", "pairs.txt"), ".csv or .jsonl"),
        (("backbones", "--groups", "atlantis"), "no group 'atlantis'"),
        (("disasters", "--min-nodes", "50", "--max-nodes", "20"), "--min-nodes 50"),
        (("disasters", "--file", "none.json"), "cannot read none.json"),
        (("lookup", "--sizes", "3"), "--sizes"),
        (("harmony", "--seeds", "0"), "--seeds must be at least 1"),
        (("broker-costs", "--subscribers", "none"), "--subscribers"),
    ],
)
def test_bad_input_is_refused_in_words(arguments: tuple[str, ...], words: str) -> None:
    done = evaluate(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert words in done.stderr


def test_fdcc(tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    arguments = ("fdcc", "--seeds", "2", "--seed", "1", "--sensitivity-seeds", "0", "--workers", "1")
    done = evaluate(*arguments, "--json", "--figures", str(folder))
    document = json.loads(done.stdout)
    assert done.returncode == (1 if document["missed"] else 0), done.stderr
    assert set(document["arms"]) == {"undamaged", "uncontrolled", "random", "fdcc"}
    for arm in document["arms"].values():
        assert {"qoe", "uo", "ui", "um", "utility_s"} <= set(arm)
    assert {"uo", "ui", "um", "qoe", "utility_random"} <= set(document["tests"])
    for test in document["tests"].values():
        assert test["wins"] + test["ties"] + test["losses"] == 2
    assert document["setting"]["congestion"]["selection"] == "greedy"
    assert {file.name for file in folder.iterdir()} == {"arms.png", "pairs.png", "example.png"}
    shown = evaluate(*arguments, "--selection", "knapsack", "--reduce")
    assert shown.returncode == 1, "who is reduced is still heard: QoE stays"
    assert "QoE rises by" in shown.stderr
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_drd(tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    arguments = ("drd", "--seeds", "3", "--seed", "1", "--sensitivity-seeds", "0", "--workers", "1")
    done = evaluate(*arguments, "--json", "--figures", str(folder))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert set(document["methods"]) == {"drd", "peer", "peer-drd", "drd-optimal"}
    for method in document["methods"].values():
        assert {"delay_mean", "offloads_mean", "delay_mean_after", "offloads_mean_after"} <= set(method)
    assert set(document["pairs"]) == {"drd-peer", "drd-peer-drd", "peer-drd-peer", "drd-optimal-drd"}
    for measure in ("delay", "offloads"):
        pair = document["pairs"]["drd-peer"][measure]
        assert {"wins", "ties", "losses", "p", "effect"} <= set(pair)
        assert pair["wins"] + pair["ties"] + pair["losses"] == 3
    assert {file.name for file in folder.iterdir()} == {"means.png", "pairs.png", "example.png"}
    shown = evaluate(*arguments)
    assert "drd-peer" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
