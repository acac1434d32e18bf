"""Which pairs a disaster cuts, with and without alternatives."""

from __future__ import annotations

from mangrove.routing.network.graph import Graph, make_graph
from mangrove.routing.network.regions import Region
from mangrove.routing.paths.disaster import Fate, all_pairs, assess
from mangrove.routing.paths.planner import PathRequest


def two_ways() -> Graph:
    """West and east joined by a short way through the middle and a long way through the north."""
    return make_graph(
        ["west", "middle", "east", "north", "stub"],
        [(0, 0), (5, 0), (10, 0), (5, 8), (5, -1)],
        [(0, 1), (1, 2), (0, 3), (2, 3), (1, 4)],
    )


def test_fates() -> None:
    graph = two_ways()
    report = assess(graph, Region.disc((5, 0), 0.5), all_pairs(graph), PathRequest(separation=3.0))
    fates = {frozenset(graph.named(entry.pair)): entry.fate for entry in report.fates}
    assert fates[frozenset(("west", "east"))] is Fate.SAVED
    assert fates[frozenset(("west", "stub"))] is Fate.CUT_OFF
    assert fates[frozenset(("west", "middle"))] is Fate.STRUCK
    assert frozenset(("west", "north")) not in fates
    assert report.pairs == 10
    assert report.lost_before == 8
    assert report.lost_after == 7


def test_a_way_exists_that_the_alternatives_do_not_use() -> None:
    """Both planned paths run through the region; a third way is there, but was not asked for."""
    graph = make_graph(
        ["s", "a", "b", "c", "t"],
        [(0, 0), (5, 1), (5, -1), (5, 40), (10, 0)],
        [(0, 1), (1, 4), (0, 2), (2, 4), (0, 3), (3, 4)],
    )
    near = PathRequest(separation=0.1)
    region = Region.disc((5, 0), 2)
    pair = [(0, 4)]
    assert assess(graph, region, pair, near).fates[0].fate is Fate.LOST
    assert assess(graph, region, pair, PathRequest(separation=5.0)).fates[0].fate is Fate.SAVED
    assert assess(graph, region, pair, PathRequest(separation=0.1, paths=3)).fates[0].fate is Fate.SAVED


def test_cable_cut_takes_links_only_when_asked() -> None:
    graph = two_ways()
    cut = Region(((2.5, -1.0), (2.5, 1.0)), 0.1)
    pair = [(0, 2)]
    request = PathRequest(separation=3.0)
    assert assess(graph, cut, pair, request).fates == ()
    assert assess(graph, cut, pair, request, cut_links=True).fates[0].fate is Fate.SAVED


def test_unconnected_pairs_are_told_apart() -> None:
    graph = make_graph(list("abc"), [(0, 0), (1, 0), (9, 9)], [(0, 1)])
    report = assess(graph, Region.disc((50, 50), 1), all_pairs(graph), PathRequest(separation=1.0))
    assert [entry.fate for entry in report.fates] == [Fate.UNCONNECTED, Fate.UNCONNECTED]
