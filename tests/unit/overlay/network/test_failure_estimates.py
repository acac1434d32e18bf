"""Failure probabilities: prior and observation, links and sites."""

from __future__ import annotations

import random

import msgspec
import pytest
from tests.kit.engines import federation

from mangrove.model.federation import Domain, Federation, Link
from mangrove.overlay.network.failure_estimates import (
    DEFAULT_LINK_FAILURE,
    DEFAULT_SITE_FAILURE,
    FailureEstimates,
)
from mangrove.routing.network.topology import graph_of_federation

HOUR, DAY = 3600.0, 86400.0
SQUARE = federation(("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"))
UP: frozenset[tuple[str, str]] = frozenset()


def stated(probability: float) -> Federation:
    links = tuple(Link(between=link.between, failure_probability=probability) for link in SQUARE.links)
    domains = {
        name: Domain(name=name, base_port=1, failure_probability=probability) for name in SQUARE.domains
    }
    return msgspec.structs.replace(SQUARE, links=links, domains=domains)


def test_before_anything_is_seen_the_prior_holds() -> None:
    default = FailureEstimates(SQUARE)
    assert default.link("b", "a", 0.0) == DEFAULT_LINK_FAILURE
    assert default.site("a", 0.0) == DEFAULT_SITE_FAILURE
    graph = FailureEstimates(stated(0.02)).on(graph_of_federation(SQUARE), 5.0)
    assert graph.node_failure.tolist() == graph.edge_failure.tolist() == [0.02] * 4


def test_a_failure_is_remembered_and_fades() -> None:
    estimates = FailureEstimates(SQUARE)
    estimates.observe(UP, {}, 0.0)
    estimates.observe(frozenset({("a", "b")}), {}, HOUR)
    estimates.observe(UP, {}, 2 * HOUR)
    after = estimates.link("a", "b", 2 * HOUR)
    assert after == pytest.approx((DAY * 0.001 + HOUR) / (DAY + 2 * HOUR), rel=0.01)
    assert estimates.link("a", "c", 2 * HOUR) < DEFAULT_LINK_FAILURE
    assert estimates.link("a", "b", 20 * DAY) < after / 5
    assert estimates.link("a", "b", 300 * DAY) < DEFAULT_LINK_FAILURE


def test_what_the_file_states_weighs_more_than_a_default() -> None:
    outage = frozenset({("a", "b")})
    rises = []
    for shape in (SQUARE, stated(DEFAULT_LINK_FAILURE)):
        estimates = FailureEstimates(shape)
        for failed, now in ((UP, 0.0), (outage, HOUR), (UP, 2 * HOUR)):
            estimates.observe(failed, {}, now)
        rises.append(estimates.link("a", "b", 2 * HOUR) - DEFAULT_LINK_FAILURE)
    assert rises[0] > 10 * rises[1] > 0


def test_all_links_of_a_site_down_is_the_site() -> None:
    estimates = FailureEstimates(SQUARE)
    estimates.observe(UP, {}, 0.0)
    estimates.observe(frozenset({("a", "b"), ("b", "d")}), {}, DAY)
    estimates.observe(UP, {}, DAY + HOUR)
    now = DAY + HOUR
    assert estimates.site("b", now) > 10 * DEFAULT_SITE_FAILURE
    assert estimates.site("a", now) < DEFAULT_SITE_FAILURE
    assert estimates.link("a", "b", now) < DEFAULT_LINK_FAILURE


def test_what_gateways_tell_of_their_links_counts_for_an_hour() -> None:
    estimates = FailureEstimates(SQUARE)
    estimates.observe(UP, {("a", "b"): 0.5}, 0.0)
    assert estimates.link("a", "b", 0.0) == pytest.approx((DAY * 0.001 + HOUR / 2) / (DAY + HOUR))
    estimates.observe(UP, {}, 1.0)
    assert estimates.link("a", "b", 1.0) <= DEFAULT_LINK_FAILURE


def test_a_link_that_was_never_up_is_not_held_against_it() -> None:
    estimates = FailureEstimates(SQUARE)
    estimates.observe(frozenset({("a", "b")}), {}, 0.0)
    estimates.observe(UP, {}, 10 * DAY)
    assert estimates.link("a", "b", 10 * DAY) == DEFAULT_LINK_FAILURE


def test_in_the_long_run_the_estimate_comes_near_the_truth() -> None:
    """A link that is down for 5 % of the time, in outages of an hour, whatever the prior was."""
    chance = random.Random(7)
    estimates, now, found = FailureEstimates(SQUARE), 0.0, []
    while now < 400 * DAY:
        estimates.observe(UP, {}, now)
        now += chance.expovariate(1 / (19 * HOUR))
        estimates.observe(frozenset({("a", "b")}), {}, now)
        now += chance.expovariate(1 / HOUR)
        if now > 100 * DAY:
            found.append(estimates.link("a", "b", now))
    assert sum(found) / len(found) == pytest.approx(0.05, rel=0.15)
