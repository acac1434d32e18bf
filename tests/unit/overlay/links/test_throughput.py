"""What one end of a link sends, smoothed."""

from __future__ import annotations

import msgspec
import pytest

from mangrove.overlay.links.throughput import Throughput
from mangrove.overlay.network.link_state import LinkStateDatabase
from mangrove.overlay.protocol.control_messages import LinkReport, LinkStateAd


def test_a_steady_rate_is_found_and_forgotten() -> None:
    throughput = Throughput()
    for step in range(401):
        throughput.settle(step * 0.05)
        throughput.took(62_500)
    assert throughput.mbps == pytest.approx(10.0, rel=0.01)
    for step in range(401, 801):
        throughput.settle(step * 0.05)
    assert throughput.mbps < 0.01


def test_a_report_without_a_load_is_understood_and_a_nonsensical_one_is_not() -> None:
    old = msgspec.msgpack.decode(msgspec.msgpack.encode({"up": True, "delay_ms": 1.0}), type=LinkReport)
    assert (old.used_mbps, old.limit_mbps) == (0.0, 0.0)
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(
            msgspec.msgpack.encode({"up": True, "delay_ms": 1.0, "used_mbps": -1.0}), type=LinkReport
        )


def test_loads_are_told_apart_by_direction_and_advertised_when_they_change() -> None:
    database = LinkStateDatabase("a", 1, [("a", "b")])

    def report(used_mbps: float) -> dict[str, LinkReport]:
        return {"b": LinkReport(up=True, delay_ms=1.0, used_mbps=used_mbps)}

    assert database.advertise(report(10.0), 0.0) is not None
    assert database.advertise(report(11.0), 1.0) is None
    assert database.advertise(report(20.0), 1.1) is not None
    other = LinkReport(up=True, delay_ms=1.0, used_mbps=3.0, limit_mbps=50.0)
    database.receive(LinkStateAd(origin="b", epoch=1, sequence=1, links={"a": other}))
    measured = database.measured()
    assert measured.used_mbps == {("a", "b"): 20.0, ("b", "a"): 3.0}
    assert measured.limit_mbps == {("b", "a"): 50.0}
