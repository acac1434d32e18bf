"""Contracts and risk groups that contradict themselves are named at load, each with its place."""

from __future__ import annotations

import pytest

from mangrove.config import parse_federation
from mangrove.model.federation import Prepare, Region, RiskGroup
from mangrove.model.topics import SessionLimits

SITES = """
federation: demo
domains:
  a: {location: [0, 0], failure_probability: 0.01}
  b: {location: [0, 10]}
  c: {location: [10, 10]}
links:
  - {between: [a, b], failure_probability: 0.002, via: [[5, 5], [4, 8]]}
  - {between: [b, c]}
"""


def mistakes(text: str) -> list[str]:
    return [f"{mistake.path}: {mistake.problem}" for mistake in parse_federation(SITES + text, "x").mistakes]


def test_every_key_is_taken_over() -> None:
    federation = parse_federation(
        SITES
        + """
topics:
  - {match: x, resiliency: 0.999, max_paths: 3, max_hops: 4, rate_mbps: 2, separation_km: 50,
     apart_from: [coast, y], deadline_ms: 100, limits: {deadline_ms: 50, paths: 3, resiliency: 0.9999}}
  - {match: y}
regions: {coast: {centre: [3, 3], radius_km: 20}}
risk_groups: {duct: {links: [[b, a], [b, c]]}}
prepare: pairs
""",
        "x",
    ).require()
    contract = federation.topics.contracts[0]
    assert (contract.resiliency, contract.max_paths, contract.max_hops, contract.rate_mbps) == (
        0.999,
        3,
        4,
        2,
    )
    assert contract.apart_from == ("coast", "y")
    assert contract.limits == SessionLimits(deadline_ms=50, paths=3, resiliency=0.9999)
    assert federation.regions == {"coast": Region(centre=(3, 3), radius_km=20)}
    assert federation.risk_groups == {"duct": RiskGroup(links=(("a", "b"), ("b", "c")))}
    assert federation.prepare is Prepare.PAIRS
    assert federation.domains["a"].failure_probability == 0.01
    assert federation.links[0].failure_probability == 0.002
    assert federation.links[0].via == ((5, 5), (4, 8))


def test_a_fibre_with_waypoints_is_longer_than_the_great_circle() -> None:
    federation = parse_federation(SITES, "x").require()
    straight = parse_federation(SITES.replace(", via: [[5, 5], [4, 8]]", ""), "x").require()
    assert federation.link_weight(federation.links[0]) > straight.link_weight(straight.links[0])


@pytest.mark.parametrize(
    ("topic", "found"),
    [
        ("{match: x, resiliency: 1}", "topics[0].resiliency: found 1"),
        ("{match: x, resiliency: 1.5}", "topics[0].resiliency: found 1.5"),
        ("{match: x, resiliency: 0}", "topics[0].resiliency: found 0"),
        ("{match: x, max_paths: 2}", "topics[0].max_paths: limits nothing"),
        (
            "{match: x, resiliency: 0.9, paths: 3, max_paths: 2}",
            "topics[0].paths: asks for 3 paths, but `max_paths` allows 2",
        ),
        (
            "{match: x, apart_from: [y], separation_km: 1}",
            "topics[0].apart_from[0]: there is no region and no",
        ),
        (
            "{match: x, apart_from: [x], separation_km: 1}",
            "topics[0].apart_from[0]: a topic cannot keep away",
        ),
        ("{match: x, apart_from: [x]}", "topics[0].apart_from: does not say how far"),
        ("{match: x, resiliency: 0.9, scope: domain}", "topics[0].resiliency: means nothing for a topic"),
        ("{match: x, limits: {paths: 2}, scope: domain}", "topics[0].limits: mean nothing for a topic"),
        (
            "{match: x, deadline_ms: 10, limits: {deadline_ms: 20}}",
            "topics[0].limits.deadline_ms: 20 allows less than the contract's 10",
        ),
        (
            "{match: x, paths: 3, limits: {paths: 2}}",
            "topics[0].limits.paths: 2 allows less than the contract's 3",
        ),
        ("{match: x, limits: {path: 2}}", "topics[0].limits.path: unknown key"),
    ],
)
def test_contradictory_contracts_are_named(topic: str, found: str) -> None:
    assert any(mistake.startswith(found) for mistake in mistakes(f"topics: [{topic}]\n")), mistakes(
        f"topics: [{topic}]\n"
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("risk_groups: {g: {sites: [a]}}", "risk_groups.g: has less than two members"),
        ("risk_groups: {g: {sites: [a, z]}}", "risk_groups.g.sites[1]: there is no domain 'z'"),
        ("risk_groups: {g: {links: [[a, c], [a, b]]}}", "risk_groups.g.links[0]: no link joins a and c"),
        ("regions: {r: {centre: [91, 0], radius_km: 5}}", "regions.r.centre[0]: found 91"),
        ("regions: {r: {centre: [9, 0], radius_km: -5}}", "regions.r.radius_km: found -5"),
        ("prepare: triples", "prepare: found 'triples'"),
    ],
)
def test_mistakes_of_risk_groups_and_regions_are_named(text: str, found: str) -> None:
    assert any(mistake.startswith(found) for mistake in mistakes(text)), mistakes(text)


