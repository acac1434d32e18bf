"""Problem files: what is read, and that every mistake is named."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mangrove.errors import EXIT_BAD_INPUT, InvalidDocumentError
from mangrove.model.topics import Mirror
from mangrove.planning.judgement.assessment import assess
from mangrove.planning.problem.document import read_problem
from mangrove.planning.problem.problem import Objective


def document(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "items": ["a", "b", "c"],
        "mean_rate": [1.0, 2.0, 3.0],
        "covariance": [[1.0, 0.1, 0.0], [0.1, 1.0, 0.0], [0.0, 0.0, 1.0]],
        "brokers": ["x", "y"],
        "capacity": [5.0, 6.0],
    }
    base.update(changes)
    return {name: value for name, value in base.items() if value is not ...}


def paths(**changes: Any) -> list[str]:
    with pytest.raises(InvalidDocumentError) as caught:
        read_problem(document(**changes), "problem.json")
    assert caught.value.exit_code == EXIT_BAD_INPUT
    assert "problem.json" in caught.value.message
    return [mistake.path for mistake in caught.value.mistakes]


MODEL = {"t_rcv": 1e-3, "t_fltr": 0.0, "t_tx": 0.0}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"items": ...}, "items"),
        ({"items": []}, "items"),
        ({"items": ["a", "a", "c"]}, "items[1]"),
        ({"items": ["a", 3, "c"]}, "items[1]"),
        ({"brokers": ["x", ""]}, "brokers[1]"),
        ({"mean_rate": ...}, "mean_rate"),
        ({"mean_rate": [1.0, 2.0]}, "mean_rate"),
        ({"mean_rate": [1.0, -2.0, 3.0]}, "mean_rate[1]"),
        ({"mean_rate": [1.0, math.nan, 3.0]}, "mean_rate[1]"),
        ({"mean_rate": [1.0, math.inf, 3.0]}, "mean_rate[1]"),
        ({"mean_rate": [1.0, "2", 3.0]}, "mean_rate[1]"),
        ({"mean_rate": [1.0, True, 3.0]}, "mean_rate[1]"),
        ({"mean_rate": 7}, "mean_rate"),
        ({"covariance": ...}, "covariance"),
        ({"covariance": [[1.0]]}, "covariance"),
        ({"covariance": [1.0, 2.0, 3.0]}, "covariance"),
        ({"covariance": [[1.0, 0.2, 0], [0.1, 1, 0], [0, 0, 1]]}, "covariance[0][1]"),
        ({"covariance": [[1.0, 0, 0], [0, -1, 0], [0, 0, 1]]}, "covariance[1][1]"),
        ({"covariance": [[1.0, 0, 0], [0, 1, math.nan], [0, 0, 1]]}, "covariance[1][2]"),
        ({"covariance": [[1.0, 0, 0], [0, 1], [0, 0, 1]]}, "covariance[1]"),
        ({"capacity": [5.0]}, "capacity"),
        ({"capacity": [5.0, 0.0]}, "capacity[1]"),
        ({"capacity": ...}, "capacity, model"),
        ({"model": MODEL}, "capacity, model"),
        ({"capacity": ..., "model": MODEL, "filters": [0, 0, 0]}, "replication"),
        (
            {"capacity": ..., "model": {"t_rcv": 1}, "filters": [0] * 3, "replication": [0] * 3},
            "model.t_fltr",
        ),
        ({"capacity": ..., "model": [MODEL], "filters": [0] * 3, "replication": [0] * 3}, "model"),
        (
            {"capacity": ..., "model": {**MODEL, "t_rcv": 0}, "filters": [0] * 3, "replication": [0] * 3},
            "model",
        ),
        ({"constraints": []}, "constraints"),
        ({"constraints": {"max_riks": 0.1}}, "constraints.max_riks"),
        ({"constraints": {"max_risk": 0}}, "constraints.max_risk"),
        ({"constraints": {"max_risk": 1.5}}, "constraints.max_risk"),
        ({"constraints": {"max_risk": {"q": 0.1}}}, "constraints.max_risk.q"),
        ({"constraints": {"pinned": {"q": "x"}}}, "constraints.pinned.q"),
        ({"constraints": {"pinned": {"a": "q"}}}, "constraints.pinned.a"),
        ({"constraints": {"forbidden": {"a": ["x", "q"]}}}, "constraints.forbidden.a"),
        ({"constraints": {"max_items": math.nan}}, "constraints.max_items"),
        ({"constraints": {"max_replication": 3}}, "constraints.max_replication"),
        ({"objective": "profit"}, "objective"),
        ({"utilisation_threshold": 1.2}, "utilisation_threshold"),
        ({"size_bytes": [1, 2]}, "size_bytes"),
        ({"reward": [1, 2, -3]}, "reward[2]"),
        ({"mirrored": "both"}, "mirrored"),
        ({"mirrored": [True, False]}, "mirrored"),
        ({"mirrored": [True, "often", None]}, "mirrored[1]"),
        ({"mirrored": {"q": True}}, "mirrored.q"),
        ({"mirrored": {"b": 1}}, "mirrored.b"),
        ({"hosts": ["x"]}, "hosts"),
        ({"hosts": {"h": ["x"]}}, "hosts"),
        ({"hosts": {"h": ["x", "y"], "g": ["q"]}}, "hosts.g[0]"),
        ({"hosts": {"h": ["x", "y"], "g": ["y"]}}, "hosts.g[0]"),
        ({"hosts": {"h": "x", "g": ["x", "y"]}}, "hosts.h"),
        ({"topics": {"a": []}}, "topics.a"),
        ({"topics": [["t"], ["u"], [3]]}, "topics[2]"),
        ({"federation": 3}, "federation"),
        ({"data_until": math.nan}, "data_until"),
        ({"data_until": 1.7e12}, "data_until"),
    ],
)
def test_each_mistake_names_its_field(changes: dict[str, Any], expected: str) -> None:
    assert expected in paths(**changes)


def test_all_mistakes_are_reported_at_once() -> None:
    found = paths(
        mean_rate=[1.0, -1.0],
        capacity=[0, 1],
        constraints={"pinned": {"q": "x"}, "max_risk": 2},
        objective="?",
    )
    assert {
        "mean_rate",
        "mean_rate[1]",
        "capacity[0]",
        "constraints.pinned.q",
        "constraints.max_risk",
        "objective",
    } <= set(found)


def test_a_flood_of_mistakes_is_summed_up() -> None:
    found = paths(covariance=[[math.nan] * 3] * 3)
    assert len(found) == 6


def test_not_an_object() -> None:
    with pytest.raises(InvalidDocumentError, match="not a JSON object"):
        read_problem([1], "problem.json")


def test_defaults_and_notes() -> None:
    read = read_problem(document(source="a paper"), "p")
    problem = read.problem
    assert problem.objective is Objective.JOINT
    assert (problem.reward == problem.mean_rate_msg_s).all()
    assert (problem.penalty == problem.mean_rate_msg_s).all()
    assert read.warnings == ("ignored unknown fields: source",)
    assert not problem.constraints.bind_brokers


def test_contracts_hosts_and_origin_are_read_and_change_no_allocation() -> None:
    said = {
        "mirrored": [True, "standby", False],
        "hosts": {"h": ["y"], "g": ["x"]},
        "topics": {"a": ["alarm.>"]},
        "federation": "roads",
        "data_until": 1.7e9,
    }
    read = read_problem(document(**said), "p")
    assert read.problem.mirrored == (Mirror.BOTH, Mirror.STANDBY, Mirror.NONE)
    assert read.problem.hosts == ("g", "h")
    assert read.provenance.topics_of("a") == ("alarm.>",)
    assert read.provenance.topics_of("b") == ("b",)
    assert (read.provenance.federation, read.provenance.data_until) == ("roads", 1.7e9)
    assert read.warnings == ()
    plain = read_problem(document(), "p").problem
    assert plain.mirrored == plain.hosts == ()
    assert assess(plain, (0, 1, 0)) == assess(read.problem, (0, 1, 0))
    some = read_problem(document(mirrored={"b": "both"}), "p").problem
    assert some.mirrored == (Mirror.NONE, Mirror.BOTH, Mirror.NONE)


def test_one_model_for_all_brokers_or_one_for_each() -> None:
    shared = {"capacity": ..., "filters": [1, 2, 3], "replication": [1, 1, 1]}
    fast, slow = MODEL, {**MODEL, "t_rcv": 2e-3, "t_fltr": 1e-3}
    one = read_problem(document(model=fast, **shared), "p").problem
    two = read_problem(document(model=[fast, slow], **shared), "p").problem
    assert one.service_time_s is not None
    assert two.service_time_s is not None
    assert np.allclose(one.service_time_s, 1e-3)
    assert np.allclose(two.service_time_s[1], [3e-3, 4e-3, 5e-3])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"mean_rate": [10**400, 1.0, 1.0]}, "mean_rate[0]"),
        ({"items": ["a", "\ud800", "c"]}, "items[1]"),
        ({"brokers": ["x", "\udfff"]}, "brokers[1]"),
        ({"domain": "\ud800"}, "domain"),
        ({"hosts": {"\ud800": ["x", "y"]}}, "hosts"),
        ({"topics": [["\ud800"], ["b"], ["c"]]}, "topics[0]"),
    ],
)
def test_numbers_and_names_that_no_answer_can_have(changes: dict[str, Any], expected: str) -> None:
    assert paths(**changes) == [expected]


def test_a_field_nobody_knows_can_be_named_in_a_warning() -> None:
    (warning,) = read_problem(document(**{"\ud800": 1}), "problem.json").warnings
    assert warning.encode()
