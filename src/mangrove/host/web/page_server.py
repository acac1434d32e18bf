"""A few pages by HTTP, for supervisors and collectors: bounded in everything, and no framework.

Only GET and HEAD; a connection is for one request. Who is slow, sends too much, or comes when too many are
there is turned away and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from mangrove.errors import MangroveError
from mangrove.model.address import Address

log = logging.getLogger(__name__)

MAX_REQUEST_BYTES = 8 << 10
MAX_CONNECTIONS = 32
REQUEST_S = 5.0
ANSWER_S = 10.0
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 501: "Not Implemented"}
REASONS[503] = "Service Unavailable"


class Page(msgspec.Struct, frozen=True):
    """An answer."""

    body: bytes
    kind: str = TEXT
    status: int = 200


Maker = Callable[[], Awaitable[Page]]


class PageServer:
    """Serves pages from `start` to `close`."""

    def __init__(self, at: Address, pages: Mapping[str, Maker]) -> None:
        self._at = at
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.refused: Counter[str] = Counter()

    @property
    def port(self) -> int:
        """Where it listens; another than asked for if that was 0."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        """Listen; `MangroveError` if the port cannot be had."""
        try:
            self._server = await asyncio.start_server(
                self._came, self._at.host, self._at.port, limit=MAX_REQUEST_BYTES
            )
        except OSError as error:
            raise MangroveError(
                f"cannot listen at {self._at}: {error.strerror or error}", hint="choose another port"
            ) from None

    async def close(self) -> None:
        """Stop listening, and end what is under way."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= MAX_CONNECTIONS:
            self.refused["too many connections"] += 1
            writer.transport.abort()
            return
        self._open.add(task)
        try:
            with contextlib.suppress(OSError):
                await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the server closes; asyncio would complain of a task that ends so
        finally:
            self._open.discard(task)
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            self.refused[type(error).__name__] += 1
            return
        method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        page = await self._page(method, path)
        length = len(page.body)
        # Drained is then sent, to the last byte: what were left at the end would be cut off.
        writer.transport.set_write_buffer_limits(high=0)
        lines = (
            f"HTTP/1.1 {page.status} {REASONS[page.status]}",
            f"Content-Type: {page.kind}",
            f"Content-Length: {length}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
        )
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if method == "HEAD" else page.body))
        try:
            async with asyncio.timeout(ANSWER_S):
                await writer.drain()
        except TimeoutError:
            self.refused["slow reader"] += 1

    async def _page(self, method: str, path: str) -> Page:
        if method not in ("GET", "HEAD"):
            self.refused["method"] += 1
            return Page(b"only GET and HEAD\n", status=405)
        maker = self._pages.get(path)
        if maker is None:
            known = ", ".join(sorted(self._pages))
            return Page(f"there is {known}\n".encode(), status=404)
        return await maker()
