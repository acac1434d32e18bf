"""A running federation for the tests of a module: real brokers, real gateways, emulated links."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.running import CHAIN, Running

from mangrove.config import parse_federation
from mangrove.testbed.local_federation import LocalFederation


@pytest.fixture(scope="module")
async def chain(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """Seattle – Denver – Orlando."""
    directory: Path = tmp_path_factory.mktemp("state") / "chain"
    federation = parse_federation(CHAIN, "chain").require()
    async with LocalFederation(federation, directory, ephemeral=True) as launched:
        running = Running(launched)
        await running.links_up()
        yield running
