"""`mangrove route` as a user meets it: answers, JSON, exit codes and messages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kit.command import mangrove

DATA = Path(__file__).parents[2] / "data"
GOLDEN: dict[str, Any] = json.loads((DATA / "gap_validation.json").read_text())


def answer(*arguments: str | Path) -> dict[str, Any]:
    done = mangrove(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert isinstance(document, dict)
    return document


@pytest.fixture
def network(tmp_path: Path) -> Path:
    file = tmp_path / "net.json"
    file.write_text(json.dumps({"plane": "euclidean", "nodes": GOLDEN["nodes"], "edges": GOLDEN["edges"]}))
    return file


@pytest.fixture
def triangle(tmp_path: Path) -> Path:
    file = tmp_path / "triangle.json"
    edges = [["1", "2", 1], ["1", "3", 1], ["2", "3", 1]]
    file.write_text(json.dumps({"nodes": {"1": None, "2": None, "3": None}, "edges": edges}))
    return file


@pytest.mark.parametrize("case", GOLDEN["gap"], ids=lambda case: "-".join(case["alternative"]))
def test_golden_paths(network: Path, case: dict[str, Any]) -> None:
    limit = [] if case["max_delay"] is None else ["--max-delay", str(case["max_delay"])]
    found = answer("route", "paths", network, "s", "t", "--method", "gap-div", "--separation", "5", *limit)
    assert found["primary"] == GOLDEN["primary"]
    assert found["alternatives"] == [case["alternative"]]
    assert found["penalty_steps"] == (1 if case["max_delay"] is None else 2)
    assert {"delay", "proximity", "resiliency"} <= set(found)


def test_every_method_answers(network: Path) -> None:
    for method in ("gap-div", "gap-log", "ksp", "disjoint", "resilient"):
        found = answer("route", "paths", network, "s", "t", "--method", method, "--paths", "3")
        assert len(found["alternatives"]) == 2, method


def test_given_primary(network: Path) -> None:
    found = answer("route", "paths", network, "s", "t", "--separation", "5", "--primary", "s,2,t")
    assert found["primary"] == ["s", "2", "t"]


def test_golden_tables(triangle: Path) -> None:
    golden = json.loads((DATA / "pcrt_triangle.json").read_text())
    found = answer("route", "tables", triangle, "--no-nodes")
    table = [
        {**entry, "destination": int(entry["destination"]), "next_hop": int(entry["next_hop"])}
        for entry in found["brokers"]["1"]["super_table"]
    ]
    assert table == golden["broker1"]["super_routing_table"]
    assert found["brokers"]["1"]["entries_bound"] == 4
    assert [c["links"] for c in found["colours"]] == [[], [["1", "2"]], [["1", "3"]], [["2", "3"]]]
    assert found["bytes"]["condensed"] > 0
    assert len(answer("route", "tables", triangle)["colours"]) == 7
    assert len(answer("route", "tables", triangle, "--pairs")["colours"]) == 10


def test_tables_for_people(triangle: Path) -> None:
    done = mangrove("route", "tables", triangle, "--broker", "1")
    assert done.returncode == 0
    assert "Super routing table of 1" in done.stdout


def test_disaster_before_and_after(tmp_path: Path) -> None:
    picture = tmp_path / "map.png"
    found = answer(
        "route",
        "disaster",
        "topohub:sndlib/germany50",
        "--centre",
        "50.1,8.7",
        "--radius",
        "80",
        "--map",
        picture,
    )
    assert "Frankfurt" in found["nodes_inside"]
    assert found["pairs"] == 50 * 49 // 2
    assert found["after"]["lost"] < found["before"]["lost"] == len(found["before"]["pairs"])
    assert found["after"]["lost"] == sum(len(pairs) for pairs in found["lost_because"].values())
    assert len(found["saved"]) == found["before"]["lost"] - found["after"]["lost"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_disaster_along_a_track_for_people(network: Path) -> None:
    done = mangrove(
        "route", "disaster", network, "--centre", "5,0", "--centre", "5,10", "--radius", "0.5", "--cut-links"
    )
    assert done.returncode == 0, done.stderr
    assert "cut off, no way around exists" in done.stdout
    assert "without any path" in done.stdout


def test_sample_of_pairs_tells_its_seed(network: Path) -> None:
    found = answer(
        "route", "disaster", network, "--centre", "3,3", "--radius", "1", "--sample", "5", "--seed", "7"
    )
    assert found["sampled"] == {"pairs": 5, "seed": 7}
    assert found["pairs"] == 5


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("paths", "NET", "s", "nowhere"), 2, "no node 'nowhere'"),
        (("paths", "NET", "s", "s"), 2, "same node"),
        (("paths", "NET", "s", "t", "--separation", "-1"), 2, "--separation must be a positive"),
        (("paths", "NET", "s", "t", "--paths", "0"), 2, "between 1 and"),
        (("paths", "NET", "s", "t", "--max-hops", "0"), 2, "hops must be at least 1"),
        (("paths", "NET", "s", "t", "--max-delay", "3"), 1, "none keeps within maximum delay 3"),
        (("paths", "NET", "s", "t", "--primary", "s,t"), 2, "no link between 's' and 't'"),
        (("paths", "missing.json", "s", "t"), 2, "cannot read missing.json"),
        (("paths", "missing.yaml", "s", "t"), 2, "cannot read missing.yaml"),
        (("paths", "topohub:sndlib/germany5", "a", "b"), 2, "no backbone"),
        (("tables", "NET", "--broker", "x"), 2, "no node 'x'"),
        (("disaster", "NET", "--centre", "here", "--radius", "1"), 2, "not a place"),
        (("disaster", "NET", "--centre", "1,2", "--radius", "-4"), 2, "--radius must be a positive"),
        (
            ("disaster", "topohub:sndlib/germany50", "--centre", "95,8", "--radius", "4"),
            2,
            "not on the earth",
        ),
        (("disaster", "NET", "--centre", "1,2", "--radius", "4", "--map", "m.jpg"), 2, "PNG"),
    ],
)
def test_bad_input_is_told_clearly(network: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    done = mangrove("route", *(str(network) if part == "NET" else part for part in arguments))
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_all_mistakes_of_a_file_at_once(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text(
        json.dumps(
            {"plane": "geo", "nodes": {"a": [95, 0], "b": [0, 0]}, "edges": [["a", "a"], ["a", "b", -1]]}
        )
    )
    done = mangrove("route", "paths", bad, "a", "b")
    assert done.returncode == 2
    for words in ("3 mistakes", "nodes.a[0]", "joins 'a' with itself", "edges[1][2]", "hint:"):
        assert words in done.stderr


def test_disconnected_pair(tmp_path: Path) -> None:
    file = tmp_path / "two.json"
    nodes = {"a": [0, 0], "b": [1, 0], "c": [5, 0], "d": [6, 0]}
    file.write_text(json.dumps({"nodes": nodes, "edges": [["a", "b"], ["c", "d"]]}))
    done = mangrove("route", "paths", file, "a", "d", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["primary"] is None
    assert "no path from 'a' to 'd'" in done.stderr
    assert answer("route", "tables", file)["brokers"]["a"]["super_table"]


def test_more_paths_than_exist_is_a_warning(triangle: Path) -> None:
    done = mangrove("route", "paths", triangle, "1", "2", "--method", "disjoint", "--paths", "4", "--json")
    assert done.returncode == 0
    assert len(json.loads(done.stdout)["alternatives"]) == 1
    assert "warning:" in done.stderr
    assert "4 paths" in done.stderr


def test_brite_file(tmp_path: Path) -> None:
    from mangrove.routing.network.brite import brite_text
    from mangrove.routing.network.generators import waxman

    file = tmp_path / "net.brite"
    file.write_text(brite_text(waxman(60, 2, seed=1)))
    found = answer("route", "paths", file, "0", "59", "--separation", "500")
    assert found["primary"][0] == "0"


def test_help_is_quick_to_load() -> None:
    """Nothing heavy is imported until a command runs."""
    heavy = ("numpy", "scipy", "matplotlib", "topohub", "rich.progress")
    code = f"import sys, mangrove.cli.main; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_benchmark_measures_what_its_bars_speak_of() -> None:
    """Times depend on the machine and are not judged here; what is measured and reported is."""
    done = mangrove("bench", "routing", "--quick", "--json")
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    assert found["gap"]["ratio"] == pytest.approx(found["gap"]["gap_s"] / found["gap"]["dijkstra_s"])
    assert found["tables"]["50 brokers, 150 links"]["colours"] == 201
    assert (done.returncode == 1) == bool(found["missed"])


def test_a_federation_file_is_a_topology(tmp_path: Path) -> None:
    file = tmp_path / "federation.yaml"
    file.write_text(
        """
