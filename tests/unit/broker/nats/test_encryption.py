"""A leaf-node connection becomes an encrypted one, or none: nothing in the clear passes for more."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.kit.keyed import made
from tests.kit.waiting import eventually

from mangrove.broker.nats.encryption import MAX_GREETING_BYTES, connect_encrypted
from mangrove.overlay.protocol.bodies import WireError

INFO = b'INFO {"server_name":"s","version":"2","headers":true,"tls_required":true}\r\n'
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Far(asyncio.Protocol):
    """What a leaf node gets."""

    def __init__(self) -> None:
        self.made = 0
        self.received = b""
        self.lost = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.made += 1
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost += 1

    async def answered(self) -> bool:
        return self.received.endswith(b"PONG\r\n")

    async def ended(self) -> bool:
        return bool(self.lost)


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[int]:
    async def then_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(then_close, "127.0.0.1")
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a broker, and of who believes it."""
    keys = made(tmp_path_factory.mktemp("keys") / "keys")
    own = keys.domain("a")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(own.broker_certificate("a-head"), own.broker_key("a-head"))
    return server, ssl.create_default_context(cafile=str(keys.trusted))


async def test_the_greeting_and_what_is_said_under_tls_come_through(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    server, client = contexts

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(INFO)
        await writer.start_tls(server)
        assert await reader.readline() == b"CONNECT\r\n"
        writer.write(b"PONG\r\n")
        await reader.read()

    async with serving(broker) as port:
        far = Far()
        await connect_encrypted(far, "127.0.0.1", port, client)
        assert (far.made, far.received) == (1, INFO)
        assert isinstance(far.transport, asyncio.Transport)
        far.transport.write(b"CONNECT\r\n")
        await eventually(far.answered, "the broker should answer")
        far.transport.close()
        await eventually(far.ended, "the connection should end")


@pytest.mark.parametrize(
    "said",
    [
        INFO + b"PONG\r\n",
        INFO + b"LS+ >\r\n",
        b"HELLO\r\n",
        b"INFO " + b"x" * MAX_GREETING_BYTES,
    ],
    ids=["an answer", "interest", "another protocol", "an endless line"],
)
async def test_nothing_else_is_taken_in_the_clear(
    said: bytes, contexts: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await reader.read()

    async with serving(broker) as port:
        far = Far()
        with pytest.raises(WireError):
            await connect_encrypted(far, "127.0.0.1", port, contexts[1])
        assert (far.made, far.received, far.lost) == (0, b"", 0)


@pytest.mark.parametrize("greets", [True, False])
async def test_a_broker_that_does_not_go_on_under_tls_is_left(
    greets: bool, contexts: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if greets:
            writer.write(INFO)
            await reader.read(1)
            writer.write(b"-ERR 'no'\r\n")

    async with serving(broker) as port:
        far = Far()
        with pytest.raises(OSError):
            await connect_encrypted(far, "127.0.0.1", port, contexts[1])
        assert (far.made, far.lost) == (0, 0)


async def test_a_broker_of_somebody_else_is_left(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(INFO)
        await writer.start_tls(contexts[0])

    async with serving(broker) as port:
        with pytest.raises(ssl.SSLError):
            await connect_encrypted(Far(), "127.0.0.1", port, ssl.create_default_context())
