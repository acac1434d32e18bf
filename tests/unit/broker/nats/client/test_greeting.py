"""Addresses of servers, what they say of themselves, and which one is next."""

from __future__ import annotations

import pytest

from mangrove.broker.nats.client.connection import NatsClientConnection
from mangrove.broker.nats.client.greeting import connect_lines, parse_address, parse_info
from mangrove.broker.nats.client.servers import MAX_SERVERS, Servers
from mangrove.errors import InputError
from mangrove.overlay.protocol.bodies import WireError


@pytest.mark.parametrize(
    ("url", "shown", "credentials"),
    [
        ("nats://a:1", "nats://a:1", {}),
        ("a", "nats://a:4222", {}),
        ("tls://u:p%40@[::1]:7", "tls://[::1]:7", {"user": "u", "pass": "p@"}),
        ("nats://tok%3Aen@a", "nats://a:4222", {"auth_token": "tok:en"}),
        ("nats://u:@a", "nats://a:4222", {"user": "u", "pass": ""}),
    ],
)
def test_addresses_are_read_and_shown_without_secrets(
    url: str, shown: str, credentials: dict[str, str]
) -> None:
    address = parse_address(url)
    assert str(address) == shown
    assert dict(address.credentials) == credentials
    said = connect_lines("me", address, "1")
    assert said.startswith(b"CONNECT {")
    assert said.endswith(b"}\r\nPING\r\n")


@pytest.mark.parametrize("url", ["http://a", "nats://", "nats://a:x", "nats://a:99999", ""])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="cannot connect"):
        NatsClientConnection([url], "me")
    with pytest.raises(InputError, match="no server"):
        NatsClientConnection([], "me")


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"max_payload":"x"}', b'{"max_payload":0}'])
def test_servers_that_talk_nonsense_of_themselves_are_refused(text: bytes) -> None:
    with pytest.raises(WireError):
        parse_info(text)


async def test_servers_are_tried_in_turn_with_those_of_their_cluster() -> None:
    servers = Servers(["nats://u:p@a:1", "nats://b:2", "nats://u:p@a:1"])
    assert [str(await servers.next(0.0)) for _ in range(3)] == ["nats://a:1", "nats://b:2", "nats://a:1"]
    servers.learn(servers.present, ["b:2", "c:3", "::not an address::", "c:3"])
    third = [await servers.next(0.0) for _ in range(2)][1]
    assert (str(third), dict(third.credentials)) == ("nats://c:3", {"user": "u", "pass": "p"})
    servers.learn(servers.present, [f"d:{port}" for port in range(1, 1000)])
    assert len(servers) == MAX_SERVERS
