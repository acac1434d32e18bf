"""What each method chooses in small cases worked out by hand."""

from __future__ import annotations

import pytest
from tests.kit.offloading import acceptor, bundle, check, problem

from mangrove.control.offloading.drd import drd
from mangrove.control.offloading.drd_optimal import drd_optimal, price_of, search
from mangrove.control.offloading.peer import peer
from mangrove.control.offloading.peer_drd import peer_drd
from mangrove.control.offloading.problem import Acceptor, Choice
from mangrove.control.offloading.registry import METHODS, method_named
from mangrove.control.offloading.trigger import StartedBy
from mangrove.errors import InputError
from mangrove.model.agents.load import Amounts, Metric


def moves(choice: Choice) -> list[tuple[str, str]]:
    return [(move.topic, move.to.broker) for move in choice.moves]


def test_drd_moves_the_least_urgent_until_the_need_is_met() -> None:
    bundles = (bundle("urgent", 1.0, 900.0), bundle("mid", 20.0, 200.0), bundle("calm", 50.0, 100.0))
    given = problem(bundles, (acceptor("e1", 5000.0), acceptor("e2", 9000.0)), {Metric.MATCHING: 250.0})
    choice = drd(given)
    check(given, choice)
    assert moves(choice) == [("calm", "e2"), ("mid", "e2")]
    assert not choice.unmet
    assert "deadline 50 s" in choice.moves[0].why
    assert "e2" in choice.moves[0].why


def test_drd_sends_a_partial_list_and_says_what_is_left() -> None:
    given = problem((bundle("a", 5.0, 300.0),), (acceptor("e1", 5000.0),), {Metric.MATCHING: 1000.0})
    choice = drd(given)
    assert moves(choice) == [("a", "e1")]
    assert choice.unmet == {Metric.MATCHING: pytest.approx(700.0)}


def test_drd_takes_the_second_acceptor_rather_than_a_more_urgent_topic() -> None:
    small = Acceptor("e1", "home", Amounts(125e6, 125e6, 150.0), 0.5)
    large = Acceptor("e2", "home", Amounts(125e6, 125e6, 900.0), 0.1)
    bundles = (bundle("calm", 50.0, 200.0), bundle("urgent", 1.0, 100.0))
    given = problem(bundles, (small, large), {Metric.MATCHING: 100.0})
    assert moves(drd(given)) == [("calm", "e2")]


def test_drd_counts_the_need_by_metric_and_by_what_the_source_is_rid_of() -> None:
    hosted = bundle("hosted", 50.0, 400.0)
    given = problem(
        (hosted, bundle("other", 10.0, 400.0)),
        (acceptor("e1", 100.0, topics=frozenset({"hosted"})),),
        {Metric.MATCHING: 300.0},
    )
    choice = drd(given)
    assert moves(choice) == [("hosted", "e1")], "an acceptor that serves the topic pays output alone"
    assert choice.moves[0].cost == Amounts(0.0, hosted.output, 0.0)
    assert choice.moves[0].relief == hosted.load
    assert not choice.unmet


def test_drd_goes_on_for_the_second_metric_with_topics_that_relieve_it() -> None:
    chatty = bundle("chatty", 50.0, 1000.0, size_bytes=1.0)
    quiet = bundle("quiet", 40.0, 1.0, size_bytes=2e6, subscribers=1)
    useless = bundle("useless", 45.0, 500.0, size_bytes=0.0)
    given = problem(
        (chatty, quiet, useless),
        (acceptor("e1", 5000.0),),
        {Metric.MATCHING: 900.0, Metric.OUTPUT: 1e6},
    )
    choice = drd(given)
    check(given, choice)
    assert [move.topic for move in choice.moves] == ["chatty", "quiet"]


def test_single_subscribers_move_only_for_output_and_when_bundles_do_not_suffice() -> None:
    wide = bundle("wide", 50.0, 100.0, subscribers=4)  # 50 kB/s each
    room = Acceptor("e1", "home", Amounts(1e6, 120e3, 1000.0), 0.5)
    for metric, expected in ((Metric.OUTPUT, 2), (Metric.MATCHING, 0), (Metric.INPUT, 0)):
        given = problem((wide,), (room,), {metric: 80e3 if metric is Metric.OUTPUT else 50.0})
        choice = drd(given)
        check(given, choice)
        assert sum(len(move.members) for move in choice.moves) == expected
        assert all(not move.whole for move in choice.moves)
    given = problem((wide,), (acceptor("e1", 1000.0),), {Metric.OUTPUT: 80e3})
    assert [move.whole for move in drd(given).moves] == [True], "bundles are moved together where they fit"


