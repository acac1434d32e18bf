"""What waits for a link and for its acknowledgement."""

from __future__ import annotations

from tests.kit.frames import frame

from mangrove.overlay.links.outgoing import Outgoing


def test_acknowledgements_are_cumulative_and_the_rest_is_given_up() -> None:
    outgoing = Outgoing(limit_bytes=100)
    frames = [frame(b"%d" % number) for number in range(6)]
    for each in frames:
        outgoing.push(each, None, 0.0)
    assert [outgoing.pull(0.0) for _ in range(5)] == frames[:5]
    outgoing.acknowledge(2)
    outgoing.acknowledge(1)
    assert outgoing.unacknowledged == 3
    given_up = outgoing.restart(0.5)
    assert [each.body for each in given_up] == [b"2", b"3", b"4", b"5"], "sent ones, then those that waited"
    assert {each.age_us for each in given_up} == {500_000}
    assert outgoing.pull(1.0) is None


def test_no_more_is_sent_than_can_be_kept_until_acknowledged() -> None:
    outgoing = Outgoing(limit_bytes=100)
    for _ in range(3):
        outgoing.push(frame(b"y" * 60), None, 0.0)
        outgoing.pull(0.0)
    assert (outgoing.unacknowledged, len(outgoing.waiting)) == (2, 1)
    outgoing.acknowledge(1)
    assert outgoing.pull(0.0) is not None


def test_acknowledgements_count_what_was_sent_not_what_was_meant_to_be() -> None:
    """An urgent frame overtakes, another one is displaced: neither disturbs what an acknowledgement means."""
    outgoing = Outgoing(limit_bytes=10)
    outgoing.push(frame(b"bulk"), None, 0.0)
    outgoing.push(frame(b"more"), None, 0.0)
    assert [lost.body for lost in outgoing.push(frame(b"alarm"), 1.0, 0.0)] == [b"more"]
    assert outgoing.pull(0.0) == frame(b"alarm")
    outgoing.acknowledge(1)
    assert [left.body for left in outgoing.restart(0.0)] == [b"bulk"]
