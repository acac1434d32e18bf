"""The tap's counting on its own."""

from __future__ import annotations

import time

import pytest

from mangrove.broker.nats.tap import MAX_PATTERNS, TEXT_BYTES, Slice, Tap, TextSample, TopicCount


class Wire:
    """Stands in for a socket: keeps what is written."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        pass


def tap_on(*patterns: str, budget: int = 1000) -> tuple[Tap, Wire]:
    tap, wire = Tap("nats://127.0.0.1:4222", budget), Wire()
    tap.connection_made(wire)  # type: ignore[arg-type]
    tap.follow(patterns)
    return tap, wire


def test_a_message_that_several_patterns_match_counts_once() -> None:
    tap, wire = tap_on("a.*", "*.b", "a.b")
    assert wire.written == b"SUB *.b 1\r\nSUB a.* 2\r\n", "a.b is covered by a.*"
    tap.data_received(b"MSG a.b 1 3\r\nxyz\r\nMSG a.b 2 3\r\nxyz\r\nMSG a.c 2 2\r\nxy\r\n")
    seen = tap.take()
    assert {topic: count.messages for topic, count in seen.topics.items()} == {"a.b": 1, "a.c": 1}
    assert seen.topics["a.b"].size_bytes == 3


def test_messages_cut_anywhere_are_counted_and_stamps_read() -> None:
    header = b"NATS/1.0\r\nMangrove-Time: %d\r\n\r\n" % (time.time_ns() - 5_000_000)
    message = b"HMSG a %d %d %d\r\n%bxx\r\n" % (1, len(header), len(header) + 2, header)
    for cut in range(1, len(message)):
        tap, _ = tap_on("a")
        tap.data_received(b"PING\r\n" + message[:cut])
        tap.data_received(message[cut:] + message)
        (count,) = tap.take().topics.values()
        assert count.messages == 2
        assert all(5.0 <= latency < 1000.0 for latency in count.latencies_ms)
        assert sum(count.histogram()) == 2


def test_the_budget_ends_the_slice_and_the_count_is_scaled() -> None:
    tap, wire = tap_on("a", budget=10)
    tap.data_received(b"MSG a 1 1\r\nx\r\n" * 11)
    assert wire.written.endswith(b"UNSUB 1\r\n")
    tap.follow(["a"])
    assert wire.written.endswith(b"SUB a 2\r\n"), "the next second has a new budget"
    assert Slice(0.25, {}).scaled(10) == 40
    assert Slice(0.25, {"a": TopicCount(100)}).error_ratio == pytest.approx((0.75 / 100) ** 0.5)
    assert Slice(0.0, {}).error_ratio is None


def test_resting_asks_for_nothing() -> None:
    tap, wire = tap_on("a")
    tap.rest()
    assert wire.written.endswith(b"UNSUB 1\r\n")
    assert tap.take().share == 0.0


def test_only_what_differs_is_told_to_the_broker() -> None:
    tap, wire = tap_on("a", "b.*", "c")
    wire.written = b""
    tap.follow(["a", "b.*", "d"])
    assert wire.written == b"UNSUB 3\r\nSUB d 4\r\n"
    wire.written = b""
    tap.follow(["d", "a", "b.*"])
    tap.resume()
    assert wire.written == b""


def test_a_message_goes_on_to_count_once_when_its_pattern_goes() -> None:
    tap, _ = tap_on("*.b", "a.*")
    tap.data_received(b"MSG a.b 1 1\r\nx\r\nMSG a.b 2 1\r\nx\r\n")
    tap.follow(["a.*"])
    tap.data_received(b"MSG a.b 1 1\r\nx\r\nMSG a.b 2 1\r\nx\r\nMSG a.b 2 1\r\nx\r\n")
    assert tap.take().topics["a.b"].messages == 3, "one before, two after; what was under way is not counted"


def test_too_many_patterns_are_cut_to_the_weightiest_and_the_rest_is_counted() -> None:
    tap, wire = Tap("nats://127.0.0.1:4222", max_patterns=2), Wire()
    tap.connection_made(wire)  # type: ignore[arg-type]
    tap.follow({"a.x": 1, "a.y": 9, "a.z": 1, "b.>": 1, "b.c": 7})
    assert wire.written == b"SUB a.y 1\r\nSUB b.> 2\r\n", "b.> has the weight of all that it covers"
    assert tap.left_out == 2
    wire.written = b""
    tap.follow({"a.x": 1, "a.y": 1, "b.>": 1, "c": 1, "d": 1})
    assert wire.written == b"", "among equals those that are followed stay"
    assert tap.left_out == 3


def test_a_hundred_thousand_patterns_are_followed_in_bounds() -> None:
    tap, wire = Tap("nats://127.0.0.1:4222"), Wire()
    tap.connection_made(wire)  # type: ignore[arg-type]
    tap.follow(f"plant.line{n % 500:03}.sensor{n:06}" for n in range(100_000))
    assert wire.written.count(b"SUB ") == MAX_PATTERNS
    assert tap.left_out == 100_000 - MAX_PATTERNS


def test_messages_on_ever_new_topics_use_the_budget_up_sooner() -> None:
    tap, wire = tap_on("a.*", budget=100)
    tap.data_received(b"".join(b"MSG a.%d 1 1\r\nx\r\n" % n for n in range(20)))
    assert not wire.written.endswith(b"UNSUB 1\r\n")
    tap.data_received(b"MSG a.99 1 1\r\nx\r\n")
    assert wire.written.endswith(b"UNSUB 1\r\n")
    assert tap.take().messages == 21


def test_texts_are_kept_only_where_they_may_be_and_of_each_topic_the_last() -> None:
    tap = Tap("nats://127.0.0.1:4222", may_sample=lambda topic: topic.startswith("open."))
    tap.connection_made(Wire())  # type: ignore[arg-type]
    tap.follow(["open.*", "closed.*"])
    sid = {"closed": 1, "open": 2}
    header = b"NATS/1.0\r\nMangrove-Keywords: flood,dam\r\nOther: x\r\n\r\n"
    long = b"y" * (TEXT_BYTES + 5)
    for topic, head, body in (
        ("open.a", header, b"first"),
        ("open.a", header, b"water rises"),
        ("open.b", b"", b"no head"),
        ("open.c", b"NATS/1.0\r\nMangrove-Keywords: %b\r\n\r\n" % (b"abc," * TEXT_BYTES), long),
        ("closed.a", header, b"secret"),
    ):
        number, size = sid[topic.split(".")[0]], len(head) + len(body)
        line = f"HMSG {topic} {number} {len(head)} {size}" if head else f"MSG {topic} {number} {size}"
        tap.data_received(line.encode() + b"\r\n" + head + body + b"\r\n")
    found = tap.take()
    assert found.topics.keys() == {"open.a", "open.b", "open.c", "closed.a"}
    assert found.texts.pop("open.c").cut
    assert found.texts == {
        "open.a": TextSample(b" flood,dam", b"water rises", cut=False),
        "open.b": TextSample(b"", b"no head", cut=False),
    }
    assert tap.take().texts == {}
