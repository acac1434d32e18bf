"""Buckets on the management broker: written in bulk with so much on its way at once, read whole.

Everything is bounded in time. A broker that is away or slow raises `StoreAwayError`; what was written by then
may or may not be there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import DeliverPolicy, Header, PubAck, StorageType
from nats.js.kv import KV_OP, KV_PURGE, MSG_ROLLUP_SUBJECT, KeyValue

from mangrove.errors import MangroveError
from mangrove.store.keys import store_key

DIRECTORY = "directory"
SESSIONS = "sessions"
LEADERSHIP = "leadership"
BUCKETS = (DIRECTORY, SESSIONS, LEADERSHIP)

TIMEOUT_S = 2.0
OPEN_TIMEOUT_S = 5.0
RECORDS_A_SECOND = 2_000
"""Slower than this, a store counts as away; it takes many more."""
IN_FLIGHT = 256
MARKER_S = 3600
"""For so long a bucket remembers that a record was removed."""


class StoreAwayError(MangroveError):
    """The store did not answer in time, or refused."""


class Write(NamedTuple):
    """A value under a key of a bucket; None removes it."""

    bucket: str
    key: str
    value: bytes | None


class Buckets:
    """The buckets of one domain, over a connection that somebody else keeps and closes."""

    def __init__(self, connection: Client) -> None:
        self._connection = connection
        self._jetstream: JetStreamContext = connection.jetstream(
            # Twice what is ever on its way: what nats-py does when it must wait swallows cancellations.
            timeout=TIMEOUT_S,
            publish_async_max_pending=2 * IN_FLIGHT,
        )
        self._opened: dict[str, KeyValue] = {}

    async def open(self) -> None:
        """Make what is not there yet."""
        async with _bounded("make its buckets", OPEN_TIMEOUT_S):
            for name in BUCKETS:
                self._opened[name] = await self._made(bucket_name(name))

    async def _made(self, name: str) -> KeyValue:
        try:
            return await self._jetstream.create_key_value(bucket=name, history=1, storage=StorageType.FILE)
        except nats.js.errors.BadRequestError:  # it is there, made by another version with other settings
            return await self._jetstream.key_value(name)

    async def bucket(self, name: str) -> KeyValue:
        """One bucket, made if need be."""
        if name not in self._opened:
            await self.open()
        return self._opened[name]

    def forget(self) -> None:
        """Look again whether the buckets are there: the broker may have lost its disk."""
        self._opened.clear()

    async def write(self, writes: Sequence[Write]) -> None:
        """Write all of these, in order; returns when all are in the store."""
        if not self._connection.is_connected:
            raise StoreAwayError("the management broker is away")
        try:
            async with _bounded("take a write", TIMEOUT_S + len(writes) / RECORDS_A_SECOND):
                for name in {write.bucket for write in writes}:
                    await self.bucket(name)
                for start in range(0, len(writes), IN_FLIGHT):
                    await self._write_some(writes[start : start + IN_FLIGHT])
        except StoreAwayError:
            self.forget()
            raise

    async def _write_some(self, writes: Sequence[Write]) -> None:
        """Write without waiting for each; returns when all are in the store."""
        acknowledged: list[asyncio.Future[PubAck]] = []
        try:
            for bucket, key, value in writes:
                subject = f"$KV.{bucket_name(bucket)}.{store_key(key)}"
                if value is not None:
                    acknowledged.append(await self._jetstream.publish_async(subject, value))
                else:
                    removed = {KV_OP: KV_PURGE, Header.ROLLUP: MSG_ROLLUP_SUBJECT}
                    acknowledged.append(
                        await self._jetstream.publish_async(subject, headers=removed, msg_ttl=MARKER_S)
                    )
            await asyncio.gather(*acknowledged)
        finally:
            for each in acknowledged:
                if not each.cancel() and not each.cancelled():
                    each.exception()  # the first that failed has been told

    async def read(self, name: str, *, max_records: int) -> list[bytes]:
        """All values of a bucket, at most so many."""
        values: list[bytes] = []
        async with _bounded("tell what it holds", OPEN_TIMEOUT_S + max_records / RECORDS_A_SECOND):
            bucket = await self.bucket(name)
            status = await bucket.status()
            if not status.values:
                return values
            subscription = await self._jetstream.subscribe(
                f"$KV.{bucket_name(name)}.>",
                stream=status.stream_info.config.name,
                ordered_consumer=True,
                deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
            )
            try:
                pending = 1
                while pending and len(values) < max_records:
                    message = await subscription.next_msg(timeout=OPEN_TIMEOUT_S)
                    pending = message.metadata.num_pending
                    if not message.headers:  # removals and markers have some
                        values.append(message.data)
            finally:
                await subscription.unsubscribe()
        return values


def bucket_name(name: str) -> str:
    """What a bucket is called at the broker, beside those of others."""
    return f"mangrove-{name}"


@asynccontextmanager
async def _bounded(doing: str, seconds: float) -> AsyncIterator[None]:
    """Turns everything that a store can do wrong into one error."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise StoreAwayError(f"the store did not {doing} within {seconds:.1f} s") from None
    except (nats.errors.Error, OSError) as error:
        raise StoreAwayError(f"the store did not {doing}: {str(error) or type(error).__name__}") from None
