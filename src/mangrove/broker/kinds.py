"""The kinds of brokers: one folder and one entry here for each.

Everything outside this room asks `kind_of(…)` and names no broker product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mangrove.broker.nats.kind import NatsKind
from mangrove.model.broker_kinds import BrokerKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from mangrove.broker.attachment import Attachment, AttachmentOwner, Places
    from mangrove.broker.heartbeat import Heartbeat, Refused
    from mangrove.broker.logins import Logins

    # What a tap and a page of subscriptions are is told by the first kind; another one offers the same.
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


class RetainedStores(Protocol):
    """A part that a kind may lack: a place where the broker keeps retained messages, for others to see."""

    def __call__(
        self, url: str, name: str, owner: RetainedStoreOwner, *, ours: bool, login: LoginSource | None = None
    ) -> RetainedStore:
        """The retained messages of a domain, at its head broker `url`; one of `ours` has a place for them."""


class Probes(Protocol):
    """A part that a kind may lack: clients by which the ways inside a domain are timed."""

    def __call__(
        self, broker: str, url: str, subject: str, owner: ProbeOwner, login: LoginSource | None = None
    ) -> Probe:
        """A plain client of the broker at `url` that publishes markers and listens for those on `subject`."""


class ManagementKind(Protocol):
    """The kind of brokers that carry control traffic, for which they need JetStream."""

    def management_server(
        self,
        broker: BrokerEndpoints,
        directory: Path,
        cluster: Sequence[BrokerEndpoints] = (),
        security: BrokerSecurity | None = None,
    ) -> ManagedProcess:
        """A broker for control traffic, alone or as one of several that hold the same."""


class Kind(Protocol):
    """What can be done with the brokers of one kind. Properties are parts that a kind may lack."""

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
        """A gateway's attachment, under `name`, to the first of these brokers that answers.

        They stand in the order in which they succeed each other as head. It does nothing until it runs. Those
        of one name `together` that are attached to one broker hear nothing of what the others want or say.
        Who it is `login` says; without one, the URLs. In `places` is left how to ask where it is attached.
        """

    @property
    def retained(self) -> RetainedStores | None:
        """How retained messages are kept in step with other domains; None: they stay at their broker."""

    @property
    def probe(self) -> Probes | None:
        """How the ways inside a domain are timed; None: there are no edges, and so no ways."""

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
        """A head broker, or an edge broker that attaches to the first living one of `attach_to`.

        Its files go below `directory`. What the brokers of a `site` keep for their clients they keep in
        one place, at the head, if that is a broker of ours. With `security`, only its users come in; without,
        the `system_user` may watch the broker, and all others need no name.
        """

    def reload(self, process: ManagedProcess) -> None:
        """Have a running broker read its configuration, which `server` has written, again."""

    async def reloaded(self, process: ManagedProcess) -> str:
        """The same, and wait until it has: why it has not, or an empty string."""

    async def status(self, broker: BrokerEndpoints, role: str) -> BrokerStatus:
        """A broker's account of itself; one that does not answer is not reachable."""

    async def logins(self, broker: BrokerEndpoints, *, first: int, most: int) -> Logins | None:
        """Some of who is connected, from number `first` on; None if a broker, or its host, does not tell."""

    def system(self, broker: BrokerEndpoints, login: LoginSource | None) -> BrokerSystem:
        """How an agent watches a broker; without a login, as anybody could."""

    def heartbeat(self, broker: BrokerEndpoints, login: LoginSource | None, refused: Refused) -> Heartbeat:
        """How an agent notices that a broker has died; made while the loop runs."""

    def refusal(self, line: bytes) -> Refusal | None:
        """Whom the broker turned away, if a line of its log tells of that."""

    async def attach_problem(self, url: str, login: LoginSource | None = None) -> str:
        """Why a gateway could not attach to somebody else's broker at `url`, or an empty string.

        Without a `login`, the URL says who we are there.
        """

    def subscription_watch(self, broker: BrokerEndpoints) -> SubscriptionWatch:
        """Looks at who subscribes to what at a broker, as often as is affordable."""

    def tap(self, head: BrokerEndpoints, login: LoginSource | None, may_sample: Callable[[str], bool]) -> Tap:
        """A listener that samples what passes a head broker, and texts of the topics where it may."""


_NATS = NatsKind()
KINDS: dict[BrokerKind, Kind] = {BrokerKind.NATS: _NATS}


def kind_of(name: BrokerKind) -> Kind:
    """What can be done with brokers of this kind; others than the first are loaded where there are any."""
    if name is BrokerKind.RABBITMQ and name not in KINDS:
        from mangrove.broker.rabbitmq.kind import RabbitKind

        KINDS[name] = RabbitKind()
    return KINDS[name]


def management_kind() -> ManagementKind:
    """What management brokers are, whatever the head of their domain is."""
    return _NATS
