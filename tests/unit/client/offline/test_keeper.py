"""What a keeper does with what waits, whatever its connection says to it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.kit.waiting import eventually

from mangrove.broker.rabbitmq.client.connection import RabbitClientConnection
from mangrove.client.offline.keeper import Keeper
from mangrove.client.offline.kept import Kept, Reason
from mangrove.client.offline.settings import Offline
from mangrove.client.offline.spool import look_into
from mangrove.client.publishing import Outcome, Published
from mangrove.model.congestion.terms import TopicTerms


class Wire(RabbitClientConnection):
    """A connection to a RabbitMQ that is there as long as a test wants; what is said stays in it."""

    def __init__(self) -> None:
        super().__init__(["amqp://127.0.0.1:1"], "wire")
        self.there = False

    @property
    def connected(self) -> bool:
        return self.there

    async def flush(self, timeout_s: float) -> None:
        await asyncio.sleep(0)


class Sender:
    """Sends what has waited by one connection."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.asked = 0
        self.sent: list[Kept] = []
        self.limited: set[str] = set()
        self.judged = 0
        self.elsewhere: dict[str, Wire] = {}
        """By the first word of subjects."""

    def wire_of(self, subject: str) -> Wire:
        self.asked += 1
        return self.elsewhere.get(subject.partition(".")[0], self.wire)

    def send_kept(self, kept: Kept) -> Outcome:
        self.judged += 1
        if kept.subject in self.limited:
            return Outcome.LIMITED
        self.wire_of(kept.subject).publish(kept.subject, kept.payload, reply=kept.reply, head=kept.head)
        self.sent.append(kept)
        return Outcome.SENT

    def wait_s(self, subject: str) -> float:
        return 0.05

    def too_large(self, kept: Kept) -> bool:
        return False

    async def gateway_back(self, wire: object) -> None:
        """It is."""


@asynccontextmanager
async def keeping(
    settings: Offline, terms: Iterable[TopicTerms] = ()
) -> AsyncIterator[tuple[Keeper, Sender]]:
    keeper = Keeper(settings, b"%d %d", terms)
    sender = Sender(Wire())
    keeper.begin(sender)
    yield keeper, sender
    await keeper.close()


async def test_what_this_kind_of_broker_cannot_carry_is_dropped_and_the_rest_is_sent() -> None:
    """As when a folder was filled while the site had a NATS: nobody else waits for it for ever."""
    async with keeping(Offline(settle_s=0)) as (keeper, sender):
        for subject, reply in (("x." * 200 + "x", ""), ("asked", "answers.of.before"), ("usual", "")):
            keeper.keep(subject, b"1", b"", reply, 1 << 62)
        sender.wire.there = True
        keeper.routed("usual")

        async def sent() -> bool:
            return not keeper.state()

        await eventually(sent, "nothing waits any longer")
        assert [kept.subject for kept in sender.sent] == ["usual"]
        dropped = keeper.state().dropped
        assert {subject: {*reasons} for subject, reasons in dropped.items()} == {
            "x." * 200 + "x": {Reason.NOT_CARRIED},
            "asked": {Reason.NOT_CARRIED},
        }


async def test_a_message_that_fails_in_a_way_nobody_thought_of_costs_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with keeping(Offline(settle_s=0)) as (keeper, sender):
        send = sender.send_kept

        def fail_once(kept: Kept) -> Outcome:
            if kept.payload == b"bad":
                raise LookupError("nobody thought of this")
            return send(kept)

        monkeypatch.setattr(sender, "send_kept", fail_once)
        for payload in (b"1", b"bad", b"2"):
            keeper.keep("usual", payload, b"", "", 1 << 62)
        sender.wire.there = True
        keeper.routed("usual")

        async def sent() -> bool:
            return not keeper.state()

        await eventually(sent, "nothing waits any longer")
        assert [kept.payload for kept in sender.sent] == [b"1", b"2"]
        assert keeper.state().dropped == {"usual": {Reason.NOT_CARRIED: Published(1, 3)}}


