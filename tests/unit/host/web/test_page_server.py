"""A few pages by HTTP: right answers, and bounds for who does not behave."""

from __future__ import annotations

import asyncio
import socket

import pytest

from mangrove.errors import MangroveError
from mangrove.host.web import page_server
from mangrove.host.web.health import Readiness, health_pages, telling_health
from mangrove.host.web.page_server import MAX_REQUEST_BYTES, Page, PageServer
from mangrove.model.address import Address

LOCAL = Address("127.0.0.1", 0)


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


async def hello() -> Page:
    return Page(b"hello\n")


async def test_pages_are_served_by_get_and_head_alone() -> None:
    server = PageServer(LOCAL, {"/hello": hello})
    await server.start()
    try:
        found = await ask(server.port, get("/hello?a=b"))
        assert found.startswith(b"HTTP/1.1 200 OK\r\n")
        assert found.endswith(b"\r\n\r\nhello\n")
        head = await ask(server.port, get("/hello").replace(b"GET", b"HEAD"))
        assert b"Content-Length: 6\r\n" in head
        assert head.endswith(b"\r\n\r\n")
        assert (await ask(server.port, get("/other"))).startswith(b"HTTP/1.1 404")
        assert (await ask(server.port, get("/hello").replace(b"GET", b"POST"))).startswith(b"HTTP/1.1 405")
    finally:
        await server.close()


async def test_garbage_and_floods_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(page_server, "REQUEST_S", 2.0)
    server = PageServer(LOCAL, {"/hello": hello})
    await server.start()
    try:
        assert await ask(server.port, b"x" * (2 * MAX_REQUEST_BYTES)) == b""
        assert b"405" in await ask(server.port, b"\xff\xfe\x00 nonsense\r\n\r\n")
        waiting = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2)]
        await asyncio.sleep(0.05)
        assert await ask(server.port, get("/hello")) == b"", "too many are there"
        assert [await reader.read() for reader, _ in waiting] == [b"", b""], "who says nothing is let go"
        for _, writer in waiting:
            writer.close()
        assert b"hello" in await ask(server.port, get("/hello"))
        assert dict(server.refused) == {
            "LimitOverrunError": 1,
            "method": 1,
            "too many connections": 1,
            "TimeoutError": 2,
        }
    finally:
        await server.close()


@pytest.mark.parametrize("size", [1 << 15, 60_000, 100_000, 1 << 20])
async def test_who_reads_slowly_gets_all_of_a_page(size: int) -> None:
    """Over a network a socket takes less than a page of metrics at a time: the rest waits, and is sent."""

    async def page() -> Page:
        return Page(b"x" * size)

    server = PageServer(LOCAL, {"/page": page})
    await server.start()
    assert server._server is not None
    server._server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    try:
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.connect(("127.0.0.1", server.port))
            reader, writer = await asyncio.open_connection(sock=raw, limit=4096)
            writer.write(get("/page"))
            await asyncio.sleep(0.05)
            found = await reader.read()
            writer.close()
        assert len(found.partition(b"\r\n\r\n")[2]) == size
        assert not server.refused
    finally:
        await server.close()


async def test_a_port_that_is_taken_is_said() -> None:
    server = PageServer(LOCAL, {})
    await server.start()
    with pytest.raises(MangroveError, match="cannot listen"):
        await PageServer(Address("127.0.0.1", server.port), {}).start()
    await server.close()


async def test_a_process_that_misses_something_is_alive_and_not_ready() -> None:
    checks = {"head broker": False}
    async with telling_health(LOCAL, lambda: Readiness(process="gateway", checks=checks)) as server:
        assert server is not None
        assert (await ask(server.port, get("/healthz"))).startswith(b"HTTP/1.1 200")
        found = await ask(server.port, get("/readyz"))
        assert found.startswith(b"HTTP/1.1 503")
        assert b'{"ready":false,"process":"gateway","checks":{"head broker":false}}' in found
        checks["head broker"] = True
        assert (await ask(server.port, get("/readyz"))).startswith(b"HTTP/1.1 200")
        assert (await ask(server.port, get("/metrics"))).startswith(b"HTTP/1.1 404")


async def test_nothing_listens_unless_asked_for() -> None:
    async with telling_health(None, lambda: Readiness(process="gateway")) as server:
        assert server is None
    assert "/metrics" not in health_pages(lambda: Readiness(process="gateway"))