federation: square
domains:
  a: {location: [0, 0]}
  b: {location: [0, 10]}
  c: {location: [10, 0]}
  d: {location: [10, 10]}
links:
  - {between: [a, b], delay_ms: 5}
  - {between: [b, d], delay_ms: 5}
  - {between: [a, c], delay_ms: 6}
  - {between: [c, d], delay_ms: 6}
"""
    )
    found = answer("route", "paths", file, "a", "d")
    assert (found["primary"], found["alternatives"]) == (["a", "b", "d"], [["a", "c", "d"]])
    assert found["delay"] == [10.0, 12.0]
    assert len(answer("route", "tables", file)["colours"]) == 1 + 4 + 4
    file.write_text("federation: square\ndomains: {a: {}}\nlinks: [{between: [a, z]}]\n")
    refused = mangrove("route", "paths", file, "a", "z")
    assert refused.returncode == 2
    assert "there is no domain 'z'" in refused.stderr


def test_measured_failures_are_read(triangle: Path, tmp_path: Path) -> None:
    """What `pipeline availability` writes is what `route paths` reads."""
    from mangrove.pipelines.jobs.availability import failures_document

    rows = [
        {"kind": "broker", "component": "1-edge1", "failure_probability": 0.5},
        {"kind": "domain", "component": "3", "failure_probability": 0.1},
        {"kind": "link", "component": "1--2", "failure_probability": 0.25},
    ]
    file = tmp_path / "failures.json"
    file.write_text(json.dumps(failures_document(rows)))
    resilient = ("route", "paths", triangle, "1", "2", "--method", "resilient")
    assert answer(*resilient)["resiliency"] == 1.0
    assert answer(*resilient, "--failures", file)["resiliency"] == pytest.approx(1 - 0.25 * 0.1)
    merged = tmp_path / "merged.json"
    merged.write_text(json.dumps({**json.loads(triangle.read_text()), **failures_document(rows)}))
    assert answer("route", "paths", merged, *resilient[3:])["resiliency"] == pytest.approx(1 - 0.25 * 0.1)


def test_failures_of_what_is_not_there_are_refused(triangle: Path, tmp_path: Path) -> None:
    file = tmp_path / "failures.json"
    file.write_text(json.dumps({"node_failure": {"9": 0.1}, "edge_failure": [["1", "9", 2]], "more": {}}))
    done = mangrove("route", "paths", triangle, "1", "2", "--failures", file)
    assert done.returncode == 2
    for place in ("node_failure.9", "edge_failure[0][1]", "edge_failure[0][2]", "more"):
        assert place in done.stderr
