"""What is in force is signed by an authority that is about to end: the one that stays signs it anew.

A site that was away, or lost its disk, would not believe it otherwise, whoever hands it on.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.agent.versioning import put_in_force, standing, time_of_day, written_in_force
from mangrove.cli.keys.left_behind import running_with
from mangrove.cli.planning.in_force import operator
from mangrove.errors import MangroveError
from mangrove.host.keys.approval import approval_problem
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.files.key_files import read_authority
from mangrove.host.versions.writing import written
from mangrove.model.versions.document import FIRST_VERSION
from mangrove.model.versions.succession import successor

if TYPE_CHECKING:
    from mangrove.model.endpoints import Runtime
    from mangrove.model.federation import Federation

NOTE = "signed by the authority that stays"
WITHIN_S = 20.0


def sign_anew(federation: Federation, keys: Path) -> int:
    """Puts a version that changes nothing in force, if need be: its number, or 0.

    MangroveError if that cannot be done now.
    """
    runtime = running_with(federation, keys)
    return 0 if runtime is None else asyncio.run(_signed_anew(runtime, keys))


async def _signed_anew(runtime: Runtime, keys: Path) -> int:
    in_force = await written_in_force(runtime)
    before = in_force.read()
    stays = [read_authority(KeyDirectory(keys)).certificate]
    if before.version == FIRST_VERSION or not approval_problem(in_force.text, in_force.signature, stays):
        return 0
    after = written(
        successor(before, before.topics.contracts, by=operator(), at=time_of_day(), note=NOTE), str(keys)
    )
    asked = (await standing(runtime)).domain
    try:
        await put_in_force(runtime, asked, after, progress=lambda *_: None, timeout_s=WITHIN_S)
    except MangroveError as error:
        raise MangroveError(
            f"version {before.version}, which is in force, is signed by an authority that is about to end, "
            f"and could not be signed anew: {error.message}",
            hint="sites that are away would not believe it when they return; try again when more of them are "
            "there, or go on with --force",
        ) from None
    return before.version + 1
