"""Everything that a gateway counts is in its account of itself."""

from __future__ import annotations

from tests.kit.attachments import message
from tests.kit.engines import ad, federation, learn, report, with_links

from mangrove.gateway.ledger import Ledger
from mangrove.gateway.links.connection import LinkConnection
from mangrove.gateway.links.links import Links
from mangrove.gateway.report import gateway_report
from mangrove.gateway.trust.refusals import Refusal
from mangrove.model.status import GatewayStatus
from mangrove.overlay.protocol.control_messages import RouteAck, control_frame


def test_what_was_ignored_refused_and_dropped_is_reported() -> None:
    engine = with_links(federation(("a", "b"), ("a", "c")), "a")
    ledger = Ledger("a", epoch=1)
    links = Links(engine, ("b", "c"), carry_out=lambda _: None, attached=lambda: None)

    def status() -> GatewayStatus:
        return gateway_report(
            engine, links, ledger, now=1.0, uptime_s=1.0, head_connected=True, head_follows=True
        )

    assert (status().ignored, status().refused_connections, status().dropped) == ({}, 0, {})

    engine.receive("b", control_frame(ad("nobody", 1, x=report())), 1.0)
    learn(engine, "nobody", ["x"], "b")
    learn(engine, "c", ["fine", "$SYS.>", "a..b"], "c")
    lost = RouteAck(origin="c", epoch=1, version=0, label=1, path=["c", "b"], ok=True, reason="")
    engine.receive("b", control_frame(lost), 1.0)
    ledger.ignore("subscription that is not UTF-8")
    links.detach(LinkConnection(links, None), None, "a stranger", "said nothing", Refusal.SLOW)
    ledger.drop_body(message("x") * 2 + message("_INBOX.1"), "late")
    ledger.refuse_body("malformed body")
    ledger.sent_on += 4
    ledger.sent.add("x", 5)
    ledger.sent.requests += 1

    found = status()
    assert set(found.ignored.values()) == {1}
    assert sorted(found.ignored) == [
        "interest update that claims to be of this domain, or of none",
        "link-state advertisement that its sender cannot make",
        "route message whose path does not lead from its origin through this gateway",
        "subscription that is not UTF-8",
    ]
    assert found.sent_on == 4
    assert found.refused_by_reason == {Refusal.SLOW: 1}
    assert (found.refused_connections, found.refused_subjects, found.malformed_bodies) == (1, 2, 1)
    assert (found.dropped, [drop.topic for drop in found.drops]) == ({"late": 3}, ["x"])
    assert (found.sent, found.busiest_sent, found.requests_sent) == (6, {"x": 5}, 1)
