"""Domains and links of a version: numbers that never change, who may leave, and what is refused."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.config import parse_federation
from mangrove.errors import InputError
from mangrove.model.versions.checking import document_problem, kinship_problem
from mangrove.model.versions.document import FederationDocument, WrittenDocument, first_document, in_force
from mangrove.model.versions.membership import is_quorum
from mangrove.model.versions.network import (
    MAX_NUMBERS,
    AgreedLink,
    AgreedSite,
    Network,
    cut_off,
    is_retired,
    members,
    network_difference,
    network_of,
    numbers_problem,
    renumbered,
)
from mangrove.model.versions.succession import difference, successor

TEXT = """
federation: f
domains:
  a: {location: [1, 2]}
  b: {}
  c: {}
links:
  - {between: [a, b], delay_ms: 2}
  - {between: [b, c], delay_ms: 2}
  - {between: [a, c], delay_ms: 3}
topics:
  - {match: "t.>", deadline_ms: 500}
"""
FEDERATION = parse_federation(TEXT, "f").require()
FIRST = first_document(FEDERATION)
NETWORK = network_of(FEDERATION)


def with_network(before: FederationDocument, network: Network) -> FederationDocument:
    return successor(before, before.topics.contracts, by="", at="", network=network)


def joined(network: Network, name: str, *ends: str) -> Network:
    return msgspec.structs.replace(
        network,
        sites=(*network.sites, AgreedSite(name=name, base_port=7000)),
        links=(*network.links, *(AgreedLink(between=(name, end), delay_ms=1.0) for end in ends)),
    )


def test_who_joins_gets_a_new_number_and_who_left_keeps_its_own() -> None:
    second = with_network(FIRST, joined(NETWORK, "aa", "a"))
    assert second.domains == ("a", "b", "c", "aa")
    assert not document_problem(second, FIRST)
    third = with_network(second, joined(NETWORK, "aa", "a").without("b"))
    assert third.domains == ("a", "b~1", "c", "aa")
    assert third.members == ("a", "c", "aa")
    back = with_network(third, joined(NETWORK, "aa", "a"))
    assert back.domains == ("a", "b~1", "c", "aa", "b"), "the same name is another domain"
    assert not document_problem(back, third)


def test_a_document_comes_back_from_its_text_and_is_what_a_site_acts_by() -> None:
    second = with_network(FIRST, joined(NETWORK, "d", "a", "c").without("b"))
    read = WrittenDocument(text=second.text()).read()
    assert read == second
    acts = in_force(FEDERATION, read)
    assert set(acts.domains) == {"a", "c", "d"}
    assert acts.domains["a"] == FEDERATION.domains["a"], "what is private stays as the file has it"
    assert acts.domain_order == ("a", "b~1", "c", "d")
    assert {link.pair for link in acts.links} == {("a", "c"), ("a", "d"), ("c", "d")}
    assert network_of(acts) == network_of(in_force(acts, read))


def test_what_changes_is_told() -> None:
    other = joined(NETWORK, "d", "a").without("b")
    other = msgspec.structs.replace(
        other,
        links=tuple(
            msgspec.structs.replace(each, delay_ms=9.0) if each.between == ("a", "c") else each
            for each in other.links
        ),
    )
    assert list(network_difference(NETWORK, other).sentences()) == [
        "domain d joins",
        "domain b leaves",
        "new link between a and d",
        "the link between a and b ends",
        "the link between b and c ends",
        "link between a and c: delay_ms 3.0 → 9.0",
    ]
    what = difference(FIRST, with_network(FIRST, other), FEDERATION)
    assert what
    assert what.summary() == "network: d joins, b leaves, 1 new link, 2 removed links, 1 changed"
    assert not difference(FIRST, with_network(FIRST, NETWORK), FEDERATION)


def test_those_who_stay_must_be_a_quorum() -> None:
    many = joined(joined(NETWORK, "d", "a"), "e", "a")
    second = with_network(FIRST, many)
    assert not document_problem(with_network(second, many.without("d", "e")), second)
    problem = document_problem(with_network(second, many.without("c", "d", "e")), second)
    assert problem.startswith("too many domains leave at once (c, d, e)")
    two = with_network(FIRST, NETWORK.without("c"))
    assert not document_problem(with_network(two, NETWORK.without("b", "c")), two)
    assert "too many" in document_problem(with_network(two, NETWORK.without("a", "c")), two)


@pytest.mark.parametrize(
    ("domains", "said"),
    [
        (("b", "a", "c"), "another meaning"),
        (("a", "b~1", "c", "b"), ""),
        (("a", "b"), "numbers domains anew"),
        (("a", "b", "c~0"), "another meaning"),
        (("a", "b", "c", "x~3"), "never there"),
        (("a", "b", "c", "d"), "do not match"),
    ],
)
def test_numbers_that_cannot_follow_are_refused(domains: tuple[str, ...], said: str) -> None:
    found = numbers_problem(domains, ("a", "b", "c"), ("a", "b", "c"))
    assert said in found
    assert bool(found) == bool(said)


def test_bad_networks_are_refused_by_whoever_gets_them() -> None:
    for network, said in (
        (joined(NETWORK, "d", "x"), "does not lead from one domain to another"),
        (joined(NETWORK, "d", "a", "a"), "a link is named twice"),
        (joined(NETWORK, "a", "b"), "a domain is named twice"),
    ):
        document = msgspec.structs.replace(with_network(FIRST, joined(NETWORK, "d", "a")), network=network)
        assert said in document_problem(document, FIRST)
    other = msgspec.structs.replace(with_network(FIRST, joined(NETWORK, "d", "a")), line="other")
    assert kinship_problem(other, FIRST) == "it follows from another federation file"


def test_who_is_cut_off_is_found() -> None:
    def without(*pairs: tuple[str, str]) -> Network:
        links = tuple(each for each in NETWORK.links if each.between not in pairs)
        return msgspec.structs.replace(NETWORK, links=links)

    assert cut_off(NETWORK, NETWORK) == ()
    assert cut_off(without(("a", "b")), NETWORK) == ()
    assert cut_off(without(("b", "c"), ("a", "c")), NETWORK) == ("c",)


def test_numbers_run_out_with_a_remedy() -> None:
    order = tuple(f"x{number}~{number}" for number in range(MAX_NUMBERS))
    with pytest.raises(InputError, match="no number is left"):
        renumbered(order, ["a"])


@given(st.lists(st.sets(st.sampled_from("abcdefgh"), min_size=1), max_size=12))
def test_a_number_means_one_domain_for_ever(memberships: list[set[str]]) -> None:
    order: tuple[str, ...] = tuple(sorted(memberships[0])) if memberships else ()
    meanings = dict(enumerate(order))
    for names in memberships[1:]:
        before, order = order, renumbered(order, names)
        assert not numbers_problem(order, before, sorted(names))
        assert set(members(order)) == names
        for number, name in enumerate(order):
            assert meanings.setdefault(number, name) == name.partition("~")[0]
        retired = {number for number, name in enumerate(before) if is_retired(name)}
        assert all(is_retired(order[number]) for number in retired)


@given(st.integers(1, 9), st.data())
def test_any_two_quorums_share_a_domain(size: int, data: st.DataObject) -> None:
    domains = [f"d{number}" for number in range(size)]
    one, other = (data.draw(st.sets(st.sampled_from(domains))) for _ in range(2))
    if is_quorum(one, domains) and is_quorum(other, domains):
        assert one & other
