"""What is not confirmed is published again, in its order, before anything new."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from tests.kit.waiting import eventually

from mangrove.broker.rabbitmq.messages import publisher as publisher_module
from mangrove.broker.rabbitmq.messages.publisher import NOT_TAKEN, Publisher
from mangrove.broker.rabbitmq.wire.connection import AmqpConnection


class Line:
    """What a publisher needs of a connection."""

    def __init__(self) -> None:
        self.written = b""
        self.on_confirm: Callable[[int, bool, bool], None] = lambda _tag, _multiple, _taken: None
        self.on_writable: Callable[[bool], None] = lambda _: None

    def write(self, data: bytes) -> None:
        self.written += data


def made() -> tuple[Publisher, list[bool], list[tuple[str, int]]]:
    writable: list[bool] = []
    lost: list[tuple[str, int]] = []
    return Publisher(writable.append, lambda reason, count: lost.append((reason, count))), writable, lost


def attach(publisher: Publisher) -> Line:
    line = Line()
    publisher.attached(cast("AmqpConnection", line))
    return line


async def test_only_what_was_not_confirmed_comes_again() -> None:
    publisher, _, _ = made()
    first = attach(publisher)
    publisher.publish([b"1", b"2", b"3", b"4", b"5"])
    first.on_confirm(2, True, True)
    first.on_confirm(4, False, True)
    publisher.lost()
    second = attach(publisher)
    publisher.publish([b"6"])
    assert first.written == b"12345"
    assert second.written == b"356"
    assert publisher.repeated == 2
    second.on_confirm(3, True, True)
    assert publisher.unconfirmed == 0


async def test_what_is_left_goes_out_without_anything_new() -> None:
    publisher, _, _ = made()
    attach(publisher)
    publisher.publish([b"1"])
    publisher.lost()
    line = attach(publisher)
    assert line.written == b""

    async def written() -> bool:
        return line.written == b"1"

    await eventually(written, "what is left should be published")


async def test_a_broker_lost_again_before_that_loses_nothing() -> None:
    publisher, _, _ = made()
    attach(publisher)
    publisher.publish([b"1"])
    for _ in range(3):
        publisher.lost()
        line = attach(publisher)
    publisher.publish([b"2"])
    assert line.written == b"12"


async def test_the_owner_waits_while_too_much_is_not_confirmed() -> None:
    publisher, writable, _ = made()
    line = attach(publisher)
    publisher.publish([b"x"] * (publisher_module.MAX_UNCONFIRMED + 1))
    assert writable == [False]
    line.on_confirm(publisher_module.MAX_UNCONFIRMED // 4, True, True)
    assert writable == [False]
    line.on_confirm(publisher_module.MAX_UNCONFIRMED, True, True)
    assert writable == [False, True]
    line.on_writable(False)
    assert writable == [False, True, False]


async def test_what_the_broker_does_not_take_is_counted() -> None:
    publisher, _, lost = made()
    line = attach(publisher)
    publisher.publish([b"1", b"2"])
    line.on_confirm(2, True, False)
    assert lost == [(NOT_TAKEN, 2)]
    assert publisher.unconfirmed == 0


async def test_what_the_broker_refuses_is_found_and_left_out() -> None:
    """A refusal closes the channel; the rest is published, in its order."""
    publisher, _, lost = made()
    attach(publisher)
    publisher.publish([b"1", b"bad", b"3"])
    publisher.lost(refused=True)
    line = attach(publisher)
    publisher.publish([b"4"])
    assert line.written == b"1"
    line.on_confirm(1, False, True)
    assert line.written == b"1bad"
    publisher.lost(refused=True)
    assert lost == [(NOT_TAKEN, 1)]
    line = attach(publisher)
    publisher.publish([b"5"])
    for number in range(1, 4):
        line.on_confirm(number, False, True)
    assert line.written == b"345"
    assert publisher.unconfirmed == 0
    publisher.publish([b"6", b"7"])
    assert line.written == b"34567"


async def test_what_comes_while_nobody_is_there_follows_what_is_left() -> None:
    publisher, _, _ = made()
    attach(publisher)
    publisher.publish([b"1"])
    publisher.lost()
    publisher.publish([b"2"])
    line = attach(publisher)
    publisher.publish([b"3"])
    assert line.written == b"123"


async def test_what_comes_beside_a_refused_message_is_not_left_out_with_it() -> None:
    publisher, _, lost = made()
    attach(publisher)
    publisher.publish([b"bad"])
    publisher.lost(refused=True)
    line = attach(publisher)
    publisher.publish([b"1", b"2"])
    publisher.publish([b"3"])
    assert line.written == b"bad"
    publisher.lost(refused=True)
    assert lost == [(NOT_TAKEN, 1)]
    line = attach(publisher)
    publisher.publish([b"4"])
    assert line.written == b"1234"


async def test_only_what_was_under_way_is_published_one_by_one() -> None:
    """A stream that does not pause would never be fast again."""
    publisher, _, _ = made()
    attach(publisher)
    publisher.publish([b"1", b"2"])
    publisher.lost(refused=True)
    line = attach(publisher)
    publisher.publish([b"3", b"4", b"5"])
    line.on_confirm(1, False, True)
    publisher.publish([b"6"])
    assert line.written == b"12"
    line.on_confirm(2, False, True)
    assert line.written == b"123456"
    publisher.publish([b"7"])
    assert line.written == b"1234567"


async def test_a_login_that_is_refused_suspects_no_message() -> None:
    """As while keys are replaced: a refusal of later on costs one message, and not all that are under way."""
    publisher, _, lost = made()
    publisher.lost(refused=True)
    line = attach(publisher)
    publisher.publish([b"1", b"bad", b"3"])
    publisher.lost(refused=True)
    assert not lost
    line = attach(publisher)
    publisher.publish([b"4"])
    line.on_confirm(1, False, True)
    publisher.lost(refused=True)
    assert lost == [(NOT_TAKEN, 1)]
    assert publisher.unconfirmed == 2
