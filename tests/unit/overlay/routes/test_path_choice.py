"""Which paths a contract gets, and what yields when not all that it asks can be had."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.model.federation import Domain, Federation, Link, Region
from mangrove.model.questions.endangered import AvoidRequest
from mangrove.model.status import Requirement, share
from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.network.failure_estimates import FailureEstimates
from mangrove.overlay.network.link_loads import LinkLoads, capacities
from mangrove.overlay.network.link_state import LinkMeasurements
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.protocol.control_messages import SiteReport
from mangrove.overlay.routes.path_choice import Choice, choose_paths, judged
from mangrove.overlay.routes.path_view import PathView, SitePath
from mangrove.routing.paths.resilience import with_ends_up

# Three ways from s to t: through n in the north, straight through m, through two sites in the south.
PLACES = {
    "s": (0.0, 0.0),
    "t": (0.0, 20.0),
    "m": (0.5, 10.0),
    "n": (8.0, 10.0),
    "p": (-8.0, 7.0),
    "q": (-8.0, 13.0),
}
DELAYS = {"sm": 5.0, "mt": 5.0, "sn": 8.0, "nt": 8.0, "sp": 7.0, "pq": 6.0, "qt": 7.0}


def network(**failure: float) -> Federation:
    return Federation(
        name="three ways",
        domains={
            name: Domain(name=name, base_port=1, location=place, failure_probability=failure.get(name, 0.001))
            for name, place in PLACES.items()
        },
        links=tuple(
            Link(
                between=(pair[0], pair[1]),
                delay_ms=delay,
                failure_probability=failure.get(pair, 0.01),
                bandwidth_mbps=100,
            )
            for pair, delay in DELAYS.items()
        ),
    )


def seen(
    contract: Contract,
    federation: Federation | None = None,
    *,
    failed: frozenset[tuple[str, str]] = frozenset(),
    load: dict[tuple[str, str], float] | None = None,
    regions: dict[str, Region] | None = None,
    others: dict[str, list[SitePath]] | None = None,
) -> PathView:
    shape = federation or network()
    live = LiveMap(shape, "s")
    live.update(failed, live.measured)
    graph = FailureEstimates(shape).on(live.live_graph(), 0.0)
    return PathView(
        live=live,
        graph=with_ends_up(graph, graph.index("s"), graph.index("t")),
        contract=contract,
        topic_class=0,
        source="s",
        destination="t",
        rate_mbps=contract.rate_mbps or 0.0,
        loads=LinkLoads(capacities(shape, live.measured), load or {}),
        regions=regions or {},
        others=others or {},
    )


MIDDLE, NORTH, SOUTH = ("s", "m", "t"), ("s", "n", "t"), ("s", "p", "q", "t")
ONE = 0.99 * 0.99 * 0.999
"""Probability that the middle way, or the northern one, is up."""


def given_by(choice: Choice, name: str) -> float | None:
    return next(each.achieved for each in choice.requirements if each.name == name)


@pytest.mark.parametrize(
    ("resiliency", "paths"),
    [(0.97, {MIDDLE}), (0.979, {MIDDLE}), (0.999, {MIDDLE, NORTH}), (0.99995, {MIDDLE, NORTH, SOUTH})],
)
def test_the_fewest_paths_that_are_probable_enough(resiliency: float, paths: set[SitePath]) -> None:
    choice = choose_paths(seen(Contract(match="x", resiliency=resiliency)))
    assert set(choice.paths) == paths
    assert not choice.unmet
    promised = next(each for each in choice.requirements if each.name == "resiliency")
    assert promised.asked == resiliency <= (promised.achieved or 0)


def test_the_best_there_is_when_it_is_not_enough() -> None:
    choice = choose_paths(seen(Contract(match="x", resiliency=0.9999, max_paths=2)))
    assert set(choice.paths) == {MIDDLE, NORTH}
    assert given_by(choice, "resiliency") == pytest.approx(1 - (1 - ONE) ** 2)
    assert choice.unmet == "a path is up with probability 0.99956, 0.9999 is promised"


def test_a_site_that_fails_often_is_avoided_as_a_link_is() -> None:
    for weak in ({"m": 0.2}, {"sm": 0.2}):
        choice = choose_paths(seen(Contract(match="x", resiliency=0.999), network(**weak)))
        assert set(choice.paths) == {NORTH, SOUTH}
    ends = network(s=0.5, t=0.5)
    assert len(choose_paths(seen(Contract(match="x", resiliency=0.999), ends)).paths) == 2, (
        "ends do not count"
    )


def test_only_paths_within_deadline_and_hops_count() -> None:
    view = seen(Contract(match="x", resiliency=0.99995, deadline_ms=17))
    choice = choose_paths(view)
    assert set(choice.paths) == {MIDDLE, NORTH}
    assert [each.name for each in choice.requirements if not each.met] == ["resiliency"]
    assert set(choose_paths(seen(Contract(match="x", paths=3, max_hops=2))).paths) == {MIDDLE, NORTH}


def test_time_inside_the_ends_counts_against_the_deadline() -> None:
    view = seen(Contract(match="x", paths=2, deadline_ms=18))
    assert set(choose_paths(view).paths) == {MIDDLE, NORTH}
    inside = {"s": SiteReport(ingress_ms=2.0), "t": SiteReport(egress_ms=3.0)}
    view.live.update(frozenset(), LinkMeasurements(sites=inside))
    choice = choose_paths(view)
    assert choice.paths == (MIDDLE,)
    assert (given_by(choice, "deadline_ms"), given_by(choice, "paths")) == (15.0, 1)
    view.live.update(frozenset(), LinkMeasurements(sites={"s": SiteReport(ingress_ms=20.0)}))
    assert "best achievable delay is 30.0 ms, the deadline 18 ms" in choose_paths(view).unmet


def test_hops_yield_before_the_deadline() -> None:
    gone = frozenset({("m", "s"), ("n", "s")})
    choice = choose_paths(seen(Contract(match="x", deadline_ms=25, max_hops=2), failed=gone))
    assert choice.paths == (SOUTH,)
    assert [(each.name, each.achieved) for each in choice.requirements if not each.met] == [("max_hops", 3)]
    both = choose_paths(seen(Contract(match="x", deadline_ms=15, max_hops=2), failed=gone))
    assert both.unmet == (
        "best achievable delay is 20.0 ms, the deadline 15 ms; the path has 3 hops, 2 are allowed"
    )


def test_a_separation_that_is_missed_is_told_with_what_is_achieved() -> None:
    far = choose_paths(seen(Contract(match="x", paths=2, separation_km=1500)))
    assert set(far.paths) == {NORTH, SOUTH}
    assert not far.unmet
    gone = frozenset({("n", "s")})
    near = choose_paths(seen(Contract(match="x", paths=2, separation_km=1500), failed=gone))
    assert set(near.paths) == {MIDDLE, SOUTH}
    assert 900 < (given_by(near, "separation_km") or 0) < 1000
    assert "km apart, 1500 km are asked for" in near.unmet
    assert far.better_than(near)
    assert not near.better_than(far)


def test_the_largest_separation_with_which_the_resiliency_is_kept() -> None:
    """Middle and south would do, and are farther apart than middle and north: but no two reach 1500 km."""
    gone = network()
    contract = Contract(match="x", resiliency=0.999, max_paths=2, separation_km=900)
    choice = choose_paths(seen(contract, gone))
    assert not choice.unmet
    assert (given_by(choice, "separation_km") or 0) >= 900
    much = choose_paths(seen(Contract(match="x", resiliency=0.999, max_paths=2, separation_km=5000), gone))
    assert set(much.paths) == {NORTH, SOUTH}, "the farthest pair, though it is not far enough"


def test_one_path_keeps_away_from_a_region() -> None:
    regions = {"storm": Region(centre=(0.0, 10.0), radius_km=200)}
    contract = Contract(match="x", separation_km=300, apart_from=("storm",))
    choice = choose_paths(seen(contract, regions=regions))
    assert choice.paths == (NORTH,)
    assert not choice.unmet
    wide = {"storm": Region(centre=(0.0, 10.0), radius_km=800)}
    missed = choose_paths(seen(contract, regions=wide))
    assert missed.paths in ((NORTH,), (SOUTH,)), "as far as can be"
    assert "km apart from storm, 300 km are asked for" in missed.unmet
    inside = {"storm": Region(centre=(0.0, 0.0), radius_km=100)}
    at_home = choose_paths(seen(contract, regions=inside))
    assert at_home.paths == (MIDDLE,), "the source itself is inside: every path is as good"
    assert given_by(at_home, "separation_km") == 0


def test_one_path_keeps_away_from_another_topics() -> None:
    contract = Contract(match="x", separation_km=300, apart_from=("y",))
    assert choose_paths(seen(contract, others={"y": [MIDDLE]})).paths == (NORTH,)
    assert choose_paths(seen(contract, others={"y": [MIDDLE, NORTH]})).paths == (SOUTH,)
    assert choose_paths(seen(contract, others={"y": []})).paths == (MIDDLE,)
    nowhere = choose_paths(seen(contract, others={"y": [MIDDLE, NORTH, SOUTH]}))
    assert "0 km apart from y" in nowhere.unmet


def test_a_full_link_is_left_alone_if_there_is_another() -> None:
    contract = Contract(match="x", rate_mbps=30)
    assert choose_paths(seen(contract)).paths == (MIDDLE,)
    assert choose_paths(seen(contract, load={("m", "t"): 70})).paths == (NORTH,)
    assert choose_paths(seen(contract, load={("t", "m"): 70})).paths == (MIDDLE,), "the other direction"
    all_full = choose_paths(seen(contract, load={("m", "t"): 80, ("n", "t"): 75, ("q", "t"): 85}))
    assert "Mbit/s are free on the way, 30 Mbit/s are needed" in all_full.unmet
    assert [each.name for each in all_full.requirements if not each.met] == ["rate_mbps"]


def test_the_rate_yields_before_separation_and_resiliency() -> None:
    full = {("n", "t"): 95.0}
    contract = Contract(match="x", resiliency=0.99995, rate_mbps=10)
    choice = choose_paths(seen(contract, load=full))
    assert len(choice.paths) == 3
    assert [each.name for each in choice.requirements if not each.met] == ["rate_mbps"]


def test_what_is_in_use_stays_if_it_serves_as_well() -> None:
    contract = Contract(match="x", resiliency=0.999)
    assert set(choose_paths(seen(contract)).paths) == {MIDDLE, NORTH}
    assert set(choose_paths(seen(contract), [SOUTH]).paths) == {MIDDLE, SOUTH}


def test_no_way_is_told() -> None:
    cut = frozenset({("m", "s"), ("n", "s"), ("p", "s")})
    choice = choose_paths(seen(Contract(match="x", resiliency=0.99, deadline_ms=50), failed=cut))
    assert choice.paths == ()
    assert "there is no path to the destination" in choice.unmet


def test_probabilities_are_written_with_the_digits_that_matter() -> None:
    assert [share(value) for value in (0.5, 0.999, 0.99993, 0.9999999, 1.0)] == [
        "0.5",
        "0.999",
        "0.99993",
        "0.9999999",
        "1.0",
    ]


def test_missing_less_of_what_matters_more_is_better() -> None:
    def choice(**given: float) -> Choice:
        asked = {"deadline_ms": 10.0, "resiliency": 0.999, "separation_km": 100.0}
        found = (Requirement(name=key, asked=asked[key], achieved=value) for key, value in given.items())
        return Choice((), tuple(found))

    all_well = choice(deadline_ms=9, resiliency=0.9995, separation_km=200)
    near = choice(deadline_ms=9, resiliency=0.9995, separation_km=50)
    nearer = choice(deadline_ms=9, resiliency=0.9995, separation_km=10)
    hardly = choice(deadline_ms=9, resiliency=0.9995, separation_km=48)
    weak = choice(deadline_ms=9, resiliency=0.99, separation_km=200)
    late = choice(deadline_ms=11, resiliency=0.9999, separation_km=200)
    ranked = [all_well, near, nearer, weak, late]
    for place, better in enumerate(ranked):
        for worse in ranked[place + 1 :]:
            assert better.better_than(worse)
            assert not worse.better_than(better)
    assert not near.better_than(hardly)
    assert not hardly.better_than(near)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.9, 0.99999),
    st.integers(1, 4),
    st.sampled_from([None, 12.0, 17.0, 25.0]),
    st.sampled_from([None, 2, 3]),
    st.sampled_from([0.0, 400.0, 1500.0]),
    st.sampled_from([None, 20.0]),
    st.sets(st.sampled_from(sorted(tuple(sorted(pair)) for pair in DELAYS)), max_size=3),
)
def test_what_is_claimed_is_so(
    resiliency: float,
    max_paths: int,
    deadline_ms: float | None,
    max_hops: int | None,
    separation_km: float,
    rate_mbps: float | None,
    failed: set[tuple[str, str]],
) -> None:
    contract = Contract(
        match="x",
        resiliency=resiliency,
        max_paths=max_paths,
        deadline_ms=deadline_ms,
        max_hops=max_hops,
        separation_km=separation_km,
        rate_mbps=rate_mbps,
    )
    view = seen(contract, failed=frozenset(failed), load={("m", "t"): 80.0})
    choice = choose_paths(view)
    assert choice == judged(view, choice.paths)
    assert len(choice.paths) <= max_paths
    assert len(set(choice.paths)) == len(choice.paths)
    for path in choice.paths:
        assert (path[0], path[-1]) == ("s", "t")
    again = choose_paths(view, choice.paths)
    assert not again.better_than(choice)
    assert not choice.better_than(again)


def endanger(view: PathView, *sites: str) -> None:
    for site in sites:
        request = AvoidRequest(name=site, centre=PLACES[site], radius_km=50.0)
        view.live.dangers.declare(request, 0.0, "")


def test_another_contract_may_not_leave_an_endangered_region_that_this_one_cannot_leave_either() -> None:
    contract = Contract(match="x", separation_km=300, apart_from=("y",), deadline_ms=12)
    view = seen(contract, others={"y": [MIDDLE]})
    endanger(view, "m")
    choice = choose_paths(view)
    assert choice.paths == (MIDDLE,)
    assert {each.name for each in choice.requirements if not each.met} == {"outside", "separation_km"}
    around = choose_paths(view.around())
    assert around.paths == (NORTH,), "too late, but a way"


def test_another_contracts_path_is_kept_away_from_although_it_leads_through_an_endangered_region() -> None:
    """The way around that is shortest leads near to it; one that leads farther away is taken."""
    shape = network()
    near = Domain(name="k", base_port=1, location=(3.0, 10.0), failure_probability=0.001)
    links = [
        Link(between=pair, delay_ms=9.0, failure_probability=0.01, bandwidth_mbps=100)
        for pair in (("s", "k"), ("k", "t"))
    ]
    shape = msgspec.structs.replace(shape, domains={**shape.domains, "k": near}, links=(*shape.links, *links))
    contract = Contract(match="x", separation_km=500, apart_from=("y",))
    view = seen(contract, shape, others={"y": [MIDDLE]})
    assert choose_paths(view).paths == (NORTH,)
    endanger(view, "m", "n")
    choice = choose_paths(view)
    assert choice.paths == (SOUTH,)
    assert not choice.unmet


def test_no_location_no_distance() -> None:
    shape = network()
    domains = {name: msgspec.structs.replace(site, location=None) for name, site in shape.domains.items()}
    nowhere = msgspec.structs.replace(shape, domains=domains, topics=TopicRules())
    choice = choose_paths(seen(Contract(match="x", paths=2, separation_km=100), nowhere))
    assert set(choice.paths) == {MIDDLE, NORTH}
    assert not choice.unmet
