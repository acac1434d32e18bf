"""RabbitMQ as a kind of broker: everything that the rest of Mangrove asks of it.

Each part is loaded when it is asked for: no process needs all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mangrove.broker.rabbitmq.codec import require_codec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from mangrove.broker.attachment import Attachment, AttachmentOwner, Places
    from mangrove.broker.heartbeat import Heartbeat, Refused
    from mangrove.broker.logins import Logins
    from mangrove.broker.nats.subscriptions import SubscriptionWatch
    from mangrove.broker.nats.tap import Tap
    from mangrove.broker.refusals import Refusal
    from mangrove.broker.security import BrokerSecurity
    from mangrove.broker.system import BrokerSystem
    from mangrove.host.keys.login import LoginSource
    from mangrove.host.process import ManagedProcess
    from mangrove.model.agents.credentials import Credentials
    from mangrove.model.endpoints import BrokerEndpoints
    from mangrove.model.hosting.broker_status import BrokerStatus


class RabbitKind:
    """Brokers that are RabbitMQs; gateways come by AMQP 0-9-1, and there are no edges."""

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
        """A gateway's attachment to the only broker that there is."""
        require_codec()
        from mangrove.broker.rabbitmq.attachment import RabbitAttachment

        return RabbitAttachment(name, urls[0], owner, login)

    @property
    def retained(self) -> None:
        """Retained messages of its MQTT plugin stay at the broker: it shows them to nobody else."""

    @property
    def probe(self) -> None:
        """There are no edges, so there is no way inside the domain to time."""

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
        """A head broker."""
        require_codec()
        from mangrove.broker.rabbitmq.hosting.configuration import broker_files
        from mangrove.broker.rabbitmq.hosting.server import rabbitmq_server
        from mangrove.host.run_directory import RunDirectory

        home = RunDirectory(directory).broker_home(broker.name).absolute()
        files = broker_files(broker, home, max_message_bytes=max_message_bytes, security=security)
        return rabbitmq_server(broker.name, broker.client_port, directory, files)

    def reload(self, process: ManagedProcess) -> None:
        """It attaches to nobody, so it never has to be told to attach elsewhere."""

    async def reloaded(self, process: ManagedProcess) -> str:
        """Tell it its users as the files say them."""
        from mangrove.broker.rabbitmq.hosting.users import tell_users

        return await tell_users(process)

    async def status(self, broker: BrokerEndpoints, role: str) -> BrokerStatus:
        """A broker's account of itself."""
        from mangrove.broker.rabbitmq.watching.figures import broker_status

        return await broker_status(broker, role)

    async def logins(self, broker: BrokerEndpoints, *, first: int, most: int) -> Logins | None:
        """Not told without an administrator's login."""
        return None

    def system(self, broker: BrokerEndpoints, login: LoginSource | None) -> BrokerSystem:
        """Its figures."""
        from mangrove.broker.rabbitmq.watching.system import RabbitSystem

        return RabbitSystem(broker)

    def heartbeat(self, broker: BrokerEndpoints, login: LoginSource | None, refused: Refused) -> Heartbeat:
        """By a page of a broker of ours."""
        from mangrove.broker.rabbitmq.watching.heartbeat import RabbitHeartbeat

        return RabbitHeartbeat(broker, refused)

    def refusal(self, line: bytes) -> Refusal | None:
        """Whom it turned away, from its log."""
        from mangrove.broker.rabbitmq.watching.refusals import read_refusal

        return read_refusal(line)

    async def attach_problem(self, url: str, login: LoginSource | None = None) -> str:
        """Why a gateway could not attach at `url`, or an empty string."""
        require_codec()
        from mangrove.broker.rabbitmq.watching.reach import rabbit_problem

        return await rabbit_problem(url, login)

    def subscription_watch(self, broker: BrokerEndpoints) -> SubscriptionWatch:
        """One that never has anything to look at: who is bound to what is the gateway's to know."""
        from mangrove.broker.nats.subscriptions import SubscriptionWatch

        return SubscriptionWatch(msgspec.structs.replace(broker, monitor_port=None))

    def tap(self, head: BrokerEndpoints, login: LoginSource | None, may_sample: Callable[[str], bool]) -> Tap:
        """One that never hears anything; what crosses the border is counted by the gateway."""
        from mangrove.broker.rabbitmq.watching.deaf_tap import DeafTap

        return DeafTap(head.client_url)
