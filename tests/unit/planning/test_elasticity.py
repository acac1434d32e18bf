"""Which brokers could be off, and how many more are wanted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mangrove.errors import InputError
from mangrove.planning.policies.elasticity import brokers_wanted, spare_brokers, with_brokers_added
from mangrove.planning.policies.placement import Placer
from mangrove.planning.problem.document import read_problem
from mangrove.planning.problem.problem import Problem
from mangrove.planning.solvers.registry import SolverName
from mangrove.planning.solvers.stop import Never

PLACER = Placer(SolverName.AUTO, Never(), 1)


def domain(load: float = 1.0, **changes: Any) -> Problem:
    document: dict[str, Any] = {
        "items": ["a", "b", "c", "d"],
        "mean_rate": [10 * load] * 4,
        "covariance": np.diag([4.0 * load**2] * 4).tolist(),
        "brokers": ["x", "y", "z"],
        "capacity": [30, 30, 30],
        "constraints": {"max_risk": 0.01},
    }
    return read_problem({**document, **changes}, "p").problem


def test_at_low_load_brokers_are_spare() -> None:
    found = spare_brokers(domain(0.4), PLACER)
    assert len(found.off) == 2
    assert found.certain
    assert found.placement.together.feasible
    assert set(found.placement.problem.brokers) | set(found.off) == {"x", "y", "z"}
    assert spare_brokers(domain(1.7), PLACER).off == ()


def test_some_brokers_stay_on() -> None:
    found = spare_brokers(domain(0.4), PLACER, kept=("y",))
    assert found.off == ("x", "z")
    assert "y" in found.placement.problem.brokers
    with pytest.raises(InputError, match="nowhere"):
        spare_brokers(domain(), PLACER, kept=("nowhere",))


def test_mirrors_need_a_second_broker_on_another_host() -> None:
    asking = domain(0.2, mirrored={"a": "standby"}, hosts={"h": ["x", "y"], "g": ["z"]})
    found = spare_brokers(asking, PLACER)
    assert len(found.off) == 1
    assert "z" not in found.off
    assert set(found.placement.mirror_names) == {"a"}
    copies = domain(0.7, mirrored=[True] * 4)
    assert len(spare_brokers(copies, PLACER).off) == 0
    assert len(spare_brokers(domain(0.7), PLACER).off) == 1


def test_so_many_brokers_are_wanted_as_keep_the_bounds() -> None:
    assert brokers_wanted(domain(), PLACER, "x", ("e1", "e2")).added == ()
    heavy = domain(1.8)
    one = brokers_wanted(heavy, PLACER, "x", ("e1", "e2"))
    assert one.enough
    assert one.added == ("e1",)
    assert set(one.placement.problem.brokers) == {"x", "y", "z", "e1"}
    never = brokers_wanted(domain(9.0), PLACER, "x", ("e1",))
    assert not never.enough
    assert "max_risk" in never.reason


def test_an_added_broker_equals_its_model() -> None:
    problem = domain(
        hosts={"h": ["x", "y"], "g": ["z"]}, constraints={"max_risk": 0.1, "forbidden": {"a": "z"}}
    )
    more = with_brokers_added(problem, "z", ("e1",))
    assert more.hosts == ("h", "h", "g", "g")
    assert (0, 3) in more.constraints.forbidden
    assert more.capacity_msg_s is not None
    assert more.capacity_msg_s[3] == 30
    assert with_brokers_added(problem, "z", ("e1",), host="k").hosts[-1] == "k"
    with pytest.raises(InputError, match="already"):
        with_brokers_added(problem, "z", ("x",))
    with pytest.raises(InputError, match="no broker"):
        brokers_wanted(problem, PLACER, "q", ())


def test_without_bounds_there_is_no_answer() -> None:
    with pytest.raises(InputError, match="constraints"):
        spare_brokers(domain(constraints={}), PLACER)