async def test_what_comes_while_no_broker_is_there_has_nobody_look_through_all_that_waits() -> None:
    async with keeping(Offline(settle_s=0)) as (keeper, sender):
        for number in range(5_000):
            keeper.keep(f"sensor.{number}", b"1", b"", "", time.time_ns())
        await asyncio.sleep(0.01)
        before = sender.asked
        for number in range(10):
            keeper.keep(f"sensor.{number}", b"2", b"", "", time.time_ns())
            await asyncio.sleep(0.001)
        assert sender.asked - before < 100


async def test_subjects_whose_way_is_closed_are_not_passed_over_for_each_that_is_sent() -> None:
    async with keeping(Offline(settle_s=0)) as (keeper, sender):
        sender.elsewhere["closed"] = Wire()
        await asyncio.sleep(0)
        for number in range(5_000):
            keeper.keep(f"closed.{number}", b"1", b"", "", time.time_ns())
        for number in range(2 * 500):
            keeper.keep(f"open.{number % 500}", b"1", b"", "", time.time_ns())
        before = sender.asked
        sender.wire.there = True
        keeper.routed("open.0")

        async def sent() -> bool:
            return len(sender.sent) == 1_000

        await eventually(sent, "what can be sent is sent")
        counts = [before]

        async def all_looked_at() -> bool:
            counts.append(sender.asked)
            return counts[-1] == counts[-2]

        await eventually(all_looked_at, "those that are closed are set aside, too")
        assert sender.asked - before < 10_000, "each is looked at once, not for each of the others"
        before = sender.asked
        for _ in range(20):
            keeper.keep("open.1", b"2", b"", "", time.time_ns())
            await asyncio.sleep(0.001)
        assert sender.asked - before < 500, "what comes on a way that is open has nobody look at the rest"
        sender.elsewhere["closed"].there = True
        keeper.wire_back(sender.elsewhere["closed"])

        async def empty() -> bool:
            return not keeper.state()

        await eventually(empty, "what was closed is sent, too")
        assert [kept.subject for kept in sender.sent[-5_000:]] == [f"closed.{n}" for n in range(5_000)]


async def test_subjects_at_their_limits_are_not_passed_over_for_each_that_is_sent() -> None:
    async with keeping(Offline(settle_s=0)) as (keeper, sender):
        sender.limited = {f"limited.{number}" for number in range(2_000)}
        for subject in sorted(sender.limited):
            keeper.keep(subject, b"1", b"", "", time.time_ns())
        for number in range(500):
            keeper.keep(f"open.{number}", b"1", b"", "", time.time_ns())
        sender.wire.there = True
        keeper.routed("open.0")

        async def sent() -> bool:
            return len(sender.sent) == 500

        await eventually(sent, "what can be sent is sent")
        assert sender.judged < 50_000, "a few times each, not for each of the others"
        sender.limited.clear()

        async def empty() -> bool:
            return not keeper.state()

        await eventually(empty, "limits are over")


async def test_what_is_urgent_comes_first_when_its_way_is_open_and_each_subject_stays_in_order() -> None:
    urgent = TopicTerms(match="alert.>", deadline_ms=100.0)
    async with keeping(Offline(settle_s=0), [urgent]) as (keeper, sender):
        sender.elsewhere["alert"] = Wire()
        for number in range(4 * 1_000):
            keeper.keep(f"usual.{number % 4}", b"%d" % number, b"", "", time.time_ns())
        for number in range(10):
            keeper.keep("alert.a", b"%d" % number, b"", "", time.time_ns())
        sender.wire.there = True
        keeper.routed("usual.0")
        for _ in range(5):
            await asyncio.sleep(0)
        so_far = len(sender.sent)
        assert 0 < so_far < 2_000
        sender.elsewhere["alert"].there = True
        keeper.routed("alert.a")
        for number in range(10, 20):
            keeper.keep("alert.a", b"%d" % number, b"", "", time.time_ns())

        async def empty() -> bool:
            return not keeper.state()

        await eventually(empty, "all is sent")
        assert [kept.subject for kept in sender.sent[so_far : so_far + 20]] == ["alert.a"] * 20
        for subject in ("alert.a", *(f"usual.{number}" for number in range(4))):
            numbers = [int(kept.payload) for kept in sender.sent if kept.subject == subject]
            assert numbers == sorted(numbers)


