"""Selections on small problems whose answers are reckoned by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from tests.kit.congestion_problems import FREE, matching, output, topic

from mangrove.control.congestion.assessment import delivered_utility, used
from mangrove.control.congestion.problem import CongestionProblem, PublisherDemand, TopicDemand
from mangrove.control.congestion.selection import knapsack as knapsack_module
from mangrove.control.congestion.selection.greedy import greedy
from mangrove.control.congestion.selection.knapsack import knapsack
from mangrove.control.congestion.selection.registry import SELECTIONS, select_named
from mangrove.errors import InputError
from mangrove.model.agents.load import UNLIMITED, Amounts
from mangrove.model.congestion import parameters

EDGE = {"edge": 1.0}

by_name = pytest.mark.parametrize("name", SELECTIONS)


def test_the_registry_has_the_names_of_the_federation_file() -> None:
    assert tuple(SELECTIONS) == parameters.SELECTIONS
    assert select_named("greedy") is greedy
    with pytest.raises(InputError, match="no selection 'best'"):
        select_named("best")


def test_greedy_by_importance_and_the_last_says_what_is_left() -> None:
    """Budget 1000 msg/s. Importances: a 0.9·10/0.4 = 22.5, b 0.5·10/0.4 = 12.5, c 0.5·4/0.5 = 4.

    a and b take 800; of c, q is the more useful and says the 200 that are left.
    """
    problem = CongestionProblem(
        {"edge": matching(1000.0)},
        (
            topic("c", ("p", 0.2, 250.0, 100.0), ("q", 0.8, 250.0, 100.0), copies=EDGE, subscribers=4),
            topic("a", ("p", 0.9, 400.0, 100.0), copies=EDGE, subscribers=10),
            topic("b", ("p", 0.5, 400.0, 100.0), copies=EDGE, subscribers=10),
        ),
    )
    selection = greedy(problem)
    assert selection.importance == {
        "a": pytest.approx(22.5),
        "b": pytest.approx(12.5),
        "c": pytest.approx(4.0),
    }
    assert selection.allowed == {
        ("a", "p"): 400.0,
        ("b", "p"): 400.0,
        ("c", "p"): 0.0,
        ("c", "q"): pytest.approx(200.0),
    }
    assert not selection.short


def test_smaller_topics_further_down_use_what_is_left_unless_it_stops_at_the_first() -> None:
    """big (0.9·10/1.2 = 7.5) fills edge 1 and is cut; small (0.5·2/0.5 = 2) shares but the head with it."""
    topics = (
        topic("big", ("p", 0.9, 1200.0, 1.0), copies={"head": 1.0, "one": 1.0}, subscribers=10),
        topic("small", ("p", 0.5, 500.0, 1.0), copies={"head": 1.0, "two": 1.0}, subscribers=2),
        topic("apart", ("p", 0.5, 500.0, 1.0), copies={"two": 1.0}, subscribers=1),
    )
    budgets = {"head": matching(2000.0), "one": matching(1000.0), "two": matching(1000.0)}
    rates = greedy(CongestionProblem(budgets, topics)).allowed
    assert rates == {("big", "p"): pytest.approx(1000.0), ("small", "p"): 500.0, ("apart", "p"): 500.0}
    rates = greedy(CongestionProblem(budgets, topics, stop_at_first=True)).allowed
    assert rates == {("big", "p"): pytest.approx(1000.0), ("small", "p"): 0.0, ("apart", "p"): 0.0}
    rates = greedy(CongestionProblem(budgets, (topics[0], topics[2]), stop_at_first=True)).allowed
    assert rates == {("big", "p"): pytest.approx(1000.0), ("apart", "p"): 500.0}, "it shares no broker"


def test_an_earlier_rank_is_kept() -> None:
    topics = (
        topic("a", ("p", 0.5, 800.0, 1.0), copies=EDGE, rank=10.0),
        topic("b", ("p", 0.51, 800.0, 1.0), copies=EDGE, rank=9.0),
    )
    selection = greedy(CongestionProblem({"edge": matching(1000.0)}, topics))
    assert selection.allowed == {("a", "p"): 800.0, ("b", "p"): pytest.approx(200.0)}
    assert selection.importance["b"] > selection.importance["a"]


def test_equal_topics_are_served_in_the_order_of_their_names() -> None:
    topics = tuple(topic(name, ("p", 0.5, 800.0, 1.0), copies=EDGE) for name in "dbca")
    selection = greedy(CongestionProblem({"edge": matching(1600.0)}, topics))
    assert {name for (name, _), rate in selection.allowed.items() if rate > 0} == {"a", "b"}


@by_name
def test_protected_topics_are_served_first_whatever_they_are_worth(name: str) -> None:
    problem = CongestionProblem(
        {"edge": matching(1000.0)},
        (
            topic("useful", ("p", 1.0, 900.0, 1.0), copies=EDGE, subscribers=100),
            topic("alarm", ("p", 0.0, 600.0, 1.0), copies=EDGE, subscribers=0, protected=True),
        ),
    )
    selection = select_named(name)(problem)
    assert selection.allowed == {("useful", "p"): pytest.approx(400.0), ("alarm", "p"): 600.0}
    assert not selection.short


@by_name
def test_if_protected_topics_alone_are_too_much_all_others_there_stop(name: str) -> None:
    """1200 messages of 200 bytes: 200 more than the edge matches; the head has room for 60,000 B/s."""
    problem = CongestionProblem(
        {"edge": matching(1000.0), "head": output(300_000.0)},
        (
            topic("alarm", ("p", 0.1, 1200.0, 200.0), copies={"edge": 3.0, "head": 1.0}, protected=True),
            topic("useful", ("p", 1.0, 900.0, 1.0), copies={"edge": 3.0}, subscribers=100),
            topic("apart", ("p", 0.1, 900.0, 100.0), copies={"head": 1.0}, subscribers=1),
        ),
    )
    selection = select_named(name)(problem)
    assert selection.short == {"edge": Amounts(0.0, 0.0, 200.0)}
    assert selection.allowed == {
        ("alarm", "p"): 1200.0,
        ("useful", "p"): 0.0,
        ("apart", "p"): pytest.approx(600.0),
    }


@by_name
def test_head_and_edge_are_told_apart_by_their_copies(name: str) -> None:
    """1,000-byte messages: the edge gives out 20 copies (50 msg/s in 1 MB/s), the head 2 (60 in 120 kB/s)."""
    copies = {"head": 2.0, "edge": 20.0}
    demand = topic("a", ("p", 0.5, 100.0, 1000.0), copies=copies, subscribers=20)
    for budgets, rate in (
        ({"head": output(120_000.0), "edge": output(1e6)}, 50.0),
        ({"head": output(80_000.0), "edge": output(1e6)}, 40.0),
        ({"head": Amounts(30_000.0, 80_000.0, FREE), "edge": output(1e6)}, 30.0),
        ({"head": UNLIMITED, "edge": Amounts(FREE, FREE, 20.0)}, 20.0),
        ({"head": UNLIMITED}, 100.0),
        ({}, 100.0),
    ):
        problem = CongestionProblem(budgets, (demand,))
        selection = select_named(name)(problem)
        assert selection.allowed == {("a", "p"): pytest.approx(rate)}
        if budgets:
            assert used(problem, selection.allowed)["head"].output == pytest.approx(rate * 2000.0)


@by_name
@pytest.mark.parametrize("budget", [0.0, -100.0, float("nan")])
def test_without_any_budget_everybody_is_silent(name: str, budget: float) -> None:
    problem = CongestionProblem(
        {"edge": matching(budget)}, (topic("a", ("p", 1.0, 10.0, 1.0), ("q", 1.0, 0.0, 1.0), copies=EDGE),)
    )
    selection = select_named(name)(problem)
    assert set(selection.allowed.values()) == {0.0}
    assert selection.importance == {"a": 0.0}


@by_name
def test_what_nobody_wants_comes_last_but_is_not_stopped_for_nothing(name: str) -> None:
    problem = CongestionProblem(
        {"edge": matching(1000.0)},
        (
            topic("unheard", ("p", 1.0, 400.0, 1.0), copies={"edge": 0.0}, subscribers=0),
            topic("useless", ("p", 0.0, 400.0, 1.0), copies=EDGE, subscribers=9),
            topic("useful", ("p", 0.1, 700.0, 1.0), copies=EDGE, subscribers=1),
        ),
    )
    rates = select_named(name)(problem).allowed
    assert rates["useful", "p"] == 700.0
    assert sum(rates.values()) == pytest.approx(1000.0)


@by_name
def test_figures_that_are_no_numbers_count_as_nothing(name: str) -> None:
    strange = tuple(
        PublisherDemand(f"p{number}", utility, msg_s, size)
        for number, (utility, msg_s, size) in enumerate(
            ((float("nan"), 10.0, 1.0), (0.5, float("nan"), 1.0), (0.5, FREE, 1.0), (0.5, -1.0, -1.0))
        )
    )
    problem = CongestionProblem(
        {"edge": Amounts(50.0, 50.0, 5.0)}, (TopicDemand("a", float("nan"), 3, strange, {"edge": 1.0}),)
    )
    rates = list(select_named(name)(problem).allowed.values())
    assert rates == [pytest.approx(5.0), 0.0, 0.0, 0.0]


def test_knapsack_takes_the_useful_publishers_of_all_topics() -> None:
    """Greedy takes topic a whole (0.55·10/0.5 = 11) and b (0.5·10/1 = 5) not; the best are b's p and a's p.

    1000 msg/s: greedy delivers 10 · (250·1.0 + 250·0.1 + 500·0.9) = 7,250; the best is
    10 · (250·1.0 + 750·0.9) = 9,250.
    """
    problem = CongestionProblem(
        {"edge": matching(1000.0)},
        (
            topic("a", ("p", 1.0, 250.0, 1.0), ("q", 0.1, 250.0, 1.0), copies=EDGE, subscribers=10),
            topic("b", ("p", 0.9, 800.0, 1.0), ("q", 0.1, 200.0, 1.0), copies=EDGE, subscribers=10),
        ),
    )
    assert delivered_utility(problem, greedy(problem).allowed) == pytest.approx(7250.0)
    best = knapsack(problem)
    assert best.optimal
    assert delivered_utility(problem, best.allowed) == pytest.approx(9250.0)
    assert best.allowed["b", "p"] == pytest.approx(750.0)


def two_budgets() -> CongestionProblem:
    """x + y ≤ 100 msg/s at the head, 2·x + y ≤ 150 (copies of one byte) at the edge."""
    return CongestionProblem(
        {"head": matching(100.0), "edge": output(150.0)},
        (
            topic("x", ("p", 0.9, 100.0, 1.0), copies={"head": 1.0, "edge": 2.0}, subscribers=2),
            topic("y", ("p", 1.0, 100.0, 1.0), copies={"head": 1.0, "edge": 1.0}, subscribers=1),
        ),
    )


def test_knapsack_under_two_budgets_at_once() -> None:
    """1.8·x + y is greatest where both budgets bind: x = 50, y = 50."""
    best = knapsack(two_budgets())
    assert best.optimal
    assert best.allowed == {("x", "p"): pytest.approx(50.0), ("y", "p"): pytest.approx(50.0)}


def test_knapsack_beyond_its_size_is_near_the_best_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = tuple(
        topic(
            f"t{number}",
            ("p", (number * 37 % 101) / 101, 10.0 + number % 7, 100.0 + number * 13 % 900),
            copies={"head": 1.0, f"edge-{number % 3}": 1.0 + number % 5},
            subscribers=1 + number % 5,
        )
        for number in range(600)
    )
    budgets = {"head": matching(4000.0)} | {f"edge-{number}": output(1e6) for number in range(3)}
    problem = CongestionProblem(budgets, topics)
    exact = knapsack(problem)
    monkeypatch.setattr(knapsack_module, "MAX_PUBLISHERS", 100)
    monkeypatch.setattr(knapsack_module, "SAMPLE", 100)
    sampled = knapsack(problem)
    assert (exact.optimal, sampled.optimal) == (True, False)
    best = delivered_utility(problem, exact.allowed)
    assert 0.97 * best <= delivered_utility(problem, sampled.allowed) <= best * (1 + 1e-9)
    monkeypatch.setattr(knapsack_module, "MAX_PUBLISHERS", 50_000)
    monkeypatch.setattr(knapsack_module, "MAX_ITERATIONS", 1)
    unsolved = knapsack(problem)
    assert not unsolved.optimal
    least = delivered_utility(problem, greedy(problem).allowed)
    assert least <= delivered_utility(problem, unsolved.allowed) <= best * (1 + 1e-9)


def answer(status: int, parts: list[float]) -> SimpleNamespace:
    return SimpleNamespace(status=status, x=np.array(parts))


def test_budgets_are_kept_even_if_the_solver_is_not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """50.1 of each would be 100.2 messages at the head, and 150.3 bytes at the edge."""
    problem = two_budgets()
    monkeypatch.setattr(knapsack_module, "_solver", lambda program: answer(0, [0.501, 0.501]))
    use = used(problem, knapsack(problem).allowed)
    assert use["head"].matching <= 100.0 * (1 + 1e-12)
    assert use["edge"].output <= 150.0 * (1 + 1e-12)
    assert use["head"].matching == pytest.approx(100.0)


def test_without_a_solution_it_is_never_worse_than_greedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two budgets of equal price hide that wide (10 · 100) is worth more than narrow (6 · 100)."""
    monkeypatch.setattr(knapsack_module, "_solver", lambda program: answer(1, []))
    both = {"one": 1.0, "two": 1.0}
    problem = CongestionProblem(
        {"one": matching(100.0), "two": matching(100.0)},
        (
            topic("wide", ("p", 1.0, 100.0, 1.0), copies=both, subscribers=10),
            topic("narrow", ("p", 0.6, 100.0, 1.0), copies={"one": 1.0}, subscribers=10),
            topic("little", ("p", 0.1, 50.0, 1.0), copies={"two": 1.0}, subscribers=1),
        ),
    )
    selection = knapsack(problem)
    assert selection.allowed == greedy(problem).allowed
    assert delivered_utility(problem, selection.allowed) == pytest.approx(1000.0)
    assert not selection.optimal
