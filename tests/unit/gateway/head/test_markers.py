"""Markers pass the head broker as messages do, are seen by nobody else, and come from nowhere else."""

from __future__ import annotations

import pytest
from tests.kit.attachments import Head, message

from mangrove.overlay.protocol.control_messages import (
    LinkStateAd,
    SiteReport,
    control_body,
    control_frame,
)
from mangrove.overlay.protocol.frames import FrameError

NUMBER = b"0000000000000001"


class Markers:
    """Keeps what comes in."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []

    def take(self, messages: bytes) -> None:
        self.taken.append(messages)


async def attached(markers: Markers | None) -> Head:
    head = Head(markers=markers)
    await head.connection.run()
    return head


async def test_a_marker_of_the_own_probe_reaches_it_and_is_no_message() -> None:
    markers = Markers()
    head = await attached(markers)
    assert "$MGV.a.in" in head.broker.subscribed
    head.wanted_by("b", ">")
    marker = message("$MGV.a.in", NUMBER)
    head.broker.publish(marker)
    assert markers.taken == [marker]
    assert head.messages_out() == []
    head.connection.book()
    assert head.ledger.sent.total == 0
    assert head.ledger.sent.requests == 0


async def test_without_a_probe_nothing_is_subscribed_to() -> None:
    head = await attached(None)
    assert "$MGV.a.in" not in head.broker.subscribed


async def test_a_marker_goes_out_behind_what_waits() -> None:
    head = await attached(Markers())
    head.connection.send_marker(NUMBER)
    marker = message("$MGV.a.out", NUMBER)
    assert head.broker.written == [marker]
    head.connection.writable(False)
    head.connection.deliver(message("t"))
    head.connection.send_marker(NUMBER)
    assert head.broker.written == [marker]
    head.connection.writable(True)
    assert head.broker.written == [marker, message("t"), marker]


async def test_a_marker_is_lost_with_the_broker() -> None:
    head = await attached(Markers())
    head.connection.writable(False)
    head.connection.send_marker(NUMBER)
    head.connection.lost("gone")
    head.connection.attached()
    head.connection.writable(True)
    assert head.broker.written == []


@pytest.mark.parametrize(
    ("pattern", "sees"), [(">", True), ("*.>", True), ("*.*.*", True), ("*.*", False), ("a.>", False)]
)
async def test_who_would_see_markers_is_known(pattern: str, sees: bool) -> None:
    head = await attached(Markers())
    head.broker.subscribers((pattern, "", True), (pattern, "workers", True))
    assert head.connection.onlookers is sees
    head.broker.subscribers((pattern, "", False))
    assert head.connection.onlookers is sees
    head.broker.subscribers((pattern, "workers", False))
    assert not head.connection.onlookers


async def test_another_domain_cannot_send_markers() -> None:
    head = await attached(Markers())
    head.connection.deliver(message("$MGV.a.out", NUMBER))
    assert head.broker.written == []
    assert head.ledger.history.totals.malformed_bodies == 1


def test_a_site_cannot_be_faster_than_at_once() -> None:
    forged = LinkStateAd(origin="b", epoch=1, sequence=1, links={}, site=SiteReport(egress_ms=-5.0))
    with pytest.raises(FrameError):
        control_body(control_frame(forged))
