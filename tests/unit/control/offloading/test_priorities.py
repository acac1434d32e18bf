"""Tables 4-5 and 4-7, written out once more and compared for every permutation of classes and deadlines."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from tests.kit.offloading import bundle, problem

from mangrove.control.offloading.priorities import prioritised, worst_metric
from mangrove.control.offloading.problem import Audience, Bundle, Scope
from mangrove.model.agents.load import Amounts, Metric

NEED = {Metric.INPUT: 1e4, Metric.OUTPUT: 1e4, Metric.MATCHING: 10.0}
R, L, B, N = Audience.REMOTE, Audience.LOCAL, Audience.BOTH, Audience.NONE

TABLE_4_5 = [
    (Metric.INPUT, [N, R, B, L]),
    (Metric.OUTPUT, [R, B, L, N]),
]
TABLE_4_7_NEIGHBOURS = [R, B, L, N]


def order(bundles: tuple[Bundle, ...], metric: Metric, *, publishers: bool, scope: Scope) -> list[str]:
    given = problem(bundles, (), {metric: NEED[metric]}, publishers=publishers, scope=scope)
    return [one.topic for one in prioritised(given)]


@pytest.mark.parametrize(("metric", "row"), TABLE_4_5)
def test_publishers_of_a_head_leave_by_table_4_5(metric: Metric, row: list[Audience]) -> None:
    bundles = [bundle(audience.value, 5.0, audience=audience) for audience in Audience]
    for permuted in permutations(bundles):
        names = order(tuple(permuted), metric, publishers=True, scope=Scope.NEIGHBOURS)
        assert names == [audience.value for audience in row]


@pytest.mark.parametrize("metric", list(Metric))
def test_subscribers_go_to_neighbours_by_table_4_7(metric: Metric) -> None:
    bundles = [bundle(audience.value, 5.0, audience=audience) for audience in Audience]
    for permuted in permutations(bundles):
        names = order(tuple(permuted), metric, publishers=False, scope=Scope.NEIGHBOURS)
        assert names == [audience.value for audience in TABLE_4_7_NEIGHBOURS]


@pytest.mark.parametrize("metric", list(Metric))
def test_within_a_domain_all_subscribers_with_publishers_are_one_class(metric: Metric) -> None:
    for deadlines in permutations((1.0, 10.0, 20.0, 50.0)):
        bundles = tuple(
            bundle(audience.value, deadline, audience=audience)
            for audience, deadline in zip(Audience, deadlines, strict=True)
        )
        names = order(bundles, metric, publishers=False, scope=Scope.DOMAIN)
        assert names[-1] == N.value, "without publishers last, whatever the deadline"
        by_deadline = sorted(bundles, key=lambda one: -one.deadline_s)
        assert names[:-1] == [one.topic for one in by_deadline if one.audience is not N]


@pytest.mark.parametrize(
    ("metric", "publishers", "scope", "row"),
    [(metric, True, Scope.NEIGHBOURS, row) for metric, row in TABLE_4_5]
    + [(metric, False, Scope.NEIGHBOURS, TABLE_4_7_NEIGHBOURS) for metric in Metric],
)
def test_class_counts_before_deadline_and_deadline_before_relief(
    metric: Metric, publishers: bool, scope: Scope, row: list[Audience]
) -> None:
    bundles = [
        bundle(f"{audience.value} {deadline} {rate}", deadline, rate, audience=audience)
        for audience, deadline, rate in product(Audience, (1.0, 7.0, 50.0), (10.0, 90.0))
    ]
    expected = [
        f"{audience.value} {deadline} {rate}"
        for audience, deadline, rate in product(row, (50.0, 7.0, 1.0), (90.0, 10.0))
    ]
    for turned in (bundles, bundles[::-1], bundles[7:] + bundles[:7]):
        assert order(tuple(turned), metric, publishers=publishers, scope=scope) == expected


def test_what_relieves_nothing_is_left_out() -> None:
    silent = bundle("silent", 50.0, 0.0)
    useful = bundle("useful", 1.0, 10.0)
    assert order((silent, useful), Metric.MATCHING, publishers=False, scope=Scope.DOMAIN) == ["useful"]


def test_no_deadline_is_the_most_tolerant_and_names_settle_ties() -> None:
    bundles = (bundle("b", float("inf")), bundle("a", float("inf")), bundle("c", 50.0))
    assert order(bundles, Metric.MATCHING, publishers=False, scope=Scope.DOMAIN) == ["a", "b", "c"]


def test_the_worst_of_several_metrics_names_the_row() -> None:
    bundles = tuple(bundle(audience.value, 5.0, audience=audience) for audience in Audience)
    more_input = problem(
        bundles,
        (),
        {Metric.OUTPUT: 10e6, Metric.INPUT: 20e6},
        publishers=True,
        scope=Scope.NEIGHBOURS,
    )
    assert worst_metric(more_input) is Metric.INPUT
    assert [one.audience for one in prioritised(more_input)] == [N, R, B, L]
    more_output = problem(
        bundles,
        (),
        {Metric.OUTPUT: 20e6, Metric.INPUT: 10e6},
        publishers=True,
        scope=Scope.NEIGHBOURS,
    )
    assert [one.audience for one in prioritised(more_output)] == [R, B, L, N]


def test_equal_shares_count_input_before_output_before_matching() -> None:
    need = {Metric.MATCHING: 250.0, Metric.OUTPUT: 1.25e6, Metric.INPUT: 1.25e6}
    given = problem((bundle("a"),), (), need)
    assert worst_metric(given) is Metric.INPUT
    assert given.capacity == Amounts(125e6, 125e6, 25_000.0)
