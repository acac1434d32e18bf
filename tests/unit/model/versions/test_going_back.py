"""Going back to an earlier version: links and figures as they were, members as they are."""

from __future__ import annotations

import msgspec
import pytest

from mangrove.config import parse_federation
from mangrove.model.versions.going_back import gone_back, membership_since
from mangrove.model.versions.network import Network, cut_off, network_of, network_problems

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


def network(text: str) -> Network:
    return network_of(parse_federation(text, "f").require())


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
    assert gone_back(network(text), THEN) == THEN
    assert membership_since(network(text), THEN) == ()


def test_who_has_joined_stays_with_its_links_and_risks() -> None:
    present = network(
        WITH_D.replace("delay_ms: 3", "delay_ms: 30").replace(
            "  valley: {sites: [a, c]}", "  valley: {sites: [c, d]}\n  ridge: {links: [[c, d], [a, b]]}"
        )
    )
    back = gone_back(present, THEN)
    assert back.names == ("a", "b", "c", "d")
    assert back.without("d").links == THEN.links
    assert back.without("d").sites == THEN.sites
    assert ("c", "d") in back.pairs
    assert set(back.risk_groups) == {"cable", "ridge", "valley"}
    assert back.risk_groups["valley"].sites == ("c", "d"), "what concerns d is not known from before"
    assert not list(network_problems(back))
    assert membership_since(present, THEN) == ("d has joined since, and stays",)


def test_who_has_left_is_not_brought_back_nor_what_led_there() -> None:
    present = network(CHANGED).without("b")
    back = gone_back(present, THEN)
    assert back == THEN.without("b")
    assert not list(network_problems(back))
    assert membership_since(present, THEN) == ("b has left since, and is not brought back",)


def test_where_the_way_led_by_who_has_left_the_rest_is_cut_off() -> None:
    line = TEXT.replace("  - {between: [a, c], delay_ms: 3}\n", "")
    line = line.replace("[a, b], [a, c]", "[a, b], [b, c]")
    present = THEN.without("b")
    assert cut_off(gone_back(present, network(line)), present) == ("c",)


def test_what_its_processes_have_stays_as_it_is() -> None:
    moved = msgspec.structs.replace(
        THEN, sites=tuple(msgspec.structs.replace(site, base_port=7100) for site in THEN.sites)
    )
    assert gone_back(moved, THEN) == moved
