"""Going back to an earlier version: links and figures as they were, members as they are."""

from __future__ import annotations

import msgspec
import pytest

from mangrove.config import parse_federation
from mangrove.model.federation import Federation
from mangrove.model.mediation.transform import Format, Transform
from mangrove.model.versions.document import FederationDocument, first_document, in_force
from mangrove.model.versions.going_back import gone_back, membership_since, network_then, still_there
from mangrove.model.versions.network import Network, cut_off, network_of, network_problems, with_network
from mangrove.model.versions.succession import successor

TEXT = """
federation: f
domains:
  a: {location: [1, 2]}
  b: {}
  c: {failure_probability: 0.01}
links:
  - {between: [a, b], delay_ms: 2}
  - {between: [b, c], delay_ms: 2, endpoints: {b: "10.0.0.2:7000"}}
  - {between: [a, c], delay_ms: 3}
risk_groups:
  cable: {links: [[a, b], [a, c]]}
  valley: {sites: [a, c]}
"""


def file(text: str) -> Federation:
    return parse_federation(text, "f").require()


def network(text: str) -> Network:
    return network_of(file(text))


THEN = network(TEXT)
CHANGED = TEXT.replace("delay_ms: 3", "delay_ms: 30").replace("[1, 2]", "[3, 4]").replace("0.01", "0.5")
WITHOUT_A_LINK = TEXT.replace('  - {between: [b, c], delay_ms: 2, endpoints: {b: "10.0.0.2:7000"}}\n', "")
WITH_D = TEXT.replace("links:\n", "  d: {}\nlinks:\n  - {between: [c, d], delay_ms: 5}\n", 1)
WITHOUT_B = """
federation: f
domains:
  a: {location: [1, 2]}
  c: {failure_probability: 0.01}
links:
  - {between: [a, c], delay_ms: 4}
"""


@pytest.mark.parametrize("text", [TEXT, CHANGED, WITHOUT_A_LINK, TEXT.replace("valley", "mountain")])
def test_with_the_same_members_all_is_as_it_was(text: str) -> None:
    assert gone_back(network(text), THEN, "abc") == THEN
    assert membership_since(network(text), THEN, "abc") == ()


def test_who_has_joined_stays_with_its_links_and_risks() -> None:
    present = network(
        WITH_D.replace("delay_ms: 3", "delay_ms: 30").replace(
            "  valley: {sites: [a, c]}", "  valley: {sites: [c, d]}\n  ridge: {links: [[c, d], [a, b]]}"
        )
    )
    back = gone_back(present, THEN, "abc")
    assert back.names == ("a", "b", "c", "d")
    assert back.without("d").links == THEN.links
    assert back.without("d").sites == THEN.sites
    assert ("c", "d") in back.pairs
    assert set(back.risk_groups) == {"cable", "ridge", "valley"}
    assert back.risk_groups["valley"].sites == ("c", "d"), "what concerns d is not known from before"
    assert not list(network_problems(back))
    assert membership_since(present, THEN, "abc") == ("d has joined since, and stays",)


def test_who_has_left_is_not_brought_back_nor_what_led_there() -> None:
    present = network(CHANGED).without("b")
    back = gone_back(present, THEN, "ac")
    assert back == THEN.without("b")
    assert not list(network_problems(back))
    assert membership_since(present, THEN, "ac") == ("b has left since, and is not brought back",)


def test_where_the_way_led_by_who_has_left_the_rest_is_cut_off() -> None:
    line = TEXT.replace("  - {between: [a, c], delay_ms: 3}\n", "")
    line = line.replace("[a, b], [a, c]", "[a, b], [b, c]")
    present = THEN.without("b")
    assert cut_off(gone_back(present, network(line), "ac"), present) == ("c",)


def test_what_its_processes_have_stays_as_it_is() -> None:
    moved = msgspec.structs.replace(
        THEN, sites=tuple(msgspec.structs.replace(site, base_port=7100) for site in THEN.sites)
    )
    assert gone_back(moved, THEN, "abc") == moved


