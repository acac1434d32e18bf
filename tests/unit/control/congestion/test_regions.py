"""Rate regions: the thesis' ladder, on a fair share of what is short."""

from __future__ import annotations

import math

import pytest
from tests.kit.congestion_problems import matching, output, topic

from mangrove.control.congestion.problem import CongestionProblem
from mangrove.control.congestion.regions import MAX_SHARES, cut_to_regions, region_limits
from mangrove.control.congestion.selection.table import Table
from mangrove.model.agents.load import UNLIMITED
from mangrove.model.congestion.parameters import PUBLISHED_LIMITS_MSG_S, Congestion

PARAMETERS = Congestion()


def limits_of(
    problem: CongestionProblem, parameters: Congestion = PARAMETERS
) -> dict[tuple[str, str], float]:
    table = Table(problem)
    return table.allowed(region_limits(table, parameters))


@pytest.mark.parametrize(
    ("utility", "limit"),
    [
        (0.0, 10),
        (0.19, 10),
        (0.2, 200),
        (0.39, 200),
        (0.4, 500),
        (0.6, 900),
        (0.79, 900),
        (0.8, 2000),
        (1.0, 2000),
    ],
)
def test_the_ladder_is_that_of_the_thesis(utility: float, limit: float) -> None:
    """Table of §5.2.1: a boundary belongs to the region above it. One publisher's region is all of 2,000."""
    demand = topic("a", ("p", utility, 5000.0, 1.0), copies={"edge": 1.0})
    limits = limits_of(CongestionProblem({"edge": matching(2000.0)}, (demand,)))
    assert limits["a", "p"] == pytest.approx(limit)


def test_the_published_limits_at_the_published_size() -> None:
    """25,000 msg/s for 100 publishers who all want more than their 250: eight shares are 2,000 msg/s."""
    utilities = (0.0, 0.2, 0.4, 0.6, 0.8)
    publishers = [(f"p{number}", utilities[number % 5], 5000.0, 500.0) for number in range(100)]
    problem = CongestionProblem(
        {"edge": matching(25_000.0)}, (topic("a", *publishers, copies={"edge": 4.0}),)
    )
    limits = limits_of(problem)
    assert [limits["a", f"p{number}"] for number in range(5)] == pytest.approx(PUBLISHED_LIMITS_MSG_S)
    assert MAX_SHARES == 8.0


def test_bytes_are_converted_by_the_publishers_own_size() -> None:
    """400 kB/s for 40 publishers: eight shares are 80 kB/s of output; each message makes four copies."""
    publishers = [(f"p{number}", 0.9, 1000.0, 100.0 if number % 2 else 1000.0) for number in range(40)]
    problem = CongestionProblem({"edge": output(400_000.0)}, (topic("a", *publishers, copies={"edge": 4.0}),))
    limits = limits_of(problem)
    assert limits["a", "p1"] == pytest.approx(80_000.0 / 400.0)
    assert limits["a", "p0"] == pytest.approx(80_000.0 / 4000.0)


def test_who_says_little_leaves_its_share_to_others_and_nobody_has_more_than_all() -> None:
    """Ten of 10 msg/s leave 900 of 1000 for two who want 2000: 450 each; eight times that is above all."""
    publishers = [(f"p{number}", 0.9, 10.0, 1.0) for number in range(10)]
    publishers += [("loud", 0.9, 2000.0, 1.0), ("useless", 0.1, 2000.0, 1.0)]
    problem = CongestionProblem({"edge": matching(1000.0)}, (topic("a", *publishers, copies={"edge": 1.0}),))
    limits = limits_of(problem)
    assert limits["a", "loud"] == pytest.approx(1000.0)
    assert limits["a", "useless"] == pytest.approx(5.0)
    cut = cut_to_regions(problem, PARAMETERS).topics[0]
    assert {one.publisher: one.msg_s for one in cut.publishers if one.msg_s != 10.0} == {
        "loud": pytest.approx(1000.0),
        "useless": pytest.approx(5.0),
    }


def test_the_scarcest_broker_counts_and_others_not() -> None:
    problem = CongestionProblem(
        {"head": matching(100.0), "edge": matching(50.0), "free": UNLIMITED, "none": matching(0.0)},
        (
            topic("a", ("p", 0.5, 500.0, 1.0), copies={"head": 1.0, "edge": 1.0, "free": 1.0}),
            topic("b", ("p", 0.5, 500.0, 1.0), copies={"free": 1.0}),
            topic("c", ("p", 0.1, 500.0, 1.0), copies={"head": 1.0}, protected=True),
            topic("d", ("p", 0.9, 500.0, 1.0), copies={"none": 1.0}),
        ),
    )
    assert limits_of(problem) == {
        ("a", "p"): pytest.approx(0.25 * 50.0),
        ("b", "p"): math.inf,
        ("c", "p"): math.inf,
        ("d", "p"): 0.0,
    }
    cut = cut_to_regions(problem, PARAMETERS)
    assert cut.topics[1:3] == problem.topics[1:3]
    assert cut.budgets == problem.budgets
