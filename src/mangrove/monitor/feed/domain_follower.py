"""One domain, listened to for as long as its federation runs: its stream, put together again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from mangrove.broker.kinds import kind_of
from mangrove.errors import MangroveError
from mangrove.host.keys.logins.user_login import login_of
from mangrove.host.nats_connecting import close_in_time, connect_or_close, heed_cancellation
from mangrove.model.agents.status import AgentStatus
from mangrove.model.endpoints import BrokerEndpoints, DomainEndpoints, Runtime
from mangrove.model.hosting.broker_status import BrokerStatus
from mangrove.model.hosting.host_status import host_statuses, loss_of_a_host
from mangrove.model.hosting.supervision import HostAnswer
from mangrove.model.security.users import OPERATOR_USER
from mangrove.model.status import DomainStatus, GatewayStatus
from mangrove.model.stream.events import EVENTS_PART, EventHead, host_of_events
from mangrove.model.stream.messages import (
    AGENT_PART,
    GATEWAY_PART,
    HOST_PART,
    SILENT_S,
    TOPICS_PART,
    Watch,
    said_subject,
    watch_subject,
)
from mangrove.model.stream.telling import Follower
from mangrove.model.topic_counts import TopicTotals
from mangrove.monitor.feed.host_events import HostEvents
from mangrove.monitor.feed.snapshot import Presence, TopicRate
from mangrove.monitor.feed.topic_rates import TopicRates

NAME = "mangrove-monitor"
LOOK_S = 0.5
RENEW_S = 3.0
"""How often the domain is told that somebody listens; what it said lasts three times as long."""
ASK_AGAIN_S = 2.0
"""A whole account that was asked for and did not come is asked for again after so long."""
OUTSIDE_S = 5.0
"""How often brokers of others, of which no host tells, are looked at."""
RETRY_S = 1.0
PING_S, PINGS = 2, 2
MAX_UNREAD_MESSAGES = 500
MAX_UNREAD_BYTES = 64 << 20
MAX_HOSTS = 64

Part = (
    Follower[GatewayStatus]
    | Follower[AgentStatus]
    | Follower[TopicTotals]
    | Follower[HostAnswer]
    | Follower[EventHead]
)
Tell = Callable[[str, Sequence[msgspec.Raw]], None]
"""Takes events as they were written down, of a domain."""


class DomainFollower:
    """Keeps the last that was heard of a domain; tells when that changed."""

    def __init__(
        self, runtime: Runtime, endpoints: DomainEndpoints, changed: Callable[[], None], tell: Tell
    ) -> None:
        self._runtime = runtime
        self._endpoints = endpoints
        self._domain = runtime.federation.domains[endpoints.domain]
        self._changed = changed
        self._tell = tell
        self._gateway = Follower(GatewayStatus)
        self._agent = Follower(AgentStatus)
        self._totals = Follower(TopicTotals)
        self._hosts: dict[str, Follower[HostAnswer]] = {}
        self._events: dict[str, HostEvents] = {}
        self._more = asyncio.Event()
        """Some host has told of events that are not here yet."""
        self._heard_at: dict[str, float] = {}
        """When each part was last heard, by the clock that nobody sets."""
        self._asked_at: dict[str, float] = {}
        self._outside: dict[str, BrokerStatus] = {}
        self._rates = TopicRates()
        self._known: DomainStatus | None = None
        self.presence = Presence(problem="it has not been heard yet")

    # -- what is known ------------------------------------------------------------------------------------

    @property
    def status(self) -> DomainStatus | None:
        """The domain, as it was when it was last heard; None: never."""
        if self.presence.connected or self._known is None:
            self._known = self._assembled() if self._heard_at else None
        return self._known

    @property
    def topics(self) -> TopicTotals | None:
        """What its gateway carried."""
        return self._totals.account

    @property
    def rates(self) -> dict[str, TopicRate]:
        """What its gateway carries; nothing while that is not heard."""
        return self._rates.present

    def _assembled(self) -> DomainStatus:
        endpoints = self._endpoints
        hosts = {part: each for part, each in self._hosts.items() if self._fresh(part)}
        answers = [each.account for each in hosts.values() if each.account is not None]
        told = {broker.name: broker for answer in answers for broker in answer.brokers} | self._outside
        return DomainStatus(
            domain=endpoints.domain,
            brokers=(
                _told(endpoints.head, "head", told),
                *(_told(edge, "edge", told) for edge in endpoints.edges),
                *(_told(broker, "management", told) for broker in endpoints.managements),
            ),
            gateway=self._gateway.account if self._fresh(GATEWAY_PART) else None,
            agent=self._agent.account if self._fresh(AGENT_PART) else None,
            agent_expected=self._runtime.agents,
            hosts=host_statuses(self._domain, endpoints, {each.greeting.host: each for each in answers}),
            loss_of_a_host=loss_of_a_host(self._domain),
        )

    def _fresh(self, part: str) -> bool:
        limit = 2 * SILENT_S if part.startswith(HOST_PART) else SILENT_S
        return time.monotonic() - self._heard_at.get(part, float("-inf")) < limit

    # -- how it is heard ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Listen until cancelled, if there is a key for it. A broker that is away is tried again."""
        urls = [broker.client_url for broker in self._endpoints.managements]
        if self._runtime.keys and not self._endpoints.keys:
            # What is here was looked at when the federation, or this, began.
            self._away(f"its operator's key is not in {self._runtime.keys}: see `mangrove keys export`")
            return
        while True:
            try:
                connection = await connect_or_close(
                    urls,
                    login=login_of(self._endpoints.keys, OPERATOR_USER),
                    name=NAME,
                    allow_reconnect=False,
                    connect_timeout=2,
                    ping_interval=PING_S,
                    max_outstanding_pings=PINGS,
                    error_cb=self._failed,
                )
            except MangroveError as error:
                self._away(f"its operator's key cannot be used: {error.message}")
                await asyncio.sleep(RETRY_S)
                continue
            except (OSError, nats.errors.Error, TimeoutError) as error:
                self._away(f"its management broker cannot be reached: {error or type(error).__name__}")
                await asyncio.sleep(RETRY_S)
                continue
            asking = asyncio.create_task(self._ask_events(connection), name="events")
            try:
                await self._listen(connection)
            except (OSError, nats.errors.Error) as error:
                self._away(f"its management broker went away: {error or type(error).__name__}")
            finally:
                asking.cancel()
                await asyncio.wait([asking])
                await close_in_time(connection)
            await asyncio.sleep(RETRY_S)

    async def _listen(self, connection: Client) -> None:
        await connection.subscribe(
            said_subject(self._endpoints.domain),
            cb=self._heard,
            pending_msgs_limit=MAX_UNREAD_MESSAGES,
            pending_bytes_limit=MAX_UNREAD_BYTES,
        )
        await self._say(connection, "*")
        renewed = looked = time.monotonic()
        await self._look_outside()
        while connection.is_connected:
            await asyncio.sleep(LOOK_S)
            now = time.monotonic()
            missing = [part for part, asked in self._asked_at.items() if now - asked > ASK_AGAIN_S]
            if not self.presence.connected and now - renewed > RETRY_S:
                missing = ["*"]
            if missing or now - renewed > RENEW_S:
                renewed = now
                self._asked_at.update({part: now for part in missing if part in self._asked_at})
                await self._say(connection, *missing)
            if now - looked > OUTSIDE_S:
                looked = now
                await self._look_outside()
                heed_cancellation()
            self._judge()
        self._away("the connection to its management broker was lost")

    async def _ask_events(self, connection: Client) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            for host in list(self._events.values()):
                if host.behind:
                    await host.catch_up(connection)
                    heed_cancellation()

    async def _say(self, connection: Client, *whole: str) -> None:
        watch = msgspec.json.encode(Watch(whole=whole))
        await connection.publish(watch_subject(self._endpoints.domain), watch)

    async def _heard(self, message: Msg) -> None:
        part = message.subject.rpartition(".")[2]
        follower = self._follower(part)
        if follower is None:
            return
        self._heard_at[part] = time.monotonic()
        if not follower.hear(message.data):
            # At once the first time; if it does not come, with the next words after a pause.
            self._asked_at.setdefault(part, float("-inf"))
            return
        self._asked_at.pop(part, None)
        if part in self._events:
            if self._events[part].behind:
                self._more.set()
            return
        if part == TOPICS_PART and self._totals.account is not None:
            self._rates.take(self._totals.account)
        seen_at, lost = time.time(), sum(each.lost for each in self._parts())
        self.presence = Presence(connected=True, seen_at=seen_at, lost=lost, problem=self._omitted())
        self._changed()

    def _follower(self, part: str) -> Part | None:
        match part:
            case "gateway":
                return self._gateway
            case "agent":
                return self._agent
            case "topics":
                return self._totals
            case _ if part.startswith(EVENTS_PART):
                return self._event_head(part)
            case _ if not part.startswith(HOST_PART):
                return None
        if part not in self._hosts and len(self._hosts) < MAX_HOSTS:
            self._hosts[part] = Follower(HostAnswer)
        return self._hosts.get(part)

    def _event_head(self, part: str) -> Follower[EventHead] | None:
        domain = self._endpoints.domain
        if part not in self._events and len(self._events) < MAX_HOSTS:
            self._events[part] = HostEvents(domain, host_of_events(part), partial(self._tell, domain))
        return self._events[part].head if part in self._events else None

    def _parts(self) -> list[Part]:
        heads = (each.head for each in self._events.values())
        return [self._gateway, self._agent, self._totals, *self._hosts.values(), *heads]

    def _omitted(self) -> str:
        largest = max(part.omitted_bytes for part in self._parts())
        return f"an account of {largest} bytes is too large to be sent" if largest else ""

    def _judge(self) -> None:
        """What has fallen silent is away, also while the connection holds."""
        if not self._fresh(TOPICS_PART):
            self._forget_rates()
        if any(self._fresh(part) for part in self._heard_at):
            if self._known is not None and self._known != (present := self._assembled()):
                self._known = present
                self._changed()
        elif self.presence.connected:
            self._away("none of its processes is heard")

    def _away(self, problem: str) -> None:
        self._asked_at.clear()
        self._forget_rates()
        if self.presence.connected or self.presence.problem != problem:
            self.presence = msgspec.structs.replace(self.presence, connected=False, problem=problem)
            self._changed()

    def _forget_rates(self) -> None:
        shown = bool(self._rates.present)
        self._rates.forget()
        if shown:
            self._changed()

    async def _look_outside(self) -> None:
        """Brokers that no host of ours runs are asked by whoever wants to know."""
        outside = [each for each in self._endpoints.brokers() if each.external]
        found = await asyncio.gather(*(kind_of(each.kind).status(each, "") for each in outside))
        self._outside = {each.name: each for each in found}

    async def _failed(self, error: Exception) -> None:
        """What is lost shows in the numbers of the updates; a broker that is away, by the connection."""


def _told(broker: BrokerEndpoints, role: str, told: dict[str, BrokerStatus]) -> BrokerStatus:
    if broker.name in told:
        return msgspec.structs.replace(told[broker.name], role=role)
    return BrokerStatus(name=broker.name, role=role, url=broker.client_url, reachable=False)
