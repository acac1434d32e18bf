from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import nats.errors
import pytest

from mangrove.host.nats_connecting import close_in_time, connect_or_close, heed_cancellation

INFO = b'INFO {"server_id":"s","version":"2.11","headers":true,"max_payload":1000}\r\n'


PONG = b"PONG\r\n"


class Door:
    """A server that greets, answers no ping unless told what with, and knows who is still there."""

    def __init__(self) -> None:
        self.answer = b""
        self.came = self.left = 0
        self.moved = asyncio.Condition()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self.moved:
            self.came += 1
            self.moved.notify_all()
        with contextlib.closing(writer), contextlib.suppress(OSError):
            writer.write(INFO)
            while line := await reader.readline():
                if line == b"PING\r\n" and self.answer:
                    writer.write(self.answer)
                    if self.answer == PONG and self.came == 1:
                        break
        async with self.moved:
            self.left += 1
            self.moved.notify_all()

    async def has_come(self, many: int) -> None:
        async with asyncio.timeout(5), self.moved:
            await self.moved.wait_for(lambda: self.came >= many)


@pytest.fixture
async def door() -> AsyncIterator[tuple[Door, str]]:
    door = Door()
    async with await asyncio.start_server(door.serve, "127.0.0.1", 0) as server:
        yield door, f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def all_left(door: Door) -> None:
    async with asyncio.timeout(5), door.moved:
        await door.moved.wait_for(lambda: 0 < door.came == door.left)


async def quiet(_: Exception) -> None:
    pass


async def test_one_that_is_turned_away_leaves_no_socket(door: tuple[Door, str]) -> None:
    door[0].answer = b"-ERR 'Authorization Violation'\r\n"
    with pytest.raises(nats.errors.Error):
        await connect_or_close(door[1], allow_reconnect=False, error_cb=quiet)
    await all_left(door[0])


@pytest.mark.parametrize("reconnect", [True, False])
async def test_one_that_is_no_longer_waited_for_leaves_no_socket(
    door: tuple[Door, str], reconnect: bool
) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await connect_or_close(door[1], allow_reconnect=reconnect, error_cb=quiet)
    await all_left(door[0])


async def test_one_that_is_closed_while_it_connects_again_leaves_no_socket_and_no_task(
    door: tuple[Door, str],
) -> None:
    """The first connection is cut as soon as it stands; on the others nothing is ever answered."""
    door[0].answer = PONG
    client = await connect_or_close(
        door[1], max_reconnect_attempts=-1, reconnect_time_wait=0, connect_timeout=30, error_cb=quiet
    )
    door[0].answer = b""
    await door[0].has_come(2)
    before = asyncio.all_tasks()
    await close_in_time(client)
    await all_left(door[0])
    assert client.is_closed
    assert not {each.get_name() for each in asyncio.all_tasks() - before}
    reconnecting = client._reconnection_task
    assert reconnecting is None or reconnecting.done()


async def test_a_cancellation_that_the_library_forgets_is_heeded() -> None:
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def ask() -> None:
        await asyncio.wait_for(answer, 5)
        heed_cancellation()

    asking = asyncio.create_task(ask())
    await asyncio.sleep(0)
    answer.set_result(None)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
