"""`mangrove plan` as a process: documents on stdout, words on stderr, exit codes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.command import mangrove

from mangrove.errors import MangroveError

DATA = Path(__file__).parents[2] / "data" / "allocation_6x3.json"
GOLDEN: dict[str, Any] = json.loads(DATA.read_text())


def written(tmp_path: Path, document: object) -> str:
    path = tmp_path / "problem.json"
    path.write_text(json.dumps(document))
    return str(path)


def test_allocate_answers_with_one_document() -> None:
    run = mangrove("plan", "allocate", str(DATA), "--solver", "exact", "--seed", "5", "--json")
    assert run.returncode == 0
    answer = json.loads(run.stdout)
    assert list(answer["allocation"].values()) == GOLDEN["recomputed"]["best_joint"]["allocation"]
    assert answer["joint_ok"] == pytest.approx(0.970256, abs=1e-6)
    assert answer["proven_optimal"] is True
    assert answer["bound"] == pytest.approx(answer["joint_ok"])
    assert (answer["solver"], answer["seed"]) == ("exact", 5)
    assert any("positive semi-definite" in warning for warning in answer["warnings"])
    assert {"risk", "utility", "seconds"} <= set(answer)
    gain = answer["gain"]["broker1"]
    assert gain == pytest.approx(1 - answer["risk"]["broker1"] / answer["round_robin"]["risk"]["broker1"])


def test_allocate_for_people() -> None:
    run = mangrove("plan", "allocate", str(DATA))
    assert run.returncode == 0
    assert "proven optimal" in run.stdout
    assert "round robin" in run.stdout
    assert "positive semi-definite" in " ".join(run.stderr.split())


def test_infeasible_is_an_answer() -> None:
    run = mangrove("plan", "allocate", str(DATA), "--max-risk", "0.007", "--json")
    assert run.returncode == 1
    answer = json.loads(run.stdout)
    assert answer["infeasible"] is True
    assert answer["proven"] is True
    assert "constraints.max_risk" in answer["reason"]
    assert set(answer["closest"]["allocation"]) == {"broker1", "broker2", "broker3"}
    people = mangrove("plan", "allocate", str(DATA), "--max-risk", "0.007")
    assert people.returncode == 1
    assert "infeasible" in people.stdout


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"mean_rate": [1, 2]}, "mean_rate"),
        ({"mean_rate": [float("nan"), 300, 350, 200, 100, 130]}, "mean_rate[0]"),
        ({"mean_rate": [-1, 300, 350, 200, 100, 130]}, "mean_rate[0]"),
        ({"capacity": [0, 750, 600]}, "capacity[0]"),
        ({"covariance": [[1 + (i < j) for j in range(6)] for i in range(6)]}, "covariance[0][1]"),
        ({"constraints": {"pinned": {"nobody": "broker1"}}}, "constraints.pinned.nobody"),
    ],
)
def test_malformed_problems_exit_2_and_name_the_field(
    tmp_path: Path, changes: dict[str, Any], field: str
) -> None:
    run = mangrove("plan", "allocate", written(tmp_path, {**GOLDEN, **changes}), "--json")
    assert run.returncode == 2
    assert f"  {field}: " in run.stderr
    assert run.stdout == ""
    assert "Traceback" not in run.stderr


def test_more_constraints_than_can_hold_exit_1(tmp_path: Path) -> None:
    path = written(tmp_path, {**GOLDEN, "constraints": {"max_items": 1}})
    run = mangrove("plan", "allocate", path, "--json")
    assert run.returncode == 1
    assert "constraints.max_items" in json.loads(run.stdout)["reason"]


@pytest.mark.parametrize("content", ["", "{", "[1, 2]", "null", "[" * 100_000])
def test_what_is_not_a_problem_exits_2(tmp_path: Path, content: str) -> None:
    path = tmp_path / "problem.json"
    path.write_text(content)
    run = mangrove("plan", "allocate", str(path))
    assert run.returncode == 2
    assert "Traceback" not in run.stderr
    assert str(path) in run.stderr


def test_missing_and_unreadable_files_exit_2(tmp_path: Path) -> None:
    assert mangrove("plan", "allocate", str(tmp_path / "nothing.json")).returncode == 2
    assert mangrove("plan", "allocate", str(tmp_path)).returncode == 2
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert mangrove("plan", "allocate", str(tmp_path / "binary")).returncode == 2


def test_problem_from_standard_input() -> None:
    run = mangrove("plan", "allocate", "-", "--json", stdin=DATA.read_text())
    assert run.returncode == 0
    assert json.loads(run.stdout)["solver"] == "exact"


def test_time_limit_returns_the_best_so_far(tmp_path: Path) -> None:
    count = 60
    covariance = [[900.0 if i == j else 20.0 for j in range(count)] for i in range(count)]
    document = {
        "items": [f"t{i}" for i in range(count)],
        "mean_rate": [100.0 + i for i in range(count)],
        "covariance": covariance,
        "brokers": ["x", "y", "z"],
        "capacity": [2900, 2900, 2900],
    }
    path = written(tmp_path, document)
    run = mangrove("plan", "allocate", path, "--solver", "exact", "--time-limit", "0.3", "--json")
    assert run.returncode == 0
    answer = json.loads(run.stdout)
    assert answer["proven_optimal"] is False
    assert answer["bound"] >= answer["joint_ok"]
    assert answer["gap"] == pytest.approx(answer["bound"] - answer["joint_ok"])


def test_mirror_of_a_given_and_of_a_computed_allocation(tmp_path: Path) -> None:
    computed = mangrove("plan", "mirror", str(DATA), "--json")
    assert computed.returncode == 0
    answer = json.loads(computed.stdout)
    for pair in answer["mirrors"].values():
        assert pair["primary"] != pair["mirror"]
    assert set(answer["failures"]) == {"broker1", "broker2", "broker3"}
    assert "broker1" not in answer["failures"]["broker1"]["risk"]
    allocation = tmp_path / "allocation.json"
    allocation.write_text(json.dumps(answer["primary"]))
    given = mangrove("plan", "mirror", str(DATA), "--allocation", str(allocation), "--json")
    assert json.loads(given.stdout)["mirrors"] == answer["mirrors"]
    broken = {"allocation": {"broker1": ["item1", "item9"], "nowhere": []}}
    allocation.write_text(json.dumps(broken))
    refused = mangrove("plan", "mirror", str(DATA), "--allocation", str(allocation))
    assert refused.returncode == 2
    for part in ("item9", "nowhere", "item2"):
        assert part in refused.stderr


def test_mirror_that_breaks_the_bound_exits_1() -> None:
    run = mangrove("plan", "mirror", str(DATA), "--max-risk", "0.05", "--json")
    assert run.returncode == 1
    assert json.loads(run.stdout)["infeasible"] is True
    assert mangrove("plan", "mirror", str(DATA), "--max-risk", "0.05").returncode == 1


def test_mirrors_follow_contracts_and_hosts(tmp_path: Path) -> None:
    hosts = {"east": ["broker1", "broker2"], "west": ["broker3"]}
    said = {"mirrored": {"item1": True, "item4": "standby"}, "hosts": hosts, "capacity": [7000, 7500, 6000]}
    path = written(tmp_path, {**GOLDEN, **said})
    answer = json.loads(mangrove("plan", "mirror", path, "--json").stdout)
    assert {item: row["mode"] for item, row in answer["mirrors"].items()} == {
        "item1": "both",
        "item4": "standby",
    }
    for row in answer["mirrors"].values():
        assert (row["primary"] == "broker3") != (row["mirror"] == "broker3")
    assert set(answer["host_failures"]) == {"east", "west"}
    shown = mangrove("plan", "mirror", path).stdout
    assert "Primaries and mirrors together" in shown
    assert "host east" in shown
    assert "2 of 6 items have a mirror" in shown
    wrong = written(tmp_path, {**GOLDEN, "mirrored": {"item9": True}, "hosts": {"east": ["broker1"]}})
    refused = mangrove("plan", "cases", wrong)
    assert refused.returncode == 2
    assert "mirrored.item9" in refused.stderr
    assert "hosts: broker 'broker2' is on no host" in refused.stderr


def test_cases_are_written_and_read_back(tmp_path: Path) -> None:
    from mangrove.planning.policies.case_base import decode

    small = {**GOLDEN, "mean_rate": [rate / 4 for rate in GOLDEN["mean_rate"]]}
    path, output = written(tmp_path, small), tmp_path / "cases.json"
    arguments = ("plan", "cases", path, "--max-risk", "0.3", "--low-load", "0.5", "--output", str(output))
    run = mangrove(*arguments, "--workers", "2", "--json")
    assert run.returncode == 0, run.stderr
    base = decode(output.read_bytes())
    assert len(base.cases) == 1 + 3 + 3 + 1
    found = base.retrieve(["broker2"])
    assert found is not None
    assert found.exact
    assert len(json.loads(run.stdout)["cases"]) == 8
    people = mangrove(*arguments)
    assert people.returncode == 0
    assert "low-load" in people.stdout.replace("\n", "")


def test_cases_without_a_risk_bound_leave_low_load_out() -> None:
    run = mangrove("plan", "cases", str(DATA), "--json")
    assert run.returncode == 0
    answer = json.loads(run.stdout)
    assert len(answer["cases"]) == 7
    assert any("low-load" in warning for warning in answer["warnings"])
    assert mangrove("plan", "cases", str(DATA), "--low-load", "1.5").returncode == 2


def test_cases_that_break_the_bound_exit_1_and_are_listed() -> None:
    run = mangrove("plan", "cases", str(DATA), "--max-risk", "0.05", "--json")
    assert run.returncode == 1
    answer = json.loads(run.stdout)
    assert answer["infeasible"] is True
    assert "single-failure broker1" in answer["reason"]
    assert [case["feasible"] for case in answer["cases"]].count(True) == 4


def test_help_names_the_commands() -> None:
    run = mangrove("plan", "--help")
    assert run.returncode == 0
    for name in ("allocate", "mirror", "cases"):
        assert name in run.stdout


def test_the_example_of_the_guide_runs(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "how-to" / "plan-allocation.md").read_text()
    example = json.loads(guide.split("```json")[1].split("```")[0])
    path = written(tmp_path, example)
    answer = mangrove("plan", "allocate", path, "--json")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "news" in json.loads(answer.stdout)["allocation"]["west"]
    commands = [line.split("#")[0].split() for line in guide.splitlines() if line.startswith("mangrove plan")]
    assert len(commands) == 6
    (tmp_path / "answer.json").write_text(answer.stdout)
    for command in commands:
        arguments = [str(tmp_path / word) if word.endswith(".json") else word for word in command[1:]]
        run = mangrove(*arguments)
        assert run.returncode in (0, 1), run.stderr
        assert "Traceback" not in run.stderr


def test_unknown_options_and_values_exit_2() -> None:
    assert mangrove("plan", "allocate", str(DATA), "--solver", "magic").returncode == 2
    assert mangrove("plan", "allocate", str(DATA), "--seed", "-1").returncode == 2
    assert mangrove("plan", "allocate", str(DATA), "--max-risk", "7").returncode == 2
    assert mangrove("plan", "allocate", str(DATA), "--objective", "profit").returncode == 2


def _end_at_once(state: object) -> object:
    os._exit(3)


def test_a_killed_worker_is_one_line_not_a_traceback() -> None:
    from mangrove.cli.planning.plan import _case_mapper

    with pytest.raises(MangroveError, match="ended before its time"), _case_mapper(2, 2) as mapper:
        list(mapper(_end_at_once, [1, 2]))


def test_capacity_to_spare_is_used(tmp_path: Path) -> None:
    """Fifty topics, 2,000 msg/s in all, three brokers of 20,000: each gets its share."""
    problem = tmp_path / "spare.json"
    variances = [[100.0 if i == j else 0.0 for j in range(50)] for i in range(50)]
    document = {"items": [f"t{n}" for n in range(50)], "mean_rate": [40.0] * 50, "covariance": variances}
    problem.write_text(json.dumps({**document, "brokers": ["a", "b", "c"], "capacity": [20_000.0] * 3}))
    done = mangrove("plan", "allocate", str(problem), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sorted(len(items) for items in found["allocation"].values()) == [16, 17, 17]
    assert found["joint_ok"] == 1.0
    assert found["proven_optimal"]


def test_risk_from_observed_windows(tmp_path: Path) -> None:
    problem = written(tmp_path, GOLDEN)
    rng = np.random.default_rng(1)
    mean = np.array(GOLDEN["mean_rate"])
    rates = rng.normal(mean[:, None], 0.1 * mean[:, None], (6, 400))
    np.savez(
        tmp_path / "scenarios.npz",
        items=np.array(GOLDEN["items"]),
        rates=rates,
        weights=np.full(400, 1 / 400),
    )
    run = mangrove("plan", "allocate", problem, "--risk", "empirical", "--json")
    assert run.returncode == 0, run.stderr
    answer = json.loads(run.stdout)
    assert (answer["risk_model"], answer["scenarios"], answer["solver"]) == ("empirical", 400, "search")
    assert set(answer["normal_risk"]) == set(answer["risk"])
    for broker, items in answer["allocation"].items():
        load = rates[[GOLDEN["items"].index(item) for item in items]].sum(axis=0)
        capacity = GOLDEN["capacity"][GOLDEN["brokers"].index(broker)]
        assert answer["risk"][broker] == pytest.approx((load > capacity).mean(), abs=0.02)
    shown = mangrove("plan", "allocate", problem, "--risk", "empirical")
    assert "400 observed windows" in shown.stdout


def test_scenarios_that_are_not_there_are_named(tmp_path: Path) -> None:
    problem = written(tmp_path, GOLDEN)
    run = mangrove("plan", "allocate", problem, "--risk", "empirical")
    assert run.returncode == 2
    assert "there are no scenarios at" in " ".join(run.stderr.split())
    assert "profile --scenarios" in " ".join(run.stderr.split())
    (tmp_path / "scenarios.npz").write_text("no archive")
    assert mangrove("plan", "allocate", problem, "--risk", "empirical").returncode == 2


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000])
def test_json_that_cannot_be_read_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "problem.json"
    path.write_text(text)
    run = mangrove("plan", "allocate", path)
    assert run.returncode == 2
    assert "is not JSON" in run.stderr


def test_a_name_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    names = ["\ud800", *GOLDEN["items"][1:]]
    run = mangrove("plan", "allocate", written(tmp_path, {**GOLDEN, "items": names}), "--json")
    assert run.returncode == 2
    assert "items[0]" in run.stderr