def test_single_subscribers_of_a_topic_go_where_most_of_them_fit() -> None:
    wide = bundle("wide", 50.0, 100.0, subscribers=6)
    first = Acceptor("e1", "home", Amounts(1e6, 60e3, 1000.0), 0.9)
    second = Acceptor("e2", "home", Amounts(1e6, 160e3, 1000.0), 0.5)
    given = problem((wide,), (first, second), {Metric.OUTPUT: 140e3})
    choice = drd(given)
    check(given, choice)
    assert [(move.to.broker, len(move.members)) for move in choice.moves] == [("e2", 3)]


def test_publishers_never_move_one_by_one() -> None:
    wide = bundle("wide", 50.0, 100.0, subscribers=4)
    room = Acceptor("h2", "away", Amounts(1e6, 120e3, 1000.0), 0.5)
    assert not drd(problem((wide,), (room,), {Metric.OUTPUT: 80e3}, publishers=True)).moves


def test_optimal_moves_fewer_subscribers_where_drd_moves_the_most_tolerant() -> None:
    crowd = bundle("crowd", 50.0, 500.0, subscribers=100)
    few = bundle("few", 20.0, 500.0, subscribers=1)
    given = problem((crowd, few), (acceptor("e1", 5000.0),), {Metric.MATCHING: 400.0})
    assert moves(drd(given)) == [("crowd", "e1")]
    best = search(given)
    assert moves(best.choice) == [("few", "e1")]
    assert best.proven
    assert price_of(given, best.choice) == pytest.approx(0.05)


def test_optimal_finds_the_packing_that_first_fit_misses() -> None:
    first = Acceptor("e1", "home", Amounts(125e6, 125e6, 500.0), 0.9)
    second = Acceptor("e2", "home", Amounts(125e6, 125e6, 300.0), 0.1)
    bundles = (bundle("a", 50.0, 300.0), bundle("b", 40.0, 500.0))
    given = problem(bundles, (first, second), {Metric.MATCHING: 800.0})
    assert drd(given).unmet
    choice = drd_optimal(given)
    check(given, choice)
    assert sorted(moves(choice)) == [("a", "e2"), ("b", "e1")]
    assert not choice.unmet


def test_peer_moves_the_largest_that_fits_and_looks_at_no_deadline() -> None:
    bundles = (bundle("urgent", 1.0, 900.0), bundle("calm", 50.0, 300.0), bundle("huge", 50.0, 2000.0))
    given = problem(bundles, (acceptor("e1", 1200.0),), {Metric.MATCHING: 700.0})
    assert moves(peer(given)) == [("urgent", "e1")]
    assert moves(peer_drd(given)) == [("calm", "e1"), ("urgent", "e1")]


def test_peer_prefers_what_the_acceptor_serves_already() -> None:
    bundles = (bundle("large", 1.0, 900.0), bundle("served", 1.0, 300.0))
    given = problem(
        bundles, (acceptor("e1", 5000.0, topics=frozenset({"served"})),), {Metric.MATCHING: 200.0}
    )
    assert moves(peer(given)) == [("served", "e1")]


@pytest.mark.parametrize("name", list(METHODS))
def test_without_a_need_or_an_acceptor_nothing_moves(name: str) -> None:
    choose = METHODS[name].choose
    assert choose(problem((bundle("a"),), (acceptor("e1", 1000.0),), {})) == Choice(())
    alone = choose(problem((bundle("a"),), (), {Metric.MATCHING: 10.0}))
    assert not alone.moves
    assert alone.unmet == {Metric.MATCHING: 10.0}


def test_the_registry_knows_what_starts_each_method() -> None:
    assert {name: one.started_by for name, one in METHODS.items()} == {
        "drd": StartedBy.OVERLOAD,
        "drd-optimal": StartedBy.OVERLOAD,
        "peer": StartedBy.IMBALANCE,
        "peer-drd": StartedBy.IMBALANCE,
    }
    with pytest.raises(InputError, match="no offloading method 'best'"):
        method_named("best")
