"""An agent acts by the contracts in force, and is told when others are."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mangrove.agent.serving.contracts.in_force import ContractsInForce
from mangrove.host.versions.version_store import VersionStore
from mangrove.model.federation import Domain, Federation
from mangrove.model.topics import Contract
from mangrove.model.versions.document import WrittenDocument, first_document
from mangrove.model.versions.kept import Ballot, KeptVersions
from mangrove.model.versions.succession import successor

FILE = Federation(name="f", domains={"a": Domain(name="a", base_port=1)})


async def test_a_version_that_stays_in_force_is_acted_by(tmp_path: Path) -> None:
    contracts = ContractsInForce(str(tmp_path), look_every_s=0.001)
    assert contracts.federation(FILE) is FILE
    store = VersionStore(tmp_path)
    store.write(KeptVersions(promised=Ballot(1, "a")))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await contracts.changed()
    second = successor(first_document(FILE), [Contract(match="x")], by="", at="")
    store.write(KeptVersions(committed=WrittenDocument(text=second.text())))
    async with asyncio.timeout(5):
        await contracts.changed()
    assert contracts.federation(FILE).topics == second.topics
    assert contracts.version == 2


def test_without_a_store_or_with_one_that_is_broken_the_file_holds(tmp_path: Path) -> None:
    assert ContractsInForce("").federation(FILE) is FILE
    (tmp_path / "state").write_bytes(b"half")
    assert ContractsInForce(str(tmp_path)).federation(FILE) is FILE
