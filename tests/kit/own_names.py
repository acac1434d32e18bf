"""Names of domains that a site reloads, and what passes under them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.kit.changing_ring import mangrove
from tests.kit.running import Running
from tests.kit.waiting import eventually

from mangrove.model.names.domain_names import DomainNames
from mangrove.model.names.mapping import NameMapping


def with_names(text: str, names: Mapping[str, tuple[NameMapping, ...]]) -> str:
    """The file, with names for some domains."""
    for domain, mappings in names.items():
        listed = [{"local": m.local, "federation": m.federation, "direction": m.direction} for m in mappings]
        text = text.replace(f"  {domain}: {{", f"  {domain}: {{names: {json.dumps(listed)}, ")
    return text


async def reloaded(directory: Path, text: str) -> dict[str, list[str]]:
    file = directory.parent / "next.yaml"
    await asyncio.to_thread(file.write_text, text)
    code, out, err = await mangrove("reload", str(file), "--run-dir", str(directory), "--json")
    assert code == 0, err
    return dict(json.loads(out))


async def passes(
    running: Running, ends: tuple[str, str], names: Mapping[str, tuple[NameMapping, ...]], subject: str
) -> None:
    """What one end publishes by its name arrives at the other by the name that it has there alone."""
    there = DomainNames(names.get(ends[0], ())).leaving(subject)
    here = None if there is None else DomainNames(names.get(ends[1], ())).entering(there)
    a, c = await nats.connect(running.head(ends[0])), await nats.connect(running.head(ends[1]))
    heard: list[str] = []
    try:

        async def hear(message: Msg) -> None:
            if message.data == subject.encode():
                heard.append(message.subject)

        await c.subscribe(">", cb=hear)
        await c.flush()

        async def arrived() -> bool:
            await a.publish(subject, subject.encode())
            await asyncio.sleep(0.05)
            return bool(heard)

        if here is not None:
            await eventually(arrived, f"{subject} arrives as {here}")
        else:
            for _ in range(5):
                await arrived()
        assert set(heard) <= {here}, subject
    finally:
        await a.close()
        await c.close()


async def serves_every_request(client: Client, subject: str, answer: bytes, served: list[str]) -> None:
    """As soon as one is answered, each is, by one member; `served` is what the members note."""

    async def answered() -> bool:
        try:
            return (await client.request(subject, b"who", timeout=1)).data == answer
        except (nats.errors.NoRespondersError, nats.errors.TimeoutError):
            return False

    await eventually(answered, f"somebody serves {subject}")
    before = len(served)
    for _ in range(20):
        assert (await client.request(subject, b"who", timeout=5)).data == answer
    assert len(served) == before + 20
