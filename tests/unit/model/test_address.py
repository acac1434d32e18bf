"""Hosts and ports: one way to write them, one way to read them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import InputError
from mangrove.model.address import Address, AddressError, checked_host


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7000", Address("127.0.0.1", 7000)),
        ("broker.example.org:1", Address("broker.example.org", 1)),
        ("[::1]:65535", Address("::1", 65535)),
        ("[fe80::2]:7422", Address("fe80::2", 7422)),
    ],
)
def test_addresses_are_read(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nowhere", "host:port is expected"),
        ("host:", "a port from 1 to 65535"),
        ("host:0", "a port from 1 to 65535"),
        ("host:65536", "a port from 1 to 65535"),
        ("host:²", "a port from 1 to 65535"),
        ("host:-1", "a port from 1 to 65535"),
        (":7000", "an IP address or a host name is expected"),
        ("a b:7000", "an IP address or a host name is expected"),
        ("::1:7000", "an IPv6 address goes in brackets"),
        ("[::1:7000", "an IPv6 address goes in brackets"),
        ("[127.0.0.1]:7000", "only an IPv6 address goes in brackets"),
        ("[]:7000", "only an IPv6 address goes in brackets"),
        ("[[::1]]:7000", "only an IPv6 address goes in brackets"),
    ],
)
def test_what_is_no_address_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(AddressError) as refused:
        Address.parse(text)
    assert problem in refused.value.message
    assert isinstance(refused.value, InputError)


@given(st.ip_addresses().map(str), st.integers(1, 65535))
def test_every_ip_address_survives_being_written(host: str, port: int) -> None:
    assert Address.parse(str(Address(host, port))) == (host, port)


@given(st.text())
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        address = Address.parse(text)
    except AddressError:
        return
    assert checked_host(address.host) == address.host
    assert 1 <= address.port <= 65535


def test_in_json_an_address_is_a_pair() -> None:
    assert msgspec.json.encode(Address("::1", 7)) == b'["::1",7]'
    assert msgspec.json.decode(b'["::1",7]', type=Address) == Address("::1", 7)
