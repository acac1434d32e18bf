"""When publishers may be silent: the head has told everything, and every edge was seen to hang on it."""

from __future__ import annotations

from time import monotonic

from tests.kit.engines import federation

from mangrove.gateway.audience.completeness import EDGES_SEEN_S, Completeness
from mangrove.gateway.probing.site_probe import SiteProbe
from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.gateway_settings import GatewaySettings


def settings(*, edges: int = 0, kind: BrokerKind = BrokerKind.NATS) -> GatewaySettings:
    return GatewaySettings(
        federation=federation(("a", "b")),
        domain="a",
        head_urls=(),
        listen=(),
        calls=(),
        head_kind=kind,
        edge_client_urls={f"edge{number}": "" for number in range(edges)},
    )


def probe(seen_ago_s: float) -> SiteProbe:
    made = SiteProbe("a", lambda owner: {}, lambda ingress_ms, egress_ms: None)
    made.together_at = monotonic() - seen_ago_s
    return made


def test_what_the_head_has_not_told_is_the_problem() -> None:
    assert Completeness(settings(), None, lambda: "away").seen()[1] == "away"
    assert Completeness(settings(), None, lambda: "").seen()[1] == ""


def test_every_edge_must_have_been_seen_lately() -> None:
    with_edges = settings(edges=2)
    fresh, stale = probe(0.0), probe(2 * EDGES_SEEN_S)
    assert Completeness(with_edges, fresh, lambda: "").seen() == (fresh.together_at, "")
    problem = "not every edge broker is known to be attached"
    assert Completeness(with_edges, stale, lambda: "").seen() == (stale.together_at, problem)
    assert Completeness(with_edges, None, lambda: "").seen() == (float("-inf"), problem)


def test_a_broker_that_tells_of_subscribers_late_is_never_complete() -> None:
    _, problem = Completeness(settings(kind=BrokerKind.RABBITMQ), None, lambda: "").seen()
    assert problem == "this kind of broker tells of subscribers when it serves them already"
