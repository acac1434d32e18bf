"""TLS without a socket, by certificates made for the test."""

from __future__ import annotations

import ssl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.engines import federation

from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.making import make_keys
from mangrove.host.keys.ring import KeyRing
from mangrove.host.tls_channel import (
    MAX_FIRST_RECORD_BYTES,
    NoTlsError,
    TlsChannel,
    first_record_bytes,
)


@pytest.fixture(scope="module")
def rings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, KeyRing]:
    keys = tmp_path_factory.mktemp("keys") / "keys"
    make_keys(federation(("a", "b")), keys)
    return {name: KeyRing.read(KeyDirectory(keys).domain(name).path) for name in "ab"}


def channels(rings: dict[str, KeyRing]) -> tuple[TlsChannel, TlsChannel]:
    caller = TlsChannel(rings["a"].client_context(), server_side=False)
    listener = TlsChannel(rings["b"].server_context(), server_side=True)
    said = caller.begin()
    assert first_record_bytes(said) == len(said), "the greeting is one record"
    for channel in (listener, caller, listener):
        assert channel.receive(said) == b""
        said = channel.outgoing()
    assert caller.established
    assert listener.established
    assert caller.receive(said) == b""
    return caller, listener


@settings(max_examples=25, deadline=None)
@given(
    messages=st.lists(st.lists(st.binary(max_size=40_000), min_size=1, max_size=3), max_size=4),
    cuts=st.lists(st.integers(1, 30_000), min_size=1, max_size=5),
    record_bytes=st.sampled_from([1024, 5000, 1 << 14]),
)
def test_what_is_sealed_is_read_however_the_line_cuts_it(
    rings: dict[str, KeyRing], messages: list[list[bytes]], cuts: list[int], record_bytes: int
) -> None:
    caller, listener = channels(rings)
    caller.record_bytes = record_bytes
    line = b"".join(caller.seal(buffers) for buffers in messages if any(buffers))
    heard = b""
    position = number = 0
    while position < len(line):
        size = cuts[number % len(cuts)]
        heard += listener.receive(line[position : position + size])
        position, number = position + size, number + 1
    assert heard == b"".join(map(b"".join, messages))
    assert not listener.ended


def test_small_records_are_read_one_by_one(rings: dict[str, KeyRing]) -> None:
    """On a slow line the first frames of a batch are there before the last have left."""
    caller, listener = channels(rings)
    caller.record_bytes = 1024
    line = caller.seal([bytes(8192)])
    assert len(listener.receive(line[: len(line) // 2])) >= 3 * 1024
    assert caller.records_out == 8


def test_a_changed_byte_ends_it(rings: dict[str, KeyRing]) -> None:
    caller, listener = channels(rings)
    line = bytearray(caller.seal([b"hello"]))
    line[-1] ^= 1
    with pytest.raises(ssl.SSLError):
        listener.receive(bytes(line))
    assert listener.outgoing(), "the other side is told"


@pytest.mark.parametrize(
    "data", [b"MG", b"GET / HTTP/1.1", b"\x15\x03", b"\x16\x02", b"\x16\x03\x01\xff\xff"]
)
def test_what_is_no_greeting_of_tls_shows_at_once(data: bytes) -> None:
    with pytest.raises(NoTlsError):
        first_record_bytes(data)


@given(st.binary(max_size=64))
def test_first_bytes_are_judged_without_a_crash(data: bytes) -> None:
    try:
        found = first_record_bytes(data)
    except NoTlsError:
        return
    assert 0 <= found <= MAX_FIRST_RECORD_BYTES
