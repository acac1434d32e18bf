"""Connections of tests that write what no library would: they log in where the broker's domain has keys."""

from __future__ import annotations

import asyncio
import json
import ssl
from asyncio import StreamReader, StreamWriter

from tests.kit.secured_runs import device_login, keys_at_port

from mangrove.host.keys.login import BrokerLogin
from mangrove.host.keys.logins.user_login import local_login

HOST = "127.0.0.1"
QUIET_S = 1.0
"""How long a broker behind TLS, which is not closed on one side alone, is heard out."""


async def nats_socket(port: int, **options: object) -> tuple[StreamReader, StreamWriter]:
    """A connection to a broker that has said CONNECT, and nothing else.

    With keys as the domain's first client; `options` go into the CONNECT.
    """
    reader, writer = await asyncio.open_connection(HOST, port)
    keys = keys_at_port(port)
    if keys:
        source = local_login(keys)
        assert source is not None
        login: BrokerLogin = source()
        assert login.tls is not None
        told = json.loads((await reader.readline()).removeprefix(b"INFO "))
        await writer.start_tls(login.tls, server_hostname=HOST)
        options = {**options, **login.shown(told["nonce"])}
    writer.write(b"CONNECT %b\r\n" % json.dumps({"verbose": False, "pedantic": False, **options}).encode())
    return reader, writer


async def mqtt_socket(port: int) -> tuple[StreamReader, StreamWriter]:
    """A connection to a broker's MQTT port on which nothing was said."""
    login = device_login(port)
    context = None if login is None else ssl.create_default_context(cafile=login.trusted)
    return await asyncio.open_connection(HOST, port, ssl=context)


def mqtt_connect(port: int, client_id: str, *, clean: bool = True) -> bytes:
    """The packet by which a client of MQTT 3.1.1 introduces itself there."""
    login = device_login(port)
    flags, fields = 0x02 if clean else 0x00, [client_id]
    if login is not None:
        flags, fields = flags | 0xC0, [client_id, login.user, login.password]
    texts = b"".join(len(field).to_bytes(2) + field.encode() for field in fields)
    rest = b"\x00\x04MQTT\x04" + flags.to_bytes() + b"\x00\x3c" + texts
    assert len(rest) < 0x80, "its length is one byte"
    return b"\x10" + len(rest).to_bytes() + rest


async def heard_out(reader: StreamReader, writer: StreamWriter) -> bytes:
    """What a broker still says after all was said, until it closes the connection."""
    if writer.can_write_eof():
        writer.write_eof()
    else:
        asyncio.get_running_loop().call_later(QUIET_S, writer.close)
    async with asyncio.timeout(10):
        return await reader.read()
