"""Queues whose consumers are members of a queue group, and how the gateway reaches one of them alone.

Whoever binds a queue to the exchange of groups makes its consumers members of the group that has the queue's
name. The gateway reaches a queue by a header that names its group. It binds the queue to an exchange of its
own for that, before it tells others of the member: by the management pages, where a refusal (somebody else's
exclusive queue, one that is gone already) costs an answer, and not the gateway's connection. And it has the
federated exchange lead there, under the queue's keys alone: nobody else's messages take the longer way. Pages
that fail are asked again until they answer: nothing else would bring the queue its messages.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter
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
RETRY_S, MAX_RETRY_S = 1.0, 30.0
"""A page that failed is asked again after so long, then after twice as long, and so on."""
MAX_AT_ONCE = 8
"""So many pages are asked side by side."""


class _Queue:
    """A queue that is bound to the exchange of groups, until its last binding goes."""

    __slots__ = ("bindings", "joining", "reached", "untold")

    def __init__(self) -> None:
        self.bindings: set[Binding] = set()
        self.untold: set[Binding] = set()
        """Of these, what is not in the book yet."""
        self.reached = False
        self.joining: asyncio.Task[None] | None = None


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
        self._queues: dict[str, _Queue] = {}
        self._uses: Counter[str] = Counter()
        """How many bindings there are by each key."""
        self._home: set[str] = set()
        """Keys under which the domain's own messages come to groups."""
        self._few = asyncio.Semaphore(MAX_AT_ONCE)

    async def begin(
        self,
        address: RabbitAddress,
        tls: ssl.SSLContext | None,
        connection: AmqpConnection,
        home: Iterable[str],
        told: Callable[[], None],
    ) -> list[Binding]:
        """What is bound and can be told at once; queues that are to be reached first join by themselves.

        `home` are keys that are bound already. `told` is called whenever more was told later on.
        """
        self._address, self._tls, self._connection, self._told = address, tls, connection, told
        self._home = set(home)
        self._queues.clear()
        self._uses.clear()
        for binding in await listed_bindings(address, GROUPS_EXCHANGE, tls, groups=True):
            if self._is_sound(binding):
                self._add(binding)
        for each in await listed_bindings(address, self._topology.serving, tls):
            if each.to == QUEUE and each.name in self._queues:
                self._queues[each.name].reached = True
        ready: list[Binding] = []
        for name, queue in self._queues.items():
            if queue.reached:
                known = {binding for binding in queue.untold if binding.key in self._home}
                ready += known
                queue.untold -= known
            self._let_join(name, queue)  # which begins when the caller has told what is ready
        for key in self._home - self._uses.keys():
            self._forget_home(key)
        return ready

    def end(self) -> None:
        """The connection is over."""
        self._connection = None
        for queue in self._queues.values():
            if queue.joining is not None:
                queue.joining.cancel()
        self._queues.clear()

    def created(self, binding: Binding) -> None:
        """Somebody has bound a queue."""
        if self._connection is not None and self._is_sound(binding):
            self._let_join(binding.name, self._add(binding))

    def deleted(self, binding: Binding) -> None:
        """Somebody has unbound it; a queue without bindings may be gone itself."""
        self._book.deleted(binding)
        queue = self._queues.get(binding.name)
        if queue is None or binding not in queue.bindings:
            return
        queue.bindings.discard(binding)
        queue.untold.discard(binding)
        if not queue.bindings:
            del self._queues[binding.name]
            if queue.joining is not None:
                queue.joining.cancel()
        self._uses[binding.key] -= 1
        if not self._uses[binding.key]:
            del self._uses[binding.key]
            if binding.key in self._home:
                self._forget_home(binding.key)

    def _add(self, binding: Binding) -> _Queue:
        queue = self._queues.setdefault(binding.name, _Queue())
        if binding not in queue.bindings:
            queue.bindings.add(binding)
            queue.untold.add(binding)
            self._uses[binding.key] += 1
        return queue

    def _let_join(self, name: str, queue: _Queue) -> None:
        if queue.untold and queue.joining is None:
            joining = asyncio.get_running_loop().create_task(self._join(name, queue), name="join a group")
            queue.joining = joining

    async def _join(self, name: str, queue: _Queue) -> None:
        """Tell of a queue's members, once everything for them is there."""
        try:
            queue.reached = queue.reached or await self._reach(name)
            while queue.reached and queue.untold:
                binding = queue.untold.pop()
                if binding.key not in self._home:
                    await self._bind_home(binding.key)
                if binding in queue.bindings:
                    self._book.created(binding)
            self._told()
        except AmqpError as error:  # the connection is lost, and all is listed anew
            log.debug("the group %s is not joined: %s", name, error.message)
        finally:
            queue.joining = None

    async def _reach(self, queue: str) -> bool:
        """Bind the queue to the gateway's own exchange; False if that is refused."""
        assert self._address is not None, "there is a connection"
        vhost = quote(self._address.vhost, safe="")
        place = f"/api/bindings/{vhost}/e/{quote(self._topology.serving, safe='')}/q/{quote(queue, safe='')}"
        asked = {"routing_key": "", "arguments": {"x-match": "all", group_header(queue): queue}}
        content = msgspec.json.encode(asked)
        pause_s = RETRY_S
        while True:
            try:
                async with self._few:
                    await fetch(self._address, place, self._tls, method="POST", content=content)
                return True
            except PageError as error:
                if error.refused or pause_s == RETRY_S:
                    then = "" if error.refused else "; it is asked again"
                    log.warning("the queue %s is no member of a group: %s%s", queue, error.message, then)
                    self._ignored(NOT_REACHED)
                if error.refused:
                    return False
            await asyncio.sleep(pause_s)
            pause_s = min(2.0 * pause_s, MAX_RETRY_S)

    async def _bind_home(self, key: str) -> None:
        """Have what the domain's publishers say under a key come here; to bind it twice is no error."""
        assert self._connection is not None, "a task ends with its connection"
        try:
            await self._topology.bind_home(self._connection, key)
            self._home.add(key)
        finally:
            if key not in self._uses:  # it was unbound meanwhile
                self._forget_home(key)

    def _forget_home(self, key: str) -> None:
        self._home.discard(key)
        if self._connection is not None:
            self._topology.unbind_home(self._connection, key)

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
