"""The emulated links of a federation: one process relays them all, and each can be changed while it runs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mangrove.agent.site import callee_addresses
from mangrove.errors import InputError
from mangrove.host.daemon_start import daemon_command
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess
from mangrove.host.run_directory import RunDirectory
from mangrove.model.address import Address
from mangrove.model.endpoints import DomainEndpoints
from mangrove.model.federation import Federation, Link
from mangrove.model.shared_names import WAN_PROCESS, WAN_READY
from mangrove.model.site_pair import link_name
from mangrove.testbed.emulator_control import send_request
from mangrove.testbed.shaping import Shape
from mangrove.testbed.wan import ShapeChange, WanLink, WanSettings, Way

HOST = "127.0.0.1"


class EmulatedLinks:
    """All links of a federation go through the emulator, so that any can be disturbed."""

    def __init__(
        self,
        federation: Federation,
        endpoints: Mapping[str, DomainEndpoints],
        run: RunDirectory,
        ports: PortReservation,
        seed: int,
    ) -> None:
        self.control = Address(HOST, ports.take(HOST))
        self._federation = federation
        self._relays = {
            link.pair: WanLink(
                name=link_name(*link.pair),
                ways=tuple(
                    Way(listen=Address(HOST, ports.take(HOST)), target=target)
                    for target in callee_addresses(link, endpoints)
                ),
                shape=shape_of(link),
            )
            for link in federation.links
        }
        self._shapes = {relay.name: relay.shape for relay in self._relays.values()}
        settings = WanSettings(control=self.control, links=tuple(self._relays.values()), seed=seed)
        self.process = emulator(settings, run)

    def calls_through(self, domain: str) -> dict[str, tuple[Address, ...]]:
        """The relays that a site calls instead of its neighbours."""
        return {
            link.callee: tuple(way.listen for way in self._relays[link.pair].ways)
            for link in self._federation.links_of(domain)
            if domain == link.caller
        }

    async def reshape(self, first: str, second: str, **changes: float | bool | None) -> Shape:
        """Change the link between two domains, e.g. `delay_ms=80` or `black_hole=True`."""
        name = link_name(first, second)
        if name not in self._shapes:
            raise InputError(f"{first} and {second} are not joined by an emulated link")
        shape = msgspec.structs.replace(self._shapes[name], **changes)
        await send_shape(self.control, name, shape)
        self._shapes[name] = shape
        return shape


def shape_of(link: Link) -> Shape:
    """How a link of the federation file is emulated."""
    return Shape(
        delay_ms=link.delay_ms or 0.0,
        jitter_ms=link.jitter_ms,
        bandwidth_mbps=link.bandwidth_mbps,
        loss_ratio=link.loss_ratio,
    )


def emulator(settings: WanSettings, run: RunDirectory) -> ManagedProcess:
    """A WAN emulator that will run with these settings."""
    path = run.settings(WAN_PROCESS)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(settings))
    return ManagedProcess(
        WAN_PROCESS,
        daemon_command("mangrove.testbed.wan", path),
        log_path=run.log(WAN_PROCESS),
        ready_text=WAN_READY,
    )


async def send_shape(control: Address, name: str, shape: Shape) -> None:
    """Ask a running emulator to change a link."""
    await send_request(control, ShapeChange(link=name, shape=shape))
