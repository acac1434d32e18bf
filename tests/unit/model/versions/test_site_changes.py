"""What a site takes over from a changed file while it runs."""

from __future__ import annotations

import pytest

from mangrove.config import parse_federation
from mangrove.model.versions.site_changes import Effect, reloaded, site_changes

FILE = """
federation: f
domains: {a: {edges: 2, accept_load_from: []}, b: {edges: 1}}
links: [{between: [a, b]}]
security: none
queue_bytes: 1000000
"""


NAMES = "names: [{local: x, federation: y}]"


@pytest.mark.parametrize(
    ("old", "new", "place", "effect"),
    [
        ("accept_load_from: []", "accept_load_from: [b]", "domains.a.accept_load_from", Effect.AT_ONCE),
        ("edges: 2", "edges: [{capacity: 10}, {}]", "domains.a.edges", Effect.AT_ONCE),
        ("edges: 2", "edges: 3", "domains.a.edges", Effect.RESTART),
        (
            "a: {edges: 2",
            "a: {names: [{local: x, federation: y}], edges: 2",
            "domains.a.names",
            Effect.AT_ONCE,
        ),
        (
            "b: {edges: 1",
            "b: {names: [{local: x, federation: y}], edges: 1",
            "domains.b.names",
            Effect.ELSEWHERE,
        ),
        ("b: {edges: 1", "b: {placement: wan, edges: 1", "domains.b.placement", Effect.RESTART),
        ("security: none", "security: none\nplans: {policy: auto}", "plans", Effect.AT_ONCE),
        ("security: none", "security: none\nbalancing: {period_s: 3}", "balancing", Effect.AT_ONCE),
        ("security: none", "security: none\ntopics: [{match: x}]", "topics", Effect.APPLY),
        ("security: none", "security: none\nlimits: {subjects: 9}", "limits", Effect.APPLY),
        ("queue_bytes: 1000000", "queue_bytes: 2000000", "queue_bytes", Effect.RESTART),
        (", b: {edges: 1}}\nlinks: [{between: [a, b]}]", "}", "domains.b", Effect.RESTART),
    ],
)
def test_each_change_is_named_with_when_it_takes_effect(
    old: str, new: str, place: str, effect: Effect
) -> None:
    running = parse_federation(FILE, "file").require()
    wanted = parse_federation(FILE.replace(old, new), "file").require()
    changes = list(site_changes(running, wanted, ["a"]))
    assert (place, effect) in [(each.place, each.effect) for each in changes]
    after = reloaded(running, wanted, changes)
    left = list(site_changes(after, wanted, ["a"]))
    assert [each for each in changes if each.effect is not Effect.AT_ONCE] == left, "all else stays"
    assert after.digest() == running.digest(), "the other hosts of the domain still agree"


def test_a_file_that_says_the_same_changes_nothing() -> None:
    running = parse_federation(FILE, "file").require()
    assert not list(site_changes(running, parse_federation(FILE, "file").require(), ["a"]))
    assert reloaded(running, running, []) == running
