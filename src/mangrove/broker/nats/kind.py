"""NATS as a kind of broker: everything that the rest of Mangrove asks of it.

Each part is loaded when it is asked for: no process needs all of them.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from mangrove.broker.attachment import Attachment, AttachmentOwner, Places
    from mangrove.broker.heartbeat import Heartbeat, Refused
    from mangrove.broker.logins import Logins
    from mangrove.broker.nats.subscriptions import SubscriptionWatch
    from mangrove.broker.nats.tap import Tap
    from mangrove.broker.probing import Probe, ProbeOwner
    from mangrove.broker.refusals import Refusal
    from mangrove.broker.retained import RetainedStore, RetainedStoreOwner
    from mangrove.broker.security import BrokerSecurity
    from mangrove.broker.system import BrokerSystem
    from mangrove.host.keys.login import LoginSource
    from mangrove.host.process import ManagedProcess
    from mangrove.model.agents.credentials import Credentials
    from mangrove.model.endpoints import BrokerEndpoints
    from mangrove.model.hosting.broker_status import BrokerStatus


class NatsKind:
    """Brokers that are nats-servers; gateways and edges attach as leaf nodes."""

    def attach(
        self,
        name: str,
        urls: tuple[str, ...],
        owner: AttachmentOwner,
        *,
        together: str = "",
        login: LoginSource | None = None,
        places: Places | None = None,
    ) -> Attachment:
        """A gateway's attachment to the first of these leaf-node listeners that answers."""
        from mangrove.broker.nats.leaf_attachment import LeafAttachment

        return LeafAttachment(name, urls, owner, cluster=together, login=login, places=places)

    def retained(
        self, url: str, name: str, owner: RetainedStoreOwner, *, ours: bool, login: LoginSource | None = None
    ) -> RetainedStore:
        """The retained messages of the MQTT clients of a domain whose head broker is at `url`."""
        from mangrove.broker.nats.retained import NatsRetainedStore

        return NatsRetainedStore(url, name, owner, create=ours, login=login)

    def probe(
        self, broker: str, url: str, subject: str, owner: ProbeOwner, login: LoginSource | None = None
    ) -> Probe:
        """A plain client of the nats-server at `url`."""
        from mangrove.broker.nats.probe import NatsProbe

        return NatsProbe(broker, url, subject, owner, login)

    def server(
        self,
        broker: BrokerEndpoints,
        directory: Path,
        *,
        max_message_bytes: int,
        site: str,
        attach_to: Sequence[str] = (),
        head_is_ours: bool = True,
        system_user: Credentials | None = None,
        security: BrokerSecurity | None = None,
    ) -> ManagedProcess:
        """A head broker, or an edge broker that is a leaf node of the first living one of `attach_to`."""
        from mangrove.broker.nats.configuration.data_broker import data_broker_config
        from mangrove.broker.nats.server import nats_server

        alone = bool(attach_to) and not head_is_ours
        config = data_broker_config(
            broker,
            directory,
            max_message_bytes=max_message_bytes,
            # Nobody knows what somebody else's head broker keeps, so an edge of it keeps its own sessions.
            jetstream_domain=broker.name if alone else site,
            attach_to=attach_to,
            own_jetstream=not attach_to or alone,
            system_user=system_user,
            security=security,
        )
        return nats_server(broker.name, config, directory)

    def reload(self, process: ManagedProcess) -> None:
        """A nats-server reads its file again when it is told to hang up."""
        process.signal(signal.SIGHUP)

    async def reloaded(self, process: ManagedProcess) -> str:
        """The same, and what came of it."""
        from mangrove.broker.nats.server import reload_server

        return await reload_server(process)

    def management_server(
        self,
        broker: BrokerEndpoints,
        directory: Path,
        cluster: Sequence[BrokerEndpoints] = (),
        security: BrokerSecurity | None = None,
    ) -> ManagedProcess:
        """A management broker."""
        from mangrove.broker.nats.configuration.management_broker import management_broker_config
        from mangrove.broker.nats.server import nats_server

        config = management_broker_config(broker, directory, cluster, security)
        return nats_server(broker.name, config, directory)

    async def status(self, broker: BrokerEndpoints, role: str) -> BrokerStatus:
        """A broker's account of itself."""
        from mangrove.broker.nats.monitoring import broker_status

        return await broker_status(broker, role)

    async def logins(self, broker: BrokerEndpoints, *, first: int, most: int) -> Logins | None:
        """By its page of connections."""
        from mangrove.broker.nats.watching.logins_page import logins

        return await logins(broker, first=first, most=most)

    def system(self, broker: BrokerEndpoints, login: LoginSource | None) -> BrokerSystem:
        """The system account of a broker of ours, or what somebody else's shows of itself."""
        from mangrove.broker.nats.watching.foreign import ForeignBroker
        from mangrove.broker.nats.watching.system import NatsSystem

        if login is None or broker.external:
            return ForeignBroker(broker)
        return NatsSystem(broker, login)

    def heartbeat(self, broker: BrokerEndpoints, login: LoginSource | None, refused: Refused) -> Heartbeat:
        """PING and PONG, in the system account of a broker of ours."""
        from mangrove.broker.nats.watching.heartbeat import NatsHeartbeat

        return NatsHeartbeat(broker, login, refused)

    def refusal(self, line: bytes) -> Refusal | None:
        """Whom a nats-server turned away, from its log."""
        from mangrove.broker.nats.refusals import read_refusal

        return read_refusal(line)

    async def attach_problem(self, url: str, login: LoginSource | None = None) -> str:
        """Why a gateway could not attach at `url`, or an empty string."""
        from mangrove.broker.nats.reach import leaf_problem

        return await leaf_problem(url)

    def subscription_watch(self, broker: BrokerEndpoints) -> SubscriptionWatch:
        """Looks at who subscribes to what at a broker."""
        from mangrove.broker.nats.subscriptions import SubscriptionWatch

        return SubscriptionWatch(broker)

    def tap(self, head: BrokerEndpoints, login: LoginSource | None, may_sample: Callable[[str], bool]) -> Tap:
        """A listener that samples what passes a head broker."""
        from mangrove.broker.nats.tap import Tap

        return Tap(head.client_url, login=login, may_sample=may_sample)
