"""One secured federation under one stream for all attacks of a module."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.battlefield import FIELD, HONEST, NAME, Battlefield
from tests.kit.running import Running
from tests.kit.steady_stream import SteadyStream

from mangrove.config import parse_federation
from mangrove.testbed.local_federation import LocalFederation


@pytest.fixture(scope="module")
async def field(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Battlefield]:
    """The federation, at rest and under traffic; the attacker's own gateway is out of his way."""
    directory: Path = tmp_path_factory.mktemp("state") / NAME
    federation = parse_federation(FIELD, NAME).require()
    async with LocalFederation(federation, directory, ephemeral=True, secured=True) as launched:
        await Running(launched).links_up()
        await launched.sites["m"].gateway.stop()
        stream = SteadyStream(launched.directory, HONEST)
        try:
            await asyncio.wait_for(stream.begin(), 60)
            yield Battlefield(launched, stream)
        finally:
            stream.end()
