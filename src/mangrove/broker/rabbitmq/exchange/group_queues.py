"""Queues whose consumers are members of a queue group, and how the gateway reaches one of them alone.

Whoever binds a queue to the exchange of groups makes its consumers members of the group that has the queue's
name. The gateway reaches a queue by a header that names its group. It binds the queue to an exchange of its
own for that, before it tells others of the member: by the management pages, where a refusal (somebody else's
exclusive queue, one that is gone already) costs an answer, and not the gateway's connection. And it has the
federated exchange lead there, under the queue's keys alone: nobody else's messages take the longer way.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable
from urllib.parse import quote

import msgspec

from mangrove.broker.rabbitmq.address import GROUPS_EXCHANGE, RabbitAddress
from mangrove.broker.rabbitmq.exchange.bindings import Binding, BindingBook
from mangrove.broker.rabbitmq.exchange.management import PageError, fetch, listed_bindings
from mangrove.broker.rabbitmq.exchange.patterns import is_exact
from mangrove.broker.rabbitmq.exchange.topology import Topology
from mangrove.broker.rabbitmq.messages.properties import group_header
from mangrove.broker.rabbitmq.wire.connection import AmqpConnection, AmqpError
from mangrove.model.subjects import group_problem

log = logging.getLogger(__name__)

QUEUE = "queue"
NO_QUEUE = "exchange bound as a queue group, which only a queue can be"
ODD_KEY = "binding of a queue group whose key no pattern can say"
ODD_NAME = "queue whose name cannot be that of a queue group"
NOT_REACHED = "queue of a group that the gateway could not be bound to"


class GroupQueues:
    """Follows the bindings of groups during one connection."""

    def __init__(self, book: BindingBook, topology: Topology, ignored: Callable[[str], None]) -> None:
        self._book = book
        self._topology = topology
        self._ignored = ignored
        self._address: RabbitAddress | None = None
        self._tls: ssl.SSLContext | None = None
        self._connection: AmqpConnection | None = None
        self._told: Callable[[], None] = lambda: None
        self._bindings: dict[str, set[Binding]] = {}
        """What each queue is bound to."""
        self._reached: set[str] = set()
        self._home: set[str] = set()
        """Keys under which the domain's own messages come to groups."""
        self._joining: dict[str, asyncio.Task[None]] = {}

    async def begin(
        self,
        address: RabbitAddress,
        tls: ssl.SSLContext | None,
        connection: AmqpConnection,
        home: Iterable[str],
        told: Callable[[], None],
    ) -> list[Binding]:
        """Reach all queues that are bound: the bindings that can be told.

        `home` are keys that are bound already. `told` is called whenever more was told later on.
        """
        self._address, self._tls, self._connection, self._told = address, tls, connection, told
        self._home = set(home)
        self._bindings.clear()
        for binding in await listed_bindings(address, GROUPS_EXCHANGE, tls, groups=True):
            if self._is_sound(binding):
                self._bindings.setdefault(binding.name, set()).add(binding)
        serving = await listed_bindings(address, self._topology.serving, tls)
        self._reached = {each.name for each in serving if each.to == QUEUE} & self._bindings.keys()
        ready = [each for queue in list(self._bindings) for each in await self._made_ready(queue)]
        for key in self._home - self._keys():
            self._forget_home(key)
        return ready

    def end(self) -> None:
        """The connection is over."""
        self._connection = None
        for task in self._joining.values():
            task.cancel()
        self._joining.clear()

    def created(self, binding: Binding) -> None:
        """Somebody has bound a queue."""
        if not self._is_sound(binding):
            return
        self._bindings.setdefault(binding.name, set()).add(binding)
        if binding.name not in self._joining:
            task = asyncio.get_running_loop().create_task(self._join(binding.name), name="join a group")
            self._joining[binding.name] = task

    def deleted(self, binding: Binding) -> None:
        """Somebody has unbound it; a queue without bindings may be gone itself."""
        self._book.deleted(binding)
        bindings = self._bindings.get(binding.name, set())
        bindings.discard(binding)
        if not bindings:
            self._bindings.pop(binding.name, None)
            self._reached.discard(binding.name)
        if binding.key in self._home and binding.key not in self._keys():
            self._forget_home(binding.key)

    def _keys(self) -> set[str]:
        return {each.key for bindings in self._bindings.values() for each in bindings}

    def _forget_home(self, key: str) -> None:
        self._home.discard(key)
        if self._connection is not None:
            self._topology.unbind_home(self._connection, key)

    async def _join(self, queue: str) -> None:
        """Tell of a queue's members, once everything for them is there."""
        try:
            known: set[Binding] = set()
            while (bindings := set(self._bindings.get(queue, ()))) - known:
                known = bindings
                for binding in await self._made_ready(queue):
                    if binding in self._bindings.get(queue, ()):
                        self._book.created(binding)
            self._told()
        except AmqpError as error:  # the connection is lost, and all is listed anew
            log.debug("the group %s is not joined: %s", queue, error.message)
        finally:
            self._joining.pop(queue, None)

    async def _made_ready(self, queue: str) -> list[Binding]:
        """The bindings of a queue whose messages will come, from here and from elsewhere."""
        bindings = list(self._bindings.get(queue, ()))
        if queue not in self._reached and not await self._reach(queue):
            return []
        for binding in bindings:
            if binding.key not in self._home and self._connection is not None:
                self._home.add(binding.key)
                await self._topology.bind_home(self._connection, binding.key)
        return bindings

    async def _reach(self, queue: str) -> bool:
        assert self._address is not None, "there is a connection"
        vhost = quote(self._address.vhost, safe="")
        place = f"/api/bindings/{vhost}/e/{quote(self._topology.serving, safe='')}/q/{quote(queue, safe='')}"
        asked = {"routing_key": "", "arguments": {"x-match": "all", group_header(queue): queue}}
        try:
            await fetch(self._address, place, self._tls, method="POST", content=msgspec.json.encode(asked))
        except PageError as error:
            log.warning("the queue %s is no member of a group: %s", queue, error.message)
            self._ignored(NOT_REACHED)
            return False
        self._reached.add(queue)
        return True

    def _is_sound(self, binding: Binding) -> bool:
        problem = ""
        if binding.to != QUEUE:
            problem = NO_QUEUE
        elif group_problem(binding.name):
            problem = ODD_NAME
        elif not is_exact(binding.key):
            problem = ODD_KEY
        if problem:
            self._ignored(problem)
        return not problem
