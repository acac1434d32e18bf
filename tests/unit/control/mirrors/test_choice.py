"""A mirror is neither the primary nor where it is published, and on another host where there are several."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mangrove.control.mirrors.choice import MirrorChoice, Places
from mangrove.control.site import Site
from mangrove.model.agents.load import BrokerLoad, LoadState
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.federation import Domain, Edge, Federation

BROKERS = ("oslo-head", "oslo-edge1", "oslo-edge2", "oslo-edge3")
HEAD, E1, E2, E3 = BROKERS


def site(*machines: str) -> Site:
    """A domain whose head and edges run on these machines."""
    domain = Domain(name="oslo", base_port=4000, edges=(Edge(capacity=1000.0),) * (len(machines) - 1))
    endpoints = fixed_endpoints(domain)
    on = dict(zip(BROKERS, machines, strict=False))
    placed = msgspec.structs.replace(
        endpoints,
        head=msgspec.structs.replace(endpoints.head, machine=on[HEAD]),
        edges=tuple(msgspec.structs.replace(each, machine=on[each.name]) for each in endpoints.edges),
    )
    return Site(Federation(name="f", domains={"oslo": domain}), placed)


def choice(*machines: str, **headroom: float) -> MirrorChoice:
    def loads(now: float) -> dict[str, BrokerLoad]:
        return {
            name: BrokerLoad(
                broker=name,
                role="edge",
                state=LoadState.LOW,
                measured=LoadState.LOW,
                headroom=headroom.get(name.removeprefix("oslo-")),
            )
            for name in BROKERS
        }

    return MirrorChoice(site(*machines), loads)


def test_the_edge_with_most_room() -> None:
    chosen = choice("", "", "", "", edge2=0.2, edge3=0.7).choose(Places((E1,), HEAD), 0.0)
    assert chosen == E3


def test_of_equals_the_one_that_mirrors_fewest() -> None:
    found = choice("", "", "", "").choose(Places((E1,), HEAD), 0.0, mirrored={E2: 3, E3: 1})
    assert found == E3


def test_what_is_planned_goes_before_what_is_there_and_that_before_room() -> None:
    chooser = choice("", "", "", "", edge2=0.9, edge3=0.1)
    assert chooser.choose(Places((E1,), HEAD), 0.0, present=E3) == E3
    assert chooser.choose(Places((E1,), HEAD), 0.0, planned=E2, present=E3) == E2
    assert chooser.choose(Places((E1,), HEAD), 0.0, planned=E1, present=E3) == E3, "not the primary"
    assert chooser.choose(Places((E1,), HEAD), 0.0, shared={E3}) == E3


def test_the_head_only_if_no_edge_is_left_and_it_is_published_elsewhere() -> None:
    assert choice("", "").choose(Places((E1,), E1), 0.0) == HEAD
    assert choice("", "").choose(Places((E1,), HEAD), 0.0) == ""
    assert choice("").choose(Places((HEAD,), HEAD), 0.0) == ""


def test_hosts_are_kept_apart() -> None:
    assert choice("h1", "h1", "h1", "h2").choose(Places((E1,), HEAD), 0.0) == E3
    assert choice("h1", "h2", "h2", "h1").choose(Places((E1,), HEAD), 0.0) == E3, "better with the head"
    assert choice("h1", "h2", "h2").choose(Places((E1,), HEAD), 0.0) == "", "all edges are on one host"
    three = choice("h1", "h2", "h3", "h1")
    assert three.choose(Places((E1,), HEAD), 0.0, present=E3) == E2, "neither with the head nor the primary"


def test_when_one_host_is_left_its_brokers_serve_each_other() -> None:
    chooser = choice("h1", "h1", "h1", "h2")
    assert chooser.choose(Places((E1,), HEAD), 0.0, away={E3}) == E2


@given(
    machines=st.lists(st.sampled_from(["h1", "h2", "h3"]), min_size=1, max_size=4),
    served=st.lists(st.sampled_from(BROKERS[1:]), max_size=3, unique=True),
    published=st.sampled_from(BROKERS),
    away=st.sets(st.sampled_from(BROKERS), max_size=3),
    planned=st.sampled_from(["", *BROKERS]),
    present=st.sampled_from(["", *BROKERS]),
)
def test_never_the_primary_nor_its_host_nor_what_is_away(
    machines: list[str], served: list[str], published: str, away: set[str], planned: str, present: str
) -> None:
    brokers = BROKERS[: len(machines)]
    on = dict(zip(brokers, machines, strict=True))
    edges = tuple(each for each in served if each in on)
    published = published if published in on else HEAD
    found = choice(*machines).choose(
        Places(edges, published), 0.0, planned=planned, present=present, away=away
    )
    living = set(on) - away
    primary = edges[0] if edges else ""
    several = len({on[each] for each in living}) > 1
    would_do = {
        each
        for each in living - {primary, published}
        if not (several and primary and on[each] == on[primary])
    }
    assert found in would_do if would_do else found == ""
    if would_do - {HEAD}:
        assert found != HEAD
