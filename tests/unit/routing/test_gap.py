"""GAP against the thesis's validation network (tests/data/gap_validation.json), and its edges."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mangrove.errors import InputError
from mangrove.routing.network.graph import Graph, make_graph
from mangrove.routing.network.proximity import inner_near_share, near_pairs_per_hop, near_share
from mangrove.routing.network.regions import Region, damage
from mangrove.routing.network.topology import read_topology
from mangrove.routing.paths.gap import GapOptions, alternative_path, separated_paths
from mangrove.routing.paths.path_limits import PathLimits
from mangrove.routing.paths.penalty import Relaxation, penalties
from mangrove.routing.paths.shortest import shortest_path

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data" / "gap_validation.json").read_text())


@pytest.fixture
def network() -> Graph:
    return read_topology({"plane": "euclidean", "nodes": GOLDEN["nodes"], "edges": GOLDEN["edges"]})


def test_validation_network_is_the_published_one(network: Graph) -> None:
    assert network.weights.sum() == pytest.approx(GOLDEN["sum_of_weights"], abs=1e-6)
    primary = shortest_path(network, network.index("s"), network.index("t"))
    assert list(network.named(primary)) == GOLDEN["primary"]


@pytest.mark.parametrize("relaxation", list(Relaxation))
def test_alternative_without_a_delay_limit_is_found_with_the_initial_penalty(
    network: Graph, relaxation: Relaxation
) -> None:
    case = GOLDEN["gap"][0]
    primary = network.indices(GOLDEN["primary"])
    found = alternative_path(network, [primary], GapOptions(case["distance_threshold"], relaxation))
    assert found is not None
    assert list(network.named(found.path)) == case["alternative"]
    assert found.penalty == pytest.approx(GOLDEN["sum_of_weights"], abs=1e-6)
    assert found.penalty_steps == 1


def test_delay_limit_is_met_after_the_first_relaxation(network: Graph) -> None:
    case = GOLDEN["gap"][1]
    primary = network.indices(GOLDEN["primary"])
    options = GapOptions(case["distance_threshold"])
    found = alternative_path(network, [primary], options, PathLimits(max_delay=case["max_delay"]))
    assert found is not None
    assert list(network.named(found.path)) == case["alternative"]
    assert found.penalty == pytest.approx(GOLDEN["sum_of_weights"] / 10, abs=1e-6)
    assert found.penalty_steps == 2


def test_flat_penalty_differs_from_the_scaled_one(network: Graph) -> None:
    """The published second case depends on the scaling: with a flat penalty s-2-t is as near as s-1-t."""
    primary = network.indices(GOLDEN["primary"])
    limit = PathLimits(max_delay=15)
    found = alternative_path(network, [primary], GapOptions(5, scaled=False), limit)
    assert found is not None
    assert found.penalty_steps != 2 or list(network.named(found.path)) != GOLDEN["gap"][1]["alternative"]


def test_survival_table(network: Graph) -> None:
    failures = dict.fromkeys(GOLDEN["failures_of_pairs"], 0)
    for case in GOLDEN["failure_regions"]:
        hit = damage(network, Region.disc(tuple(case["centre"]), case["radius"]))
        broken = {}
        for name, survives in case["survives"].items():
            broken[name] = hit.breaks(network, network.indices(name.split("-")))
            assert broken[name] == (not survives), (case["centre"], name)
        failures["s-1-t alone"] += broken["s-1-t"]
        failures["s-1-t with s-2-t"] += broken["s-1-t"] and broken["s-2-t"]
        failures["s-1-t with s-5-t"] += broken["s-1-t"] and broken["s-5-t"]
    assert failures == GOLDEN["failures_of_pairs"]


def test_edge_crossing_is_an_option(network: Graph) -> None:
    path = network.indices(["s", "5", "t"])
    region = Region.disc((5, 5), 5)
    assert not damage(network, region).breaks(network, path)
    assert damage(network, region, cut_links=True).breaks(network, path)


def test_proximity_readings_are_apart(network: Graph) -> None:
    primary, alternative = network.indices(["s", "1", "t"]), network.indices(["s", "5", "t"])
    assert near_share(network, primary, alternative, 5) == pytest.approx(1.0)  # 1 lies 2.8 from s
    assert inner_near_share(network, primary, alternative, 5) == pytest.approx(2 / 3)
    same = near_pairs_per_hop(network, primary, primary, 100)
    assert same == pytest.approx(9 / 2)  # all nine pairs are near, over two hops: above one


def test_third_path_keeps_apart_from_both(network: Graph) -> None:
    found = separated_paths(network, network.indices(["s", "1", "t"]), 2, GapOptions(5))
    assert [network.named(alternative.path) for alternative in found] == [("s", "5", "t"), ("s", "2", "t")]


def test_all_simple_paths_are_found_when_asked_for_too_many(network: Graph) -> None:
    found = separated_paths(network, network.indices(["s", "1", "t"]), 50, GapOptions(5))
    paths = {alternative.path for alternative in found}
    assert len(paths) == len(found)
    assert network.indices(["s", "1", "t"]) not in paths


def test_alternative_to_any_given_primary(network: Graph) -> None:
    primary = network.indices(["s", "3", "4", "5", "t"])
    found = alternative_path(network, [primary], GapOptions(3))
    assert found is not None
    assert set(found.path) & set(primary) == {network.index("s"), network.index("t")}


def test_direct_link_is_left() -> None:
    """A link between source and destination is near to neither of its ends, and is avoided all the same."""
    graph = make_graph(["a", "b", "c"], [(0, 0), (10, 0), (5, 50)], [(0, 1), (0, 2), (1, 2)])
    found = alternative_path(graph, [(0, 1)], GapOptions(1.0))
    assert found is not None
    assert found.path == (0, 2, 1)


def test_no_alternative_on_a_line() -> None:
    graph = make_graph(["a", "b", "c"], [(0, 0), (1, 0), (2, 0)], [(0, 1), (1, 2)])
    assert alternative_path(graph, [(0, 1, 2)], GapOptions(1.0)) is None


def test_hops_are_limited_exactly() -> None:
    """The far way has few long links, the near way many short ones; only the limit on hops decides."""
    points = [(0, 0), (10, 0), (2, 1), (4, 1), (6, 1), (8, 1), (5, 40)]
    ends = [(0, 1), (0, 2), (2, 3), (3, 4), (4, 5), (1, 5), (0, 6), (1, 6)]
    graph = make_graph([str(i) for i in range(7)], points, ends)
    options = GapOptions(0.5)
    free = alternative_path(graph, [(0, 1)], options)
    assert free is not None
    assert len(free.path) == 6
    short = alternative_path(graph, [(0, 1)], options, PathLimits(max_hops=2))
    assert short is not None
    assert short.path == (0, 6, 1)


def test_delay_limit_that_nothing_meets(network: Graph) -> None:
    primary = network.indices(["s", "1", "t"])
    assert alternative_path(network, [primary], GapOptions(5), PathLimits(max_delay=11.4)) is None
    tight = alternative_path(network, [primary], GapOptions(5), PathLimits(max_delay=11.5))
    assert tight is not None
    assert network.named(tight.path) == ("s", "3", "4", "t")


def test_geographic_separation_in_kilometres() -> None:
    """Lisbon to Helsinki by Paris: the way by London is within 400 km of it, that by Milan not."""
    places = {
        "lisbon": (38.7, -9.1),
        "paris": (48.9, 2.35),
        "london": (51.5, -0.1),
        "milan": (45.5, 9.2),
        "helsinki": (60.2, 24.9),
    }
    names = list(places)
    ends = [(0, 1), (1, 4), (0, 2), (2, 4), (0, 3), (3, 4)]
    from mangrove.routing.network.geography import Plane

    graph = make_graph(names, list(places.values()), ends, plane=Plane.GEO)
    primary = graph.indices(["lisbon", "paris", "helsinki"])
    near = alternative_path(graph, [primary], GapOptions(100))
    far = alternative_path(graph, [primary], GapOptions(400))
    assert near is not None
    assert far is not None
    assert graph.named(near.path)[1] == "london"
    assert graph.named(far.path)[1] == "milan"


def test_relaxations(network: Graph) -> None:
    """W0 / 10^n for gap-div; W0, log W0, log log W0 for gap-log, each until it is negligible."""
    total = float(network.weights.sum())
    divided = list(penalties(network, Relaxation.DIVIDE, 10.0))
    assert divided == pytest.approx([total / 10**n for n in range(len(divided))])
    assert divided[-1] > 1e-3 * total / network.links >= divided[-1] / 10
    logarithms = list(penalties(network, Relaxation.LOGARITHM, 10.0))
    once = math.log(total)
    assert logarithms == pytest.approx([total, once, math.log(once), math.log(math.log(once))])


@pytest.mark.parametrize("separation", [0.0, -1.0, math.inf, math.nan])
def test_bad_separation(separation: float) -> None:
    with pytest.raises(InputError, match="separation"):
        GapOptions(separation)


def test_penalty_is_the_scaled_distance(network: Graph) -> None:
    from mangrove.routing.paths.gap import nearness

    primary = network.indices(["s", "1", "t"])
    share = nearness(network, [primary], GapOptions(5))
    distance = np.hypot(2 - 3, 7 - 3)
    assert share[network.link_of("s", "2")] == pytest.approx((5 - distance) / 5)
    assert share[network.link_of("s", "5")] == 0
    assert share[network.link_of("s", "1")] == 1
