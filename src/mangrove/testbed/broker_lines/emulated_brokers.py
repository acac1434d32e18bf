"""The emulated lines of a federation's brokers: one process relays them all, and each can be changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mangrove.host.daemon_start import daemon_command
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess
from mangrove.host.run_directory import RunDirectory
from mangrove.model.address import Address
from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.endpoints import BrokerEndpoints, DomainEndpoints, PortsBehind
from mangrove.model.federation import Domain, Federation
from mangrove.model.shared_names import LINES_PROCESS, LINES_READY
from mangrove.testbed.broker_lines.relay import BandwidthChange, Door, LineSettings
from mangrove.testbed.emulator_control import send_request

HOST = "127.0.0.1"


class EmulatedBrokers:
    """All heads and edges of ours stand behind an emulator, at the ports where clients look for them.

    The brokers themselves listen elsewhere; only their agent goes there directly.
    """

    def __init__(
        self,
        federation: Federation,
        endpoints: Mapping[str, DomainEndpoints],
        run: RunDirectory,
        ports: PortReservation,
    ) -> None:
        self.control = Address(HOST, ports.take(HOST))
        self.endpoints: dict[str, DomainEndpoints] = {}
        """The same as were given, with where brokers themselves listen."""
        self._ports = ports
        self._doors: list[Door] = []
        bandwidths: dict[str, float] = {}
        for name, domain in federation.domains.items():
            self.endpoints[name] = self._led_through(endpoints[name])
            bandwidths |= bandwidths_of(domain, endpoints[name])
        settings = LineSettings(control=self.control, doors=tuple(self._doors), bandwidths=bandwidths)
        path = run.settings(LINES_PROCESS)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(settings))
        self.process = ManagedProcess(
            LINES_PROCESS,
            daemon_command("mangrove.testbed.broker_lines.relay", path),
            log_path=run.log(LINES_PROCESS),
            ready_text=LINES_READY,
        )

    def _led_through(self, domain: DomainEndpoints) -> DomainEndpoints:
        """Brokers of ours behind doors; what attaches to somebody else's head goes there as it is.

        So do the clients of a RabbitMQ: nobody would move to where there is more room.
        """
        if domain.head.external or domain.head.kind is not BrokerKind.NATS:
            return domain
        behind: list[BrokerEndpoints] = []
        for broker in domain.succession:
            behind.append(self._behind(broker, behind))
        last = 1 + len(domain.edges)
        return msgspec.structs.replace(
            domain, head=behind[0], edges=tuple(behind[1:last]), spares=tuple(behind[last:])
        )

    def _behind(self, broker: BrokerEndpoints, earlier: Sequence[BrokerEndpoints]) -> BrokerEndpoints:
        """A broker behind doors; it goes to those before it in the succession through doors, too."""
        uplinks = []
        for other in earlier:
            assert other.leaf_port is not None
            uplinks.append(self._ports.take(broker.host))
            self._doors.append(
                Door(
                    broker=broker.name,
                    listen=Address(broker.host, uplinks[-1]),
                    target=Address(other.host, other.leaf_port),
                    outward=True,
                )
            )
        return msgspec.structs.replace(
            broker,
            behind=PortsBehind(
                client_port=self._door(broker, broker.client_port),
                mqtt_port=None if broker.mqtt_port is None else self._door(broker, broker.mqtt_port),
                leaf_port=None if broker.leaf_port is None else self._door(broker, broker.leaf_port),
                uplink_ports=tuple(uplinks),
            ),
        )

    def _door(self, broker: BrokerEndpoints, port: int) -> int:
        """The port behind the door at `port`."""
        behind = self._ports.take(broker.host)
        self._doors.append(
            Door(broker=broker.name, listen=Address(broker.host, port), target=Address(broker.host, behind))
        )
        return behind


def bandwidths_of(domain: Domain, endpoints: DomainEndpoints) -> dict[str, float]:
    """What the federation file says of a domain's brokers, in Mbit/s; those without a figure are left out."""
    described = zip((endpoints.head, *endpoints.edges), (domain.head, *domain.edges), strict=False)
    return {broker.name: edge.bandwidth_mbps for broker, edge in described if edge.bandwidth_mbps is not None}


async def send_bandwidth(control: Address, broker: str, bandwidth_mbps: float | None) -> None:
    """Ask a running emulator to give a broker's line this bandwidth; None: as much as the machine can."""
    await send_request(control, BandwidthChange(broker=broker, bandwidth_mbps=bandwidth_mbps))
