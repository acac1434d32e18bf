"""The line between two gateways with keys: who gets in, and what a change of keys does."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.pair_notebooks import FEDERATION, notebook, running, settled
from tests.kit.waiting import eventually

from mangrove.gateway.trust.keys_in_force import KeysInForce
from mangrove.gateway.trust.refusals import Refusal
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.making import make_keys
from mangrove.host.keys.ring import KeyRing
from mangrove.host.keys.rotation import rotate
from mangrove.host.ports import PortReservation
from mangrove.model.address import Address
from mangrove.overlay.pair.messages import PairHello, Role, word_record
from mangrove.overlay.protocol.frames import Name

HELLO = word_record(PairHello(federation="test", topology=FEDERATION.topology_hash(), domain="a", number=2))


@pytest.fixture
async def line() -> AsyncIterator[Address]:
    with PortReservation() as ports:
        yield Address("127.0.0.1", ports.take("127.0.0.1"))


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    make_keys(FEDERATION, tmp_path / "keys")
    return tmp_path / "keys"


def in_force(keys: Path, domain: str = "a") -> KeysInForce:
    return KeysInForce.read(str(KeyDirectory(keys).domain(domain).path))


async def call(line: Address, said: bytes, context: ssl.SSLContext | None = None) -> None:
    try:
        reader, writer = await asyncio.open_connection(*line, ssl=context)
        writer.write(said)
        await reader.read()
        writer.close()
    except (OSError, ssl.SSLError):
        pass


async def test_only_who_has_the_domains_key_is_the_other_gateway(line: Address, keys: Path) -> None:
    first, second = notebook(1, line, in_force(keys)), notebook(2, line, in_force(keys))
    async with running(first, second):
        await settled(first, second)
        await call(line, HELLO)
        await call(line, HELLO, KeyRing.read(KeyDirectory(keys).domain("b").path).client_context())
        nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        nobody.check_hostname, nobody.verify_mode = False, ssl.CERT_NONE
        await call(line, HELLO, nobody)

        async def refused() -> bool:
            return first.pair.status().refused == {
                Refusal.NO_TLS: 1,
                Refusal.STRANGER: 1,
                Refusal.HANDSHAKE: 1,
            }

        await eventually(refused, "all three should be refused")
        assert (first.role, second.role) == (Role.ACTIVE, Role.STANDBY)


async def test_silent_callers_do_not_keep_the_other_gateway_out(line: Address, keys: Path) -> None:
    first = notebook(1, line, in_force(keys))
    async with running(first):

        async def carries() -> bool:
            return first.role is Role.ACTIVE

        await eventually(carries, "it should carry")
        strangers = [await asyncio.open_connection(*line) for _ in range(300)]
        second = notebook(2, line, in_force(keys))
        async with running(second):
            await settled(first, second)
        for _, writer in strangers:
            writer.close()


async def test_other_keys_are_taken_over_and_neither_notices(line: Address, keys: Path) -> None:
    ours = in_force(keys), in_force(keys)
    first, second = notebook(1, line, ours[0]), notebook(2, line, ours[1])
    async with running(first, second):
        await settled(first, second)
        following = [asyncio.create_task(each.follow()) for each in ours]
        before = second.pair._line._connection
        await asyncio.to_thread(rotate, keys)
        told = 0

        async def renewed() -> bool:
            nonlocal told
            for _ in range(50):
                told += 1
                first.pair.tell_names([Name(7, 1, 1, told)])
            return second.pair._line._connection not in (before, None)

        await eventually(renewed, "the line should be renewed")

        async def heard() -> bool:
            return [name.sequence for name in second.names if name.origin == 7] == list(range(1, told + 1))

        await eventually(heard, "all that was told should be heard, in order")
        assert (first.roles.count(Role.ACTIVE), second.role) == (1, Role.STANDBY)
        assert Role.ACTIVE not in second.roles
        for task in following:
            task.cancel()
