"""Latency budgets, equations 1 to 3 of Harmony by hand."""

from __future__ import annotations

import pytest

from mangrove.errors import InputError
from mangrove.routing.paths.budgets import TopicRoute, allocate_budgets


def test_margins() -> None:
    route = TopicRoute("alert", 150.0, (20.0, 30.0, 10.0))
    assert route.margin_ms == 90.0
    assert route.hop_margin_ms == 30.0


def test_budgets_follow_the_tightest_margin() -> None:
    routes = [
        TopicRoute("sensor", 500.0, (20.0, 30.0)),  # 225 a hop
        TopicRoute("alert", 150.0, (20.0, 30.0, 10.0)),  # 30 a hop
        TopicRoute("market", 100.0, (40.0,)),  # 60 a hop
    ]
    budgets = allocate_budgets(routes, step_ms=2.0)
    assert [(b.topic, b.order, b.budget_ms) for b in budgets] == [
        ("alert", 1, 32.0),
        ("market", 2, 34.0),
        ("sensor", 3, 36.0),
    ]
    assert not any(budget.late for budget in budgets)


def test_late_topic_comes_first_and_no_budget_is_negative() -> None:
    budgets = allocate_budgets([TopicRoute("a", 100.0, (10.0,)), TopicRoute("b", 50.0, (80.0,))])
    assert budgets[0].topic == "b"
    assert budgets[0].late
    assert budgets[0].budget_ms == 1.0


def test_equal_margins_are_ordered_by_name() -> None:
    routes = [TopicRoute(name, 10.0, (1.0,)) for name in ("z", "a", "m")]
    assert [budget.topic for budget in allocate_budgets(routes)] == ["a", "m", "z"]


def test_bad_input() -> None:
    assert allocate_budgets([]) == []
    with pytest.raises(InputError):
        TopicRoute("a", 10.0, ())
    with pytest.raises(InputError):
        allocate_budgets([], step_ms=0)
