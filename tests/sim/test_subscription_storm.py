"""A storm of subscriptions beside a steady stream of others, over a thin link, in virtual time."""

from __future__ import annotations

from tests.kit.engines import federation

from mangrove.simulation.overlay_network import SimulatedOverlay

COUNT = 20_000


def test_a_stream_through_the_stormy_gateway_loses_nothing_and_hardly_waits() -> None:
    net = SimulatedOverlay(federation(("a", "b"), ("b", "c")), seed=1)
    net.subscribe("c", "stream")
    net.run(2.0)
    for link in net.links.values():
        link.bytes_per_s = 1e6
    begun = net.now
    net.subscribe("b", *(f"storm.subject.{number}" for number in range(COUNT)))
    sent: dict[bytes, float] = {}
    served_at = 0.0
    while net.now < begun + 2.0:
        body = b"stream %d" % len(sent)
        sent[body] = net.now
        assert net.publish("a", "stream", body)
        net.run(net.now + 0.005)
        if not served_at and all(len(net.engines[name].wanted_elsewhere()) >= COUNT for name in "ac"):
            served_at = net.now
    net.run(net.now + 1.0)
    assert served_at - begun < 2.0
    delays = [net.delivered_at["c", body] - at for body, at in sent.items()]
    assert max(delays) < 0.1
    assert not net.duplicates
    assert not any(engine.failed_links for engine in net.engines.values())
