"""What a federation says of itself."""

from __future__ import annotations

from mangrove.model.federation import Domain, Federation, Link


def test_what_can_be_reached_follows_the_links_that_are_up() -> None:
    domains = {name: Domain(name=name, base_port=7000) for name in "abcd"}
    links = tuple(Link(between=pair) for pair in (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")))
    ring = Federation(name="ring", domains=domains, links=links)
    assert ring.reachable("a", set()) == {"b", "c", "d"}
    assert ring.reachable("a", {("a", "b")}) == {"b", "c", "d"}
    assert ring.reachable("a", {("a", "b"), ("c", "d")}) == {"d"}
    assert ring.reachable("a", {("a", "b"), ("a", "d")}) == set()
