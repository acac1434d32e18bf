"""The emulator of brokers' lines on real sockets: every byte once, ends passed on, bad requests answered."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

import msgspec
import pytest

from mangrove.errors import InputError
from mangrove.host.ports import PortReservation
from mangrove.model.address import Address
from mangrove.testbed.broker_lines.emulated_brokers import send_bandwidth
from mangrove.testbed.broker_lines.relay import Door, LineRelay, LineSettings

HOST = "127.0.0.1"
BROKER = "harbour-edge1"


class Echo:
    """Sends back what it gets, and remembers that callers have gone."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.server: asyncio.Server

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()
        self.gone.set()


@contextlib.asynccontextmanager
async def relayed(bandwidth_mbps: float | None) -> AsyncIterator[tuple[LineRelay, Address, Address, Echo]]:
    """A relay in front of an echo: itself, where callers connect, where it is told things, and the echo."""
    echo = Echo()
    echo.server = await asyncio.start_server(echo.serve, HOST, 0)
    target = Address(*echo.server.sockets[0].getsockname()[:2])
    with PortReservation() as ports:
        door, control = (Address(HOST, ports.take(HOST)) for _ in range(2))
        relay = LineRelay(
            LineSettings(
                control=control,
                doors=(Door(broker=BROKER, listen=door, target=target),),
                bandwidths={} if bandwidth_mbps is None else {BROKER: bandwidth_mbps},
            )
        )
        running = asyncio.create_task(relay.run())
        try:
            for _ in range(200):
                with contextlib.suppress(OSError):
                    (await asyncio.open_connection(*control))[1].close()
                    break
                await asyncio.sleep(0.01)
            yield relay, door, control, echo
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            echo.server.close()


@pytest.mark.parametrize("bandwidth_mbps", [None, 40.0])
async def test_every_byte_arrives_once_and_in_order_while_the_line_changes(
    bandwidth_mbps: float | None,
) -> None:
    async with relayed(bandwidth_mbps) as (relay, door, control, echo):
        callers = [await asyncio.open_connection(*door) for _ in range(3)]
        texts = [random.Random(number).randbytes(400_000) for number in range(3)]

        async def echoed(number: int) -> bytes:
            reader, writer = callers[number]
            writer.write(texts[number])
            return await reader.readexactly(len(texts[number]))

        asking = [asyncio.create_task(echoed(number)) for number in range(3)]
        for mbps in (20.0, None, 60.0):
            await asyncio.sleep(0.02)
            await send_bandwidth(control, BROKER, mbps)
        assert await asyncio.gather(*asking) == texts
        sent, received = relay.lines[BROKER]
        assert sent.line.passed_bytes == received.line.passed_bytes == sum(map(len, texts))
        for _, writer in callers:
            writer.close()
        await asyncio.wait_for(echo.gone.wait(), 10.0)


async def test_what_was_sent_before_an_end_arrives() -> None:
    async with relayed(4.0) as (_, door, _, _):
        reader, writer = await asyncio.open_connection(*door)
        writer.write(bytes(100_000))
        assert len(await reader.readexactly(100_000)) == 100_000
        writer.close()


async def test_who_reads_nothing_holds_up_its_sender_and_nobody_else() -> None:
    async with relayed(80.0) as (relay, door, _, _):
        _, idle = await asyncio.open_connection(*door)
        idle.write(bytes(30_000_000))
        reader, writer = await asyncio.open_connection(*door)
        writer.write(bytes(100_000))
        assert len(await reader.readexactly(100_000)) == 100_000
        sent, _ = relay.lines[BROKER]
        assert all(pipe.waiting_bytes < 2_000_000 for pipe in sent.pipes), "what waits here is bounded"
        idle.transport.abort()
        writer.close()


async def test_a_target_that_is_away_ends_the_call() -> None:
    async with relayed(None) as (_, door, _, echo):
        echo.server.close()
        await echo.server.wait_closed()
        reader, writer = await asyncio.open_connection(*door)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 10.0) == b""
        writer.close()


async def test_requests_that_cannot_be_are_answered_so() -> None:
    async with relayed(None) as (relay, _, control, _):
        with pytest.raises(InputError, match="no emulated broker 'nobody'; there are: harbour-edge1"):
            await send_bandwidth(control, "nobody", 1.0)
        with pytest.raises(InputError, match="above 0"):
            await send_bandwidth(control, BROKER, -1.0)
        reader, writer = await asyncio.open_connection(*control)
        writer.write(b"nonsense\n")
        assert b"not a request" in await reader.readline()
        writer.write(msgspec.json.encode({"broker": BROKER, "bandwidth_mbps": 3.0}) + b"\n")
        assert b"true" in await reader.readline()
        assert relay.lines[BROKER][0].line.bandwidth_mbps == 3.0
        writer.close()
