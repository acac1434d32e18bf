"""nats-server's list of subscriptions, `/connz?subs=detail`, read in bounded memory.

The page lists every subscription of every connection: with 100,000 of them it has 14 MB. What is longer than
the reader is willing to hold is read without the connections that have the most subscriptions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping

import msgspec

from mangrove.broker.nats.monitoring import MAX_PAGE_BYTES, PageTooLargeError, fetch
from mangrove.errors import MangroveError
from mangrove.model.shared_names import TAP_NAME
from mangrove.model.subjects import is_internal
from mangrove.model.unreadable import UNREADABLE

PAGE_CONNECTIONS = 1024
MAX_CONNECTIONS = 16 * PAGE_CONNECTIONS
MAX_DETAILED = 80_000
"""Subscriptions asked for when all of them are too many."""
MAX_FOREIGN = 1000
"""More subscriptions of leaf nodes than this are not listed, if they can be passed over."""
MAX_TOTALS = 50_000
"""Subscriptions of which it is remembered how much they have been handed."""
TIMEOUT_S = 5.0


class ListedSubscription(msgspec.Struct):
    """A subscription on the page."""

    subject: str = ""
    sid: str = ""
    qgroup: str = ""
    msgs: int = 0


class ListedConnection(msgspec.Struct):
    """A connection on the page, with its subscriptions if they were asked for."""

    cid: int = 0
    kind: str = "Client"
    name: str = ""
    subscriptions: int = 0
    subscriptions_list_detail: list[ListedSubscription] = []

    @property
    def is_client(self) -> bool:
        """Leaf nodes are on the page too: edges, which are asked themselves, and the gateway, whose patterns
        are what other domains want."""
        return self.kind == "Client" and self.name != TAP_NAME


class _Connz(msgspec.Struct):
    connections: list[ListedConnection] = []
    total: int = 0


class BrokerAwayError(MangroveError):
    """The broker does not show its page."""


class Look(msgspec.Struct):
    """One look at all subscriptions of clients; the tap's and internal ones are left out."""

    count: Counter[str] = msgspec.field(default_factory=Counter)
    """Subscriptions by pattern."""
    handed: Counter[str] = msgspec.field(default_factory=Counter)
    """Messages that subscribers of each pattern were handed since the look before."""
    totals: dict[tuple[int, str], int] = msgspec.field(default_factory=dict)
    """(connection, subscription id) → messages so far, where there were any."""
    skipped: int = 0
    """Subscriptions that were not looked at; a connection that was not looked at counts as one at least."""
    foreign: int = 0
    """Subscriptions of others than clients."""
    listed: int = 0
    """Subscriptions that the broker had to list."""
    too_large: bool = False
    """The list was too large to be read whole."""
    plain: set[str] = msgspec.field(default_factory=set)
    """Patterns that somebody wants who is in no queue group."""

    @property
    def complete(self) -> bool:
        """Whether a subscription that is not in `totals` has been handed nothing so far."""
        return not self.skipped and len(self.totals) < MAX_TOTALS

    def add(self, connection: ListedConnection, before: Look | None) -> None:
        """Count the subscriptions of a connection, if it is a client's."""
        self.listed += len(connection.subscriptions_list_detail)
        if not connection.is_client:
            self.foreign += len(connection.subscriptions_list_detail)
            return
        known: Mapping[tuple[int, str], int] = before.totals if before is not None else {}
        every_new_one_counts = before is not None and before.complete
        for each in connection.subscriptions_list_detail:
            if is_internal(each.subject):
                continue
            self.count[each.subject] += 1
            if not each.qgroup:
                self.plain.add(each.subject)
            if not each.msgs:
                continue
            key = (connection.cid, each.sid)
            last = known.get(key, 0 if every_new_one_counts else each.msgs)
            # A total that fell belongs to another subscription: the broker was started anew.
            increase = each.msgs - last if each.msgs >= last else each.msgs
            if increase:
                self.handed[each.subject] += increase
            if len(self.totals) < MAX_TOTALS:
                self.totals[key] = each.msgs


async def look_at_subscriptions(
    monitor_url: str,
    before: Look | None = None,
    *,
    max_bytes: int = MAX_PAGE_BYTES,
    max_detailed: int = MAX_DETAILED,
) -> Look | None:
    """All subscriptions, with what was handed out since the look `before`; None if the broker is away."""
    try:
        if before is None or not (before.too_large or before.foreign > MAX_FOREIGN):
            try:
                look = Look()
                async for connection in _connections(monitor_url, "subs=detail", max_bytes, look):
                    look.add(connection, before)
                return look
            except PageTooLargeError:
                pass
        return await _look_without_the_largest(monitor_url, before, max_bytes, max_detailed)
    except BrokerAwayError:
        return None


async def _look_without_the_largest(
    monitor_url: str, before: Look | None, max_bytes: int, max_detailed: int
) -> Look:
    """Connections in the order of their subscriptions, the first left out: leaf nodes, and too large ones."""
    sizes: list[tuple[int, bool]] = []
    look = Look()
    try:
        async for connection in _connections(monitor_url, "sort=subs", max_bytes, Look()):
            sizes += [(connection.subscriptions, connection.is_client)]
        first, rest = 0, sum(size for size, _ in sizes)
        while first < len(sizes) and (rest > max_detailed or not sizes[first][1]):
            size, is_client = sizes[first]
            rest -= size
            first += 1
            if is_client:
                look.skipped += size
                look.too_large = True
            else:
                look.foreign += size
        detail = _connections(monitor_url, "subs=detail&sort=subs", max_bytes, look, first)
        async for connection in detail:
            look.add(connection, before)
    except PageTooLargeError:
        of_clients = sum(size for size, is_client in sizes if is_client)
        return Look(too_large=True, skipped=of_clients, listed=max_detailed)
    return look


async def _connections(
    monitor_url: str, query: str, max_bytes: int, look: Look, first: int = 0
) -> AsyncIterator[ListedConnection]:
    """Connections from the given place on; those beyond the bound are counted as skipped."""
    offset, left_bytes = first, max_bytes
    while True:
        url = f"{monitor_url}/connz?{query}&limit={PAGE_CONNECTIONS}&offset={offset}"
        page = await fetch(url, max_bytes=left_bytes, timeout_s=TIMEOUT_S)
        if page is None:
            raise BrokerAwayError(f"no answer from {monitor_url}")
        left_bytes -= len(page)
        try:
            connz = msgspec.json.decode(page, type=_Connz)
        except UNREADABLE as error:
            raise BrokerAwayError(f"{url}: {error}") from None
        for connection in connz.connections:
            yield connection
        offset += PAGE_CONNECTIONS
        if offset >= connz.total:
            return
        if offset >= MAX_CONNECTIONS:
            look.skipped += connz.total - offset
            return