def test_more_pairs_than_a_gateway_can_prepare_for_are_named() -> None:
    sites = "".join(f"  s{number}: {{}}\n" for number in range(1500))
    text = f"federation: large\ndomains:\n{sites}prepare: pairs\n"
    found = [f"{each.path}: {each.problem}" for each in parse_federation(text, "x").mistakes]
    assert "prepare: 1,124,250 pairs of links and sites are more than 1,000,000" in found


def test_waypoints_off_the_globe_and_improbable_probabilities_are_named() -> None:
    text = SITES.replace("[4, 8]", "[4, 181]").replace("0.002", "1.2")
    found = [mistake.path for mistake in parse_federation(text, "x").mistakes]
    assert found == ["links[0].failure_probability", "links[0].via[1][1]"]


def test_the_order_of_risk_groups_in_the_file_does_not_matter_to_neighbours() -> None:
    first = "risk_groups: {g: {links: [[a, b], [b, c]]}, h: {sites: [a, b]}}"
    other = "risk_groups: {h: {sites: [b, a]}, g: {links: [[c, b], [a, b]]}}"
    fewer = "risk_groups: {h: {sites: [b, a]}}"
    hashes = [parse_federation(SITES + text, "x").require().topology_hash() for text in (first, other, fewer)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_region_that_leaves_no_two_sites_is_refused_with_what_is_possible() -> None:
    text = """
federation: f
domains: {a: {location: [0, 0]}, b: {location: [0, 5]}, c: {location: [0, 10]}}
regions: {storm: {centre: [0, 0], radius_km: 300}}
topics: [{match: x, separation_km: %s, apart_from: [storm]}]
"""
    assert parse_federation(text % 200, "f").mistakes == ()
    (only,) = parse_federation(text % 400, "f").mistakes
    assert str(only) == (
        "topics[0].apart_from[0]: no two sites are 400 km from region storm "
        "(allowed: separation_km up to 256, or a smaller region)"
    )


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("0", "found 0"),
        ("-5", "found -5"),
        (".nan", "found nan"),
        (".inf", "found inf"),
        ("fast", "found 'fast'"),
    ],
)
def test_rates_that_are_none_are_refused(value: str, problem: str) -> None:
    """0 is no limit to some and silence to others: whoever writes it is asked what is meant."""
    found = mistakes(
        f"topics: [{{match: x, rate_msg_s: {value}}}]\nlimits: {{client: {{rate_bytes_s: {value}}}}}\n"
    )
    assert found == [f"topics[0].rate_msg_s: {problem}", f"limits.client.rate_bytes_s: {problem}"]


def test_rates_may_be_left_out_or_null() -> None:
    text = "topics: [{match: x, rate_msg_s: null}, {match: y, rate_bytes_s: 0.5}]\n"
    federation = parse_federation(SITES + text, "x").require()
    assert [each.rate_msg_s for each in federation.topics.contracts] == [None, None]
    assert federation.topics.contracts[1].rate_bytes_s == 0.5
    assert not federation.limits.client


@pytest.mark.parametrize("security", ["security: none", "security: {mode: none}"])
def test_nothing_is_confidential_without_keys(security: str) -> None:
    contract = "topics: [{match: x}, {match: y, confidential: true}, {match: z, confidential: false}]\n"
    assert mistakes(contract + security) == ["topics[1].confidential: nothing can be sealed without keys"]
    for keys in ("security: keys", "security: {mode: keys}", "security: {keys: there}"):
        federation = parse_federation(SITES + contract + keys, "x").require()
        assert [each.confidential for each in federation.topics.contracts] == [False, True, False]


def test_what_stays_in_its_domain_is_sealed_for_nobody() -> None:
    found = mistakes("security: keys\ntopics: [{match: x, scope: domain, confidential: true}]")
    assert found == ["topics[0].confidential: means nothing for a topic that stays in its domain"]


def test_words_of_confidential_topics_are_not_kept() -> None:
    found = mistakes("security: keys\ntopics: [{match: x, confidential: true, sample_text: true}]")
    assert found == ["topics[0].sample_text: words of confidential messages are never kept"]
