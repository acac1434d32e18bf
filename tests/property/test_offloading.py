"""What holds for every choice of every offloading method."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.offloading import check, problems

from mangrove.control.offloading.drd import drd
from mangrove.control.offloading.drd_optimal import price, price_of, search
from mangrove.control.offloading.priorities import prioritised, ranks
from mangrove.control.offloading.problem import Choice, Problem, cost_at
from mangrove.control.offloading.registry import METHODS
from mangrove.model.agents.load import Amounts, Metric


@pytest.mark.parametrize("name", list(METHODS))
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_room_is_kept_and_no_topic_has_two_targets(name: str, data: st.DataObject) -> None:
    problem = data.draw(problems())
    choice = METHODS[name].choose(problem)
    check(problem, choice)
    assert choice == METHODS[name].choose(problem), "the same question has the same answer"


@settings(max_examples=300, deadline=None)
@given(problem=problems())
def test_drd_never_moves_a_more_urgent_topic_where_a_less_urgent_one_would_do(problem: Problem) -> None:
    """Of one class, what stays though it is less urgent than a whole topic that left had no room beside those
    that went before it, or relieves nothing that they had left over."""
    choice = drd(problem)
    rank = ranks(problem)
    topics = {bundle.topic: bundle for bundle in problem.bundles}
    whole = [move for move in choice.moves if move.whole]
    for count, move in enumerate(whole):
        moved = topics[move.topic]
        before = whole[:count]
        need = {
            metric: amount - sum(one.relief.of(metric) for one in before)
            for metric, amount in problem.need.items()
        }
        for other in problem.bundles:
            less_urgent = rank[other.audience] == rank[moved.audience] and other.deadline_s > moved.deadline_s
            if not less_urgent or any(other.topic == one.topic for one in whole):
                continue
            helps = any(other.load.of(metric) > 0 for metric, left in need.items() if left > 1e-6)
            assert not (helps and _fits_somewhere(problem, other.topic, Choice(tuple(before))))


@settings(max_examples=200, deadline=None)
@given(problem=problems())
def test_drd_stops_as_soon_as_the_need_is_met(problem: Problem) -> None:
    choice = drd(problem)
    if choice.moves:
        all_but_last = choice.moves[:-1]
        assert any(
            amount - sum(move.relief.of(metric) for move in all_but_last) > 0
            for metric, amount in problem.need.items()
        )
    if choice.unmet:
        left = {move.topic for move in choice.moves}
        for bundle in prioritised(problem):
            if bundle.topic not in left and any(bundle.load.of(metric) > 0 for metric in choice.unmet):
                assert not _fits_somewhere(problem, bundle.topic, choice), "more could have gone"


@settings(max_examples=200, deadline=None)
@given(problem=problems())
def test_optimal_is_never_worse_than_drd(problem: Problem) -> None:
    mine, drds = search(problem).choice, drd(problem)
    if not drds.unmet:
        assert not mine.unmet
        assert price_of(problem, mine) <= price_of(problem, drds) * (1 + 1e-9)
    elif mine.unmet:
        assert mine == drds


@settings(max_examples=150, deadline=None)
@given(problem=problems(most=5))
def test_optimal_is_the_best_of_all_covers(problem: Problem) -> None:
    found = search(problem)
    assert found.proven, "so small a problem is searched to its end"
    best = _by_enumeration(problem)
    if best is None:
        assert found.choice == drd(problem)
    else:
        assert not found.choice.unmet
        assert price_of(problem, found.choice) <= best * (1 + 1e-6) + 1e-12


@settings(max_examples=60, deadline=None)
@given(problem=problems(most=10, metrics=(Metric.MATCHING,)), nodes=st.integers(0, 40))
def test_a_search_cut_short_is_still_never_worse_than_drd(problem: Problem, nodes: int) -> None:
    mine, drds = search(problem, nodes).choice, drd(problem)
    check(problem, mine)
    if not drds.unmet:
        assert not mine.unmet
        assert price_of(problem, mine) <= price_of(problem, drds) * (1 + 1e-9)


def _fits_somewhere(problem: Problem, topic: str, beside: Choice) -> bool:
    bundle = next(one for one in problem.bundles if one.topic == topic)
    for acceptor in problem.acceptors:
        room = acceptor.room
        for move in beside.moves:
            if move.to == acceptor:
                room = room.minus(move.cost)
        if cost_at(acceptor, bundle).plus(Amounts(1e-6, 1e-6, 1e-6)).fits(room):
            return True
    return False


def _by_enumeration(problem: Problem) -> float | None:
    """The least price over every assignment of every topic to nowhere or to an acceptor."""
    best: float | None = None
    for targets in product((None, *problem.acceptors), repeat=len(problem.bundles)):
        rooms = {acceptor.broker: acceptor.room for acceptor in problem.acceptors}
        need = dict(problem.need)
        total = 0.0
        for bundle, acceptor in zip(problem.bundles, targets, strict=True):
            if acceptor is None:
                continue
            rooms[acceptor.broker] = rooms[acceptor.broker].minus(cost_at(acceptor, bundle))
            total += price(bundle)
            for metric in need:
                need[metric] -= bundle.load.of(metric)
        packed = all(min(room) >= 0 for room in rooms.values())
        met = all(left <= 0 for left in need.values())
        if packed and met and (best is None or total < best):
            best = total
    return best