async def test_what_a_full_disk_did_not_take_is_written_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the problem is told, also when the disk has taken something smaller meanwhile."""
    write = os.write

    def full(descriptor: int, data: memoryview) -> int:
        if len(data) > 1_000:
            raise OSError(28, "No space left on device")
        return write(descriptor, data)

    async with keeping(Offline(settle_s=0, sync_s=0.05, directory=tmp_path / "spool")) as (keeper, _):
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", full)
            keeper.keep("a.large", bytes(2_000), b"", "", time.time_ns())
            keeper.keep("a.small", b"1", b"", "", time.time_ns())
            await asyncio.sleep(0.2)
            assert keeper.state().problem == "No space left on device"
            assert [kept.subject for kept in look_into(tmp_path / "spool").waiting] == ["a.small"]

        async def well() -> bool:
            return not keeper.state().problem

        await eventually(well, "all should be on disk")
        waiting = look_into(tmp_path / "spool").waiting
        assert [kept.subject for kept in waiting] == ["a.large", "a.small"]


async def test_what_was_sent_while_the_disk_was_full_is_not_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The problem is told until the disk knows what is over; then no other process sends it again."""
    folder = tmp_path / "spool"

    def full(descriptor: int, data: memoryview) -> int:
        raise OSError(28, "No space left on device")

    async with keeping(Offline(settle_s=0, sync_s=0.05, directory=folder)) as (keeper, sender):
        keeper.keep("refused", b"1", b"", "", time.time_ns())
        keeper.keep("usual", b"1", b"", "", time.time_ns())
        sender.limited.add("usual")
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", full)
            sender.wire.there = True
            keeper.routed("refused")

            async def sent() -> bool:
                return not len(keeper._flight) and keeper.state().messages == 1

            await eventually(sent, "it is sent, and confirmed long ago")
            await asyncio.sleep(0.2)
            assert keeper.state().problem == "No space left on device"
            assert len(look_into(folder).waiting) == 2

        async def well() -> bool:
            return not keeper.state().problem

        await eventually(well, "the disk should know")
        assert [kept.subject for kept in look_into(folder).waiting] == ["usual"]


async def test_what_the_disk_did_not_take_is_tried_once_more_when_the_connection_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And what it does not take then is given up, counted and warned of."""
    folder = tmp_path / "spool"
    write, room = os.write, [0]

    def full(descriptor: int, data: memoryview) -> int:
        if len(data) > room[0]:
            raise OSError(28, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    async with keeping(Offline(settle_s=0, sync_s=60, directory=folder)) as (keeper, _):
        for subject, size in (("a", 10), ("b", 2_000), ("b", 20), ("c", 3_000)):
            keeper.keep(subject, bytes(size), b"", "", time.time_ns())
        assert not look_into(folder).waiting
        room[0] = 1_000
    assert [(kept.subject, len(kept.payload)) for kept in look_into(folder).waiting] == [("a", 10), ("b", 20)]
    state = keeper.state()
    assert state.messages == 2
    counts = {
        subject: (each[Reason.CLOSED].messages, each[Reason.CLOSED].size_bytes)
        for subject, each in state.dropped.items()
    }
    assert counts == {"b": (1, 2_000), "c": (1, 3_000)}
    assert "2 messages that waited for a broker were not sent" in caplog.text
