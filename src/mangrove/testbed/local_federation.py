"""A whole federation on this machine, with emulated links between its sites."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from mangrove.agent.launcher import Launcher
from mangrove.errors import InputError
from mangrove.host.process import ManagedProcess
from mangrove.host.run_directory import RunDirectory
from mangrove.model.address import Address
from mangrove.model.endpoints import Runtime
from mangrove.model.federation import Federation
from mangrove.testbed.broker_lines.emulated_brokers import EmulatedBrokers, send_bandwidth
from mangrove.testbed.emulated_links import EmulatedLinks
from mangrove.testbed.shaping import Shape

log = logging.getLogger(__name__)


class LocalFederation(Launcher):
    """The launcher, with every link led through the emulator. `seed` is that of jitter and loss.

    With `emulate_brokers` all connections of data brokers are led through an emulator, too, so that what a
    broker can carry can be lowered; without it that costs nothing. `inside`: see `Launcher`. If it is
    `secured`, it makes the keys that are missing, in `keys` or in its own directory.
    """

    def __init__(
        self,
        federation: Federation,
        directory: Path,
        *,
        secured: bool = False,
        keys: Path | None = None,
        ephemeral: bool = False,
        seed: int = 1,
        record_stimuli: bool = False,
        agents: bool = True,
        emulate_brokers: bool = False,
        inside: Mapping[tuple[str, str], Sequence[str]] | None = None,
        progress: Callable[[str], None] = log.info,
    ) -> None:
        super().__init__(
            federation,
            directory,
            keys=(keys or RunDirectory(directory).keys) if secured else None,
            ephemeral=ephemeral,
            record_stimuli=record_stimuli,
            agents=agents,
            inside=inside,
            progress=progress,
        )
        self._seed = seed
        self._links: EmulatedLinks | None = None
        self._emulate_brokers = emulate_brokers
        self._brokers: EmulatedBrokers | None = None

    def runtime(self) -> Runtime:
        """Where everything listens, the emulators included."""
        return msgspec.structs.replace(
            super().runtime(),
            wan_control=None if self._links is None else self._links.control,
            lines_control=None if self._brokers is None else self._brokers.control,
        )

    def processes(self) -> list[ManagedProcess]:
        """Everything that was started, the emulators included."""
        emulators = [each.process for each in (self._links, self._brokers) if each is not None]
        return super().processes() + emulators

    async def reshape(self, first: str, second: str, **changes: float | bool | None) -> Shape:
        """Change the emulated link between two domains, e.g. `delay_ms=80` or `black_hole=True`."""
        if self._links is None:
            raise InputError(f"{first} and {second} are not joined by an emulated link")
        return await self._links.reshape(first, second, **changes)

    async def narrow(self, broker: str, bandwidth_mbps: float | None) -> None:
        """Give an emulated broker's line another bandwidth, in both directions; None: no limit."""
        if self._brokers is None:
            raise InputError(f"the line of {broker} is not emulated", hint="start with emulate_brokers=True")
        await send_bandwidth(self._brokers.control, broker, bandwidth_mbps)

    def _prepare_keys(self) -> None:
        if self.keys is not None:
            from mangrove.host.keys.making import make_keys

            make_keys(
                self.federation, self.keys, progress=lambda made: self._progress(f"keys made for {made}")
            )
        super()._prepare_keys()

    async def _start_links(self) -> None:
        if self._emulate_brokers:
            self._brokers = EmulatedBrokers(self.federation, self.endpoints, self.run, self.ports)
            self.endpoints = self._brokers.endpoints
            await self._brokers.process.start()
        if self.federation.links:
            self._links = EmulatedLinks(self.federation, self.endpoints, self.run, self.ports, self._seed)

    def _beside_sites(self) -> Sequence[ManagedProcess]:
        return () if self._links is None else (self._links.process,)

    def _calls_through(self, domain: str) -> Mapping[str, tuple[Address, ...]]:
        return self._links.calls_through(domain) if self._links is not None else {}
