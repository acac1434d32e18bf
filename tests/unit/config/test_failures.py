"""Probabilities of failure from a file beside the federation file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mangrove.config import load_federation, read_federation
from mangrove.routing.network.topology import graph_of_federation

FEDERATION = """
federation: three
failures: measured/failures.json
domains: {a: {failure_probability: 0.2}, b: {}, c: {}}
links:
  - {between: [b, a], delay_ms: 1}
  - {between: [b, c], delay_ms: 1, failure_probability: 0.5}
"""


def written(directory: Path, failures: object) -> Path:
    (directory / "measured").mkdir()
    text = failures if isinstance(failures, str) else json.dumps(failures)
    (directory / "measured" / "failures.json").write_text(text)
    path = directory / "three.yaml"
    path.write_text(FEDERATION)
    return path


def test_measured_probabilities_are_taken_where_the_file_states_none(tmp_path: Path) -> None:
    failures = {"node_failure": {"a": 0.01, "b": 0.02}, "edge_failure": [["a", "b", 0.03], ["c", "b", 0.04]]}
    federation = load_federation(written(tmp_path, failures))
    assert [federation.domains[name].failure_probability for name in "abc"] == [0.2, 0.02, None]
    assert {link.pair: link.failure_probability for link in federation.links} == {
        ("a", "b"): 0.03,
        ("b", "c"): 0.5,
    }
    graph = graph_of_federation(federation)
    assert graph.node_failure.tolist() == [0.2, 0.02, 0.0]
    assert graph.edge_failure.tolist() == [0.03, 0.5]


@pytest.mark.parametrize(
    ("failures", "mistake"),
    [
        ({"node_failure": {"z": 0.1}}, "failures: node_failure.z: there is no domain 'z' (allowed: a, b, c)"),
        (
            {"node_failure": {"a": 1.5}},
            "failures: node_failure.a: found 1.5 (allowed: a probability",
        ),
        ({"node_failure": {"a": True}}, "failures: node_failure.a: found True"),
        ({"node_failure": []}, "failures: node_failure: is no object"),
        ({"edge_failure": {}}, "failures: edge_failure: is no list"),
        ({"edge_failure": [["a", "c", 0.1]]}, "failures: edge_failure[0]: no link joins a and c"),
        ({"edge_failure": [["a", "b", -1]]}, "failures: edge_failure[0][2]: found -1"),
        (
            {"edge_failure": [["a", "b", 0.1], ["b", "a", 0.1]]},
            "edge_failure[1]: b and a are named twice",
        ),
        ({"edge_failure": [["a", "b"]]}, "failures: edge_failure[0]: found ['a', 'b']"),
        ({"edges": []}, "failures: edges: unknown key"),
        ([], "holds no object"),
        ({"node_failure": {"a": 10**400}}, "failures: node_failure.a: found 1000"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("9" * 5000, "is not JSON"),
    ],
)
def test_mistakes_name_their_place(tmp_path: Path, failures: object, mistake: str) -> None:
    (only,) = read_federation(written(tmp_path, failures)).mistakes
    assert mistake in str(only)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "three.yaml"
    path.write_text(FEDERATION)
    (only,) = read_federation(path).mistakes
    assert str(only).startswith(f"failures: cannot read {tmp_path}/measured/failures.json")
