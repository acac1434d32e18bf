"""Publishes subjects where the directory or an order says: at the head, at an edge, in another domain."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial

from mangrove.broker.client_connection import ClientConnection
from mangrove.client.broker_pool import BrokerPool, same_broker
from mangrove.client.management.moves import OVERTAKEN, migrated
from mangrove.client.migration.publisher_move import Route, move_between_domains, move_within_domain
from mangrove.errors import MangroveError
from mangrove.model.agents.registration import Migrated, Order

log = logging.getLogger(__name__)

Moved = Callable[[str, Callable[[str, int], Migrated] | None, str], None]
"""What is published on a subject has moved, or has not: what to tell of the order, if it was one, and why."""


class PublisherMoves:
    """Where one connection publishes its subjects."""

    def __init__(
        self, home: str, pool: BrokerPool, head: ClientConnection, route: Route, moved: Moved
    ) -> None:
        """`home` is the domain whose head is published at unless told otherwise."""
        self._home = home
        self._pool = pool
        self._head = head
        self._route = route
        self._moved = moved
        self._wires: dict[str, ClientConnection] = {}
        """Of subjects that are not published at the head."""
        self._abroad: dict[str, float] = {}
        """Subjects that are published in another domain, and how long what is sent may be on its way."""
        self._wanted: dict[str, tuple[str, Order | None]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._targets: dict[str, ClientConnection] = {}
        """Where subjects are moving to."""
        self._closed = False

    def wire_of(self, subject: str) -> ClientConnection:
        """Where a subject is published."""
        return self._wires.get(subject, self._head)

    def at(self, wire: ClientConnection) -> list[str]:
        """Subjects that are published at a connection, if it is not the head's."""
        return [subject for subject, each in self._wires.items() if each is wire]

    def wires(self) -> list[ClientConnection]:
        """Connections that are published at, besides the head, or soon will be."""
        return [*self._wires.values(), *self._targets.values()]

    def follow(self, subject: str, url: str) -> None:
        """The directory says where a subject is published."""
        if self._wanted.get(subject) or not same_broker(self._wires.get(subject, self._head).url, url):
            self._want(subject, url, None)

    def order(self, subject: str, order: Order, url: str) -> None:
        """The agent orders a publisher to another broker."""
        self._want(subject, url, order)

    def awaits_more(self, subject: str) -> bool:
        """Whether something else is to be done with a subject after what is done now."""
        return subject in self._wanted

    async def close(self) -> None:
        """End all moves, for good; what is kept goes where it went before."""
        self._closed = True
        self._wanted.clear()
        for task in list(self._running.values()):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def _want(self, subject: str, url: str, order: Order | None) -> None:
        if self._closed:
            return  # nobody would close what it is published at
        overtaken = self._wanted.get(subject, ("", None))[1]
        if overtaken is not None and (order is None or order.session != overtaken.session):
            self._moved(subject, partial(migrated, overtaken, "", OVERTAKEN, 0.0, 0), OVERTAKEN)
        self._wanted[subject] = url, order
        if subject not in self._running:
            self._running[subject] = asyncio.get_running_loop().create_task(
                self._run(subject), name="move a publisher"
            )

    async def _run(self, subject: str) -> None:
        try:
            while (wanted := self._wanted.pop(subject, None)) is not None:
                await self._carry_out(subject, *wanted)
        finally:
            self._running.pop(subject, None)

    async def _carry_out(self, subject: str, url: str, order: Order | None) -> None:
        old = self._wires.get(subject, self._head)
        problem = ""
        try:
            new = self._head if same_broker(self._head.url, url) else await self._pool.at(url)
            if new is not old:
                self._targets[subject] = new
                away = order is not None and order.domain not in ("", self._home)
                pause_s = max(0.0 if order is None else order.pause_s, self._abroad.get(subject, 0.0))
                if away or subject in self._abroad:
                    problem = await move_between_domains(subject, old, new, pause_s, self._route)
                else:
                    problem = await move_within_domain(subject, old, new, self._route)
                if not problem:
                    self._wires[subject] = new
                    if new is self._head:
                        del self._wires[subject]
                    if away:
                        self._abroad[subject] = pause_s
                    else:
                        self._abroad.pop(subject, None)
        except MangroveError as error:
            problem = error.message
        finally:
            self._targets.pop(subject, None)
        if problem:
            log.info("%s is published where it was: %s", subject, problem)
        told = None
        if order is not None:
            told = partial(migrated, order, "" if problem else order.to.broker, problem, 0.0, 0)
        self._moved(subject, told, problem)
