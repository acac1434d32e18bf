"""Paths outside an endangered region are taken whenever the contract allows for them, and only then."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.errors import InputError
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.questions.endangered import AvoidRequest
from mangrove.model.topics import Contract
from mangrove.overlay.network.failure_estimates import FailureEstimates
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.routes.path_choice import choose_paths
from mangrove.overlay.routes.path_pool import shared
from mangrove.overlay.routes.path_view import PathView, SitePath
from mangrove.routing.paths.resilience import with_ends_up

NAMES = "stabcd"
spots = st.tuples(st.floats(-20, 20), st.floats(-20, 20))


@st.composite
def networks(draw: st.DrawFn) -> Federation:
    every = list(itertools.combinations(NAMES, 2))
    links = draw(st.sets(st.sampled_from(every), min_size=5, max_size=11))
    return Federation(
        name="random",
        domains={name: Domain(name=name, base_port=1, location=draw(spots)) for name in NAMES},
        links=tuple(
            Link(
                between=pair,
                delay_ms=float(draw(st.integers(1, 20))),
                via=tuple(draw(st.lists(spots, max_size=1))),
            )
            for pair in sorted(links)
        ),
    )


def every_path(federation: Federation) -> Iterator[SitePath]:
    """All paths from s to t without a circle."""

    def walk(path: SitePath) -> Iterator[SitePath]:
        if path[-1] == "t":
            yield path
            return
        for link in federation.links_of(path[-1]):
            following = link.other(path[-1])
            if following not in path:
                yield from walk((*path, following))

    return walk(("s",))


def seen(
    federation: Federation,
    contract: Contract,
    centre: tuple[float, float],
    radius_km: float,
    others: list[SitePath],
) -> PathView | None:
    """What a contract sees of a network with an endangered region; None if all sites are inside."""
    live = LiveMap(federation, "s")
    try:
        live.dangers.declare(AvoidRequest(name="x", centre=centre, radius_km=radius_km), 0.0, "")
    except InputError:
        return None
    graph = FailureEstimates(federation).on(live.live_graph(), 0.0)
    return PathView(
        live=live,
        graph=with_ends_up(graph, graph.index("s"), graph.index("t")),
        contract=contract,
        topic_class=0,
        source="s",
        destination="t",
        others={"y": others},
    )


@given(
    networks(), spots, st.floats(50, 2500), st.sampled_from([None, 10.0, 25.0]), st.integers(1, 2), st.data()
)
@settings(max_examples=200, deadline=None)
def test_out_of_the_region_if_the_contract_allows_for_it(
    federation: Federation,
    centre: tuple[float, float],
    radius_km: float,
    deadline: float | None,
    count: int,
    data: st.DataObject,
) -> None:
    paths = list(every_path(federation))
    separation_km = data.draw(st.sampled_from([0.0, 500.0]))
    apart_from = ("y",) if separation_km else ()
    others = data.draw(st.lists(st.sampled_from([*paths, ("s", "gone", "t")]), max_size=3, unique=True))
    contract = Contract(
        match="x", deadline_ms=deadline, paths=count, separation_km=separation_km, apart_from=apart_from
    )
    view = seen(federation, contract, centre, radius_km, others)
    if view is None:
        return
    live = view.live
    allowed = [path for path in paths if live.path_ms(path, 0) <= (deadline or math.inf)]
    outside = [path for path in allowed if not live.dangers.touches(path)]
    chosen = choose_paths(view).paths
    inside = [path for path in chosen if live.dangers.touches(path)]
    assert bool(chosen) == bool(paths)
    if not allowed:
        return  # the deadline is missed anyway; what is fastest counts
    assert set(chosen) <= set(allowed)
    assert len(chosen) == min(count, len(allowed)) or len(chosen) == 1
    if count == 1:
        assert bool(inside) == (not outside)
        if any(view.apart_km(path) >= separation_km for path in outside):
            assert view.apart_km(chosen[0]) >= separation_km, "also from what cannot leave the region"
    elif deadline is None and any(not shared(pair) for pair in itertools.combinations(outside, 2)):
        assert not inside, "two paths outside share nothing"
    elif outside and not any(not shared(pair) for pair in itertools.combinations(allowed, 2)):
        assert len(inside) < len(chosen), "at least one is outside, since nothing is gained by staying"
    unmet = [each for each in view.assess(chosen) if each.name == "outside" and not each.met]
    assert bool(unmet) == bool(inside)
