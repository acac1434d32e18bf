"""Who would be cut off if keys that were replaced ended now: asked of the sites that run here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mangrove.agent.management import ManagementConnection
from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.errors import MangroveError
from mangrove.host.audit.operator_audit import run_of_keys
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.files.about import read_about
from mangrove.host.runtime_file import find_running, is_running, read_runtime

if TYPE_CHECKING:
    from rich.console import Console

    from mangrove.model.endpoints import Runtime
    from mangrove.model.federation import Federation
    from mangrove.model.hosting.supervision import OldLogin

LOOK_S = 1.0
SILENT_S = 5.0
"""A host that runs here may be busy: it is asked for so long."""


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """Connections of clients by keys of before, and the sites that could not be asked."""

    logins: tuple[tuple[str, OldLogin], ...] = ()
    """With the site of each."""
    not_asked: tuple[str, ...] = ()
    """Sites that do not run here."""
    silent: tuple[str, ...] = ()
    """Sites that run here, and of which not every host answers."""
    behind: tuple[str, ...] = ()
    """Sites whose brokers have older keys than the directory: who they know is not what counts."""

    def plain(self) -> list[dict[str, object]]:
        """For `--json`."""
        return [{"domain": domain, **msgspec.to_builtins(login)} for domain, login in self.logins]

    def show(self, console: Console) -> None:
        """A line for each client at each broker."""
        table = Table(
            "Connected by keys that were replaced",
            name_column("domain"),
            name_column("client"),
            name_column("broker"),
            name_column("name"),
            number_column("connections"),
        )
        for domain, each in self.logins:
            table.add(domain, each.client, each.broker, each.name, f"{each.connections}")
        table.show(console)


def left_behind(
    federation: Federation, keys: Path, wait_s: float, waiting: Callable[[int], None]
) -> LeftBehind:
    """Asks until nobody is left, for so long at most; `waiting` is told how many connections there are."""
    runtime = running_with(federation, keys)
    if runtime is None:
        return LeftBehind(not_asked=tuple(federation.domains))
    generation = read_about(KeyDirectory(keys)).generation
    return asyncio.run(_asked_until(runtime, generation, wait_s, waiting))


async def _asked_until(
    runtime: Runtime, generation: int, wait_s: float, waiting: Callable[[int], None]
) -> LeftBehind:
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        found = await _asked(runtime, generation)
        took_s = loop.time() - began
        waits = (found.logins or found.behind) and took_s < wait_s
        if not waits and not (found.silent and took_s < max(wait_s, SILENT_S)):
            return found
        waiting(sum(each.connections for _, each in found.logins))
        await asyncio.sleep(LOOK_S)


async def _asked(runtime: Runtime, generation: int) -> LeftBehind:
    not_asked: list[str] = []
    behind: list[str] = []
    logins: list[tuple[str, OldLogin]] = []
    silent: list[str] = []
    for name, domain in runtime.federation.domains.items():
        endpoints = runtime.domains.get(name)
        if endpoints is None:
            not_asked.append(name)
            continue
        expected = max(len(domain.hosts), 1)
        async with ManagementConnection(endpoints) as management:
            answers = await management.hosts(expected, old_keys=True)
        logins += [(name, each) for answer in answers for each in answer.old_logins]
        if len(answers) < expected:
            silent.append(name)
        if any(answer.keys_generation < generation for answer in answers):
            behind.append(name)
    return LeftBehind(tuple(logins), tuple(not_asked), tuple(silent), tuple(behind))


def running_with(federation: Federation, keys: Path) -> Runtime | None:
    """The federation that runs with these keys on this machine, if one does."""
    run = run_of_keys(keys)
    try:
        return read_runtime(run) if is_running(run) else find_running(federation.name)
    except MangroveError:
        return None
