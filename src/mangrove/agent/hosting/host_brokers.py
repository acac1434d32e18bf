"""The brokers of one host of a domain: what each is told, when it starts and when that changes."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Collection, Iterator
from urllib.parse import quote, urlsplit

from mangrove.agent.hosting.broker_keys import BrokerKeys
from mangrove.agent.hosting.rounds import in_rounds
from mangrove.agent.hosting.vouching import vouched_places
from mangrove.broker.kinds import kind_of, management_kind
from mangrove.broker.security import BrokerSecurity
from mangrove.broker.system import BrokerAwayError
from mangrove.host.keys.logins.external_login import external_login
from mangrove.host.process import ManagedProcess
from mangrove.host.run_directory import RunDirectory
from mangrove.model.address import Address
from mangrove.model.agents.credentials import Credentials
from mangrove.model.broker_kinds import BROKER_URLS
from mangrove.model.endpoints import BrokerEndpoints, DomainEndpoints
from mangrove.model.federation import External, Federation
from mangrove.model.questions.vouching import AttachedPlace

log = logging.getLogger(__name__)

RETURN_S = 1.0
"""What a client may need to be back with its new key."""
MAX_TURNS_S = 10.0


class HostBrokers:
    """Those of a domain's brokers that run on one host; somebody else's are none of them."""

    def __init__(
        self,
        federation: Federation,
        endpoints: DomainEndpoints,
        host: str,
        run: RunDirectory,
        system_user: Credentials,
        keys: BrokerKeys | None = None,
    ) -> None:
        """With `keys`, only who shows one comes in; without, the `system_user` and whoever likes."""
        self._federation = federation
        self._own = endpoints
        self._host = host
        self._run = run
        self._system_user = system_user
        self.keys = keys
        self._tried_first: dict[str, int] = {}
        """Which of the brokers before it an edge tries first, if not the first of them."""
        self.processes: dict[str, ManagedProcess] = {}
        for broker in self._managements():
            self.processes[broker.name] = self._management_broker(broker)
        for broker in self._data_brokers():
            self.processes[broker.name] = self._data_broker(broker)

    def is_here(self, broker: BrokerEndpoints) -> bool:
        """Whether it is one of them."""
        return broker.machine == self._host and not broker.external

    def _managements(self) -> Iterator[BrokerEndpoints]:
        return filter(self.is_here, self._own.managements)

    def _data_brokers(self) -> Iterator[BrokerEndpoints]:
        """In the order of succession: each attaches to one before it."""
        return filter(self.is_here, self._own.succession)

    # -- configurations -----------------------------------------------------------------------------------

    def _management_broker(self, broker: BrokerEndpoints) -> ManagedProcess:
        """Writes the broker's configuration."""
        return management_kind().management_server(
            broker, self._run.path, self._own.managements, self._security(broker, attaches=False)
        )

    def _data_broker(self, broker: BrokerEndpoints) -> ManagedProcess:
        """Writes the broker's configuration; it tries those before it, beginning with the one last chosen."""
        urls = self._uplink_urls(broker) if broker is not self._own.head else ()
        first = self._tried_first.get(broker.name, 0)
        return kind_of(broker.kind).server(
            broker.itself,
            self._run.path,
            max_message_bytes=self._federation.max_message_bytes,
            site=self._own.domain,
            attach_to=(*urls[first:], *urls[:first]),
            head_is_ours=not self._own.head.external,
            system_user=self._system_user,
            security=self._security(broker, attaches=bool(urls)),
        )

    def _security(self, broker: BrokerEndpoints, *, attaches: bool) -> BrokerSecurity | None:
        """To somebody else's head a broker attaches as the URL of that one says."""
        if self.keys is None:
            return None
        return self.keys.of(broker, attaches=attaches and not self._own.head.external)

    def _uplink_urls(self, edge: BrokerEndpoints) -> tuple[str, ...]:
        """Where an edge attaches: at the first living broker before it, or at the emulator of its line."""
        if self._own.head.external:
            external = self._federation.domains[self._own.domain].external
            assert external is not None
            return (_with_password(external),)
        if edge.behind is not None:
            scheme = BROKER_URLS[edge.kind].attach_scheme
            return tuple(f"{scheme}://{Address(edge.host, port)}" for port in edge.behind.uplink_ports)
        earlier = self._own.succession[: self._own.succession.index(edge)]
        return tuple(broker.leaf_url for broker in earlier)

    # -- changes ------------------------------------------------------------------------------------------

    def attach_anew(self, broker: BrokerEndpoints, first: int) -> None:
        """Have a broker try those before it again, beginning with the one at position `first`."""
        self._tried_first[broker.name] = first
        self._data_broker(broker)
        kind_of(broker.kind).reload(self.processes[broker.name])

    def _turn_s(self, broker: BrokerEndpoints) -> float:
        """When a broker reads other keys.

        At once; but when keys end that were replaced, one data broker after the other: it closes the
        connections of who showed an old one, and who is connected to two of them always keeps one.
        """
        if self.keys is None or not self.keys.only_replaced or broker not in self._own.succession:
            return 0.0
        step_s = min(RETURN_S, MAX_TURNS_S / len(self._own.succession))
        return step_s * self._own.succession.index(broker)

    async def take_over_keys(self) -> list[str]:
        """Have all read their keys again: first those that others attach to, then these side by side.

        Returns which of them have not.
        """
        problems = []
        for broker in self._managements():
            self._management_broker(broker)
            problems += await self._reloaded(broker)
        edges = []
        for broker in self._data_brokers():
            self._data_broker(broker)
            if broker is self._own.head:
                problems += await self._reloaded(broker)
            else:
                edges.append(broker)
        problems += itertools.chain.from_iterable(await asyncio.gather(*map(self._reloaded, edges)))
        return problems

    async def _reloaded(self, broker: BrokerEndpoints) -> list[str]:
        process = self.processes[broker.name]
        if process.pid is None:
            return []  # it reads them when it starts
        await asyncio.sleep(self._turn_s(broker))
        problem = await kind_of(broker.kind).reloaded(process)
        if problem:
            log.error("%s goes on with the keys that it had: %s", broker.name, problem)
        return [broker.name] if problem else []

    async def expel(self) -> AsyncIterator[tuple[str, int]]:
        """Send away who is attached by a key that is believed no more, from one broker after the other; whom.

        A gateway that vouches for its attachments keeps them. One that does not comes back at once with its
        new key, and is never away from the primary and the mirror of a topic at the same time, also where
        they are on different hosts: each waits for its place in the order. A broker that cannot be asked is
        asked again, or somebody would stay there by a key that was taken from him.
        """
        if self.keys is None:
            return
        vouched = await vouched_places(self._own, self.keys.login, self.keys.gateway_nkey)

        async def asked(broker: BrokerEndpoints) -> int | None:
            return await self._expel(broker, vouched) if self.is_here(broker) else 0

        async for broker, many in in_rounds(self._own.succession, asked):
            if many:
                yield broker.name, many

    async def _expel(self, broker: BrokerEndpoints, vouched: Collection[AttachedPlace]) -> int | None:
        """How many were sent away; None: the broker could not be asked."""
        if self.keys is None or self.processes[broker.name].pid is None:
            return 0  # it reads its keys when it starts
        system = kind_of(broker.kind).system(broker, self.keys.login)
        try:
            sent_away = await system.expel(self.keys.nkeys(), vouched)
        except BrokerAwayError as error:
            log.warning("%s is asked again who is attached by keys of before: %s", broker.name, error.message)
            return None
        finally:
            await system.close()
        if sent_away:
            log.warning("%s sends %d away, attached by keys of before", broker.name, sent_away)
        return sent_away


def _with_password(external: External) -> str:
    """Where an edge of ours attaches to somebody else's head; only the broker's own file has it."""
    login = external_login(external)
    if login is None:
        return external.leaf
    shown, parts = login(), urlsplit(external.leaf)
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{quote(shown.user, safe='')}:{quote(shown.password, safe='')}@{place}"
