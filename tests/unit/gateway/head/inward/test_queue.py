"""The queue to the head broker."""

from __future__ import annotations

from mangrove.gateway.head.inward.queue import HeadQueue


class Ends:
    """Where bodies go: delivered or dropped."""

    def __init__(self, limit_bytes: int) -> None:
        self.delivered: list[bytes] = []
        self.dropped: list[bytes] = []
        self.shut_after = 0
        self.queue = HeadQueue(limit_bytes, self._deliver, self.dropped.append)

    def _deliver(self, body: bytes, _hops: int, _origin: str, _way: object) -> None:
        self.delivered.append(body)
        if len(self.delivered) == self.shut_after:
            self.queue.shut()


def test_an_open_queue_holds_nothing() -> None:
    ends = Ends(10)
    ends.queue.open()
    ends.queue.send(b"a" * 100, 1)
    assert (ends.delivered, ends.queue.held_bytes) == ([b"a" * 100], 0)


def test_a_shut_queue_holds_up_to_its_bound_and_drops_the_oldest() -> None:
    ends = Ends(10)
    for body in (b"aaaa", b"bbbb", b"cccc"):
        ends.queue.send(body, 1)
    assert (ends.delivered, ends.dropped, ends.queue.held_bytes) == ([], [b"aaaa"], 8)
    ends.queue.send(b"d" * 11, 1)
    assert ends.dropped == [b"aaaa", b"bbbb", b"cccc", b"d" * 11]
    assert ends.queue.held_bytes == 0


def test_letting_out_stops_where_the_broker_is_full_again_and_keeps_the_order() -> None:
    ends = Ends(100)
    for body in (b"1", b"2", b"3"):
        ends.queue.send(body, 1)
    ends.shut_after = 2
    ends.queue.open()
    ends.queue.send(b"4", 1)
    assert (ends.delivered, ends.queue.held_bytes) == ([b"1", b"2"], 2)
    ends.queue.open()
    assert (ends.delivered, ends.queue.held_bytes) == ([b"1", b"2", b"3", b"4"], 0)
    assert ends.dropped == []
