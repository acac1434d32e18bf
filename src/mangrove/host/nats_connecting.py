"""Connections by nats-py: logged in where a login is given, and closed when they do not come about."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import nats.errors
from nats.aio.client import Client

from mangrove.errors import MangroveError
from mangrove.host.keys.login import BrokerLogin, LoginSource

CLOSE_S = 1.0
LOGIN_ENDED = ("authorization violation", "authentication expired", "authentication revoked")
CANCEL_S, CANCEL_TIMES = 0.05, 20


async def connect_or_close(
    urls: str | list[str], *, login: LoginSource | None = None, **options: Any
) -> Client:
    """What `nats.connect` does, but a connection that fails, or is no longer waited for, leaves no socket.

    The library closes a socket that it opened neither when it is cancelled nor, without reconnecting, when it
    is turned away. A `login` is asked for at every connection, the later ones included.
    """
    client = Client() if login is None else LoggedInClient(login)
    if login is not None:
        options.setdefault("inbox_prefix", login().inbox)
    try:
        await client.connect(urls, **options)
        heed_cancellation()
    except BaseException:
        await close_in_time(client)
        raise
    return client


def heed_cancellation() -> None:
    """Go no further if this task was cancelled while it asked the library for something.

    `asyncio.wait_for`, which the library uses, forgets a cancellation when what it waits for is there too;
    who then waits for something that never comes is ended by nobody.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def close_in_time(client: Client) -> None:
    """Close a connection, be the broker there or not, and leave neither a task nor a socket behind."""
    await end_attempts(client)
    # AttributeError: what asyncio's TLS raises when the library says its last words after an abort
    with contextlib.suppress(TimeoutError, OSError, nats.errors.Error, AttributeError):
        async with asyncio.timeout(CLOSE_S):
            await client.close()
    writer: asyncio.StreamWriter | None = getattr(client._transport, "_io_writer", None)
    if writer is not None:
        writer.transport.abort()


async def end_attempts(client: Client) -> None:
    """Connect no more by itself.

    The library's own attempt to connect again swallows cancellations, goes on beside `close`, and may then
    open a socket that nobody closes: so it is ended before.
    """
    again: asyncio.Task[None] | None = client._reconnection_task
    for _ in range(CANCEL_TIMES):
        if again is None or again.done() or again is asyncio.current_task():
            break
        again.cancel()
        await asyncio.wait([again], timeout=CANCEL_S)


class LoggedInClient(Client):
    """Shows who it is at every connection, and shows nothing to a broker that does not encrypt.

    The library would go on in the clear if a broker, or whoever answers in its place, offered no TLS. It
    would also take a broker that knows the user no longer for the end; but keys are changed while
    connections last, and the next attempt shows the new one.
    """

    def __init__(self, login: LoginSource) -> None:
        super().__init__()
        self._login = login
        self._shown: BrokerLogin | None = None

    async def _process_connect_init(self) -> None:
        try:
            self._shown = self._login()
        except MangroveError as error:  # a key file that cannot be read now may be whole in a moment
            raise nats.errors.Error(error.message) from None
        if self._shown.tls is not None:
            self.options["tls"] = self._shown.tls
        await super()._process_connect_init()

    def _connect_command(self) -> bytes:
        login = self._shown
        assert login is not None, "set before every attempt"
        if login.tls is not None:
            if not self._server_info.get("tls_required"):
                raise nats.errors.Error("nats: the broker offers no TLS; nothing is said to it in the clear")
            _note_encryption(self._transport)
        self._auth_configured = True
        shown = login.shown(self._server_info.get("nonce", ""))
        self._public_nkey = shown.get("nkey")
        self._signature_cb = (lambda _: shown["sig"].encode()) if "sig" in shown else None
        self.options["user"], self.options["password"] = shown.get("user"), shown.get("pass")
        return super()._connect_command()

    async def _process_err(self, err_msg: str) -> None:
        if self.is_connected and any(word in err_msg.lower() for word in LOGIN_ENDED):
            await self._process_op_err(nats.errors.AuthorizationError())
            return
        await super()._process_err(err_msg)


def _note_encryption(transport: object) -> None:
    """Tell the stream that the library made for TLS that it is one; else it warns at the end of each."""
    writer = getattr(transport, "_io_writer", None)
    protocol = writer.transport.get_protocol() if isinstance(writer, asyncio.StreamWriter) else None
    if isinstance(protocol, asyncio.StreamReaderProtocol):
        protocol._over_ssl = True  # type: ignore[attr-defined]