def test_who_has_left_and_joined_again_is_another_one_and_keeps_its_links() -> None:
    present = network(
        TEXT.replace("c: {failure_probability: 0.01}", "c: {address: 10.0.0.50, base_port: 7000}")
        .replace("  - {between: [a, c], delay_ms: 3}\n", "")
        .replace('endpoints: {b: "10.0.0.2:7000"}', 'endpoints: {c: "10.0.0.50:8888"}')
        .replace("[a, b], [a, c]", "[a, b], [b, c]")
        .replace("valley: {sites: [a, c]}", "ridge: {sites: [b, c]}")
        .replace("[1, 2]", "[3, 4]")
    )
    same = still_there(("a", "b", "c"), ("a", "b", "c~2", "c"))
    assert same == {"a", "b"}
    back = gone_back(present, THEN, same)
    assert back.links == (THEN.links[0], present.links[1])
    assert back.sites == (*THEN.sites[:2], present.sites[2])
    assert {name: (group.links, group.sites) for name, group in back.risk_groups.items()} == {
        "cable": ((("a", "b"), ("b", "c")), ()),
        "valley": ((), ("a",)),
        "ridge": ((), ("b", "c")),
    }
    assert not cut_off(back, present)
    assert not list(network_problems(back))
    assert membership_since(present, THEN, same) == ("c has joined since, and stays",)


def test_who_is_still_there_is_told_by_numbers() -> None:
    assert still_there(("a", "b~1", "c", "d"), ("a", "b~1", "c~2", "d", "b", "c")) == {"a", "d"}
    assert still_there(("a",), ("a", "b")) == {"a"}


# -- which links an earlier version had ---------------------------------------------------------------------

FILE = file(TEXT)
FIRST = first_document(FILE)


def following(before: FederationDocument, text: str = "", **settings: object) -> FederationDocument:
    """A version with the links of another file, or with other settings."""
    new = network(text) if text else None
    return successor(before, (), by="", at="", network=new, settings=settings)


def test_a_version_without_links_has_those_of_the_first_file_as_long_as_a_site_has_that() -> None:
    second = following(FIRST)
    third = following(second, WITHOUT_A_LINK.replace("valley", "mountain"))
    assert third.network is not None
    assert network_then(FIRST, third, FILE) == network_then(second, third, FILE) == THEN
    assert network_then(third, following(third, CHANGED), FILE) == third.network
    restarted = in_force(FILE, third)
    assert network_then(second, third, restarted) is None
    assert network_then(first_document(restarted), third, restarted) is None
    assert network_then(third, third, restarted) == third.network


def test_links_that_differ_in_what_the_first_file_is_not_named_by_are_told_apart() -> None:
    second = following(FIRST)
    third = following(second, TEXT.replace("10.0.0.2:7000", "10.0.0.2:9000"))
    restarted = in_force(FILE, third)
    assert restarted.shape_hash() == FILE.shape_hash()
    assert network_then(second, third, restarted) is None


def test_another_file_than_the_first_is_told_by_its_hash_unless_transforms_have_changed() -> None:
    second, shorter = following(FIRST), {"short": Transform(encode=Format.MSGPACK)}
    third = following(second, CHANGED)
    assert network_then(second, third, with_network(FILE, network(CHANGED))) is None
    shorter_file = msgspec.structs.replace(FILE, transforms=shorter)
    second = following(FIRST, transforms=shorter)
    third = following(second, CHANGED)
    assert network_then(second, third, shorter_file) == THEN


def test_as_long_as_no_links_were_changed_they_are_those_of_the_file() -> None:
    second = following(FIRST)
    other = msgspec.structs.replace(FILE, transforms={"short": Transform(encode=Format.MSGPACK)})
    assert network_then(FIRST, second, other) == THEN
