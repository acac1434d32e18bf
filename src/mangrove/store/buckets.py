"""Buckets on the management broker: written in bulk with so much on its way at once, read whole.

Everything is bounded in time. A broker that is away or slow raises `StoreAwayError`; what was written by then
may or may not be there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import DeliverPolicy, Header, PubAck, StorageType
from nats.js.kv import KV_OP, KV_PURGE, MSG_ROLLUP_SUBJECT, KeyValue

from mangrove.errors import MangroveError
from mangrove.store.fence import FENCE_PREFIX, Fence, raise_fence
from mangrove.store.keys import store_key

DIRECTORY = "directory"
SESSIONS = "sessions"
POLICIES = "policies"
LEADERSHIP = "leadership"
OFFERS = "offers"
"""Made when it is first needed."""
FENCED = (DIRECTORY, SESSIONS, POLICIES)
"""What only the leader writes."""
BUCKETS = (*FENCED, LEADERSHIP)

TIMEOUT_S = 2.0
OPEN_TIMEOUT_S = 5.0
RECORDS_A_SECOND = 2_000
"""Slower than this, a store counts as away; it takes many more."""
IN_FLIGHT = 256
READ_ATTEMPTS = 10
READ_AGAIN_S = 0.1
MARKER = "Nats-Marker-Reason"
"""Of what the broker itself left in the place of a record."""
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

    def __init__(self, connection: Client, replicas: int = 1) -> None:
        """What is stored at several `replicas`, brokers of a cluster, survives the loss of a minority."""
        self._connection = connection
        self._replicas = replicas
        self._jetstream: JetStreamContext = connection.jetstream(
            # Twice what is ever on its way: what nats-py does when it must wait swallows cancellations.
            timeout=TIMEOUT_S,
            publish_async_max_pending=2 * IN_FLIGHT,
        )
        self._opened: dict[str, KeyValue] = {}
        self._fences: dict[str, Fence] = {}
        self._fence_term = 0
        """The term for which they were raised."""

    async def open(self) -> None:
        """Make what is not there yet."""
        async with bounded("make its buckets", OPEN_TIMEOUT_S):
            for name in BUCKETS:
                self._opened[name] = await self._made(bucket_name(name))

    async def _made(self, name: str) -> KeyValue:
        try:
            return await self._jetstream.create_key_value(
                bucket=name, history=1, storage=StorageType.FILE, replicas=self._replicas
            )
        except nats.js.errors.BadRequestError:  # it is there, made by another version with other settings
            found = await self._jetstream.key_value(name)
        await self._replicate(found)
        return found

    async def _replicate(self, bucket: KeyValue) -> None:
        """A bucket of before the domain had so many hosts is kept by as many brokers as a new one."""
        config = (await bucket.status()).stream_info.config
        if config.num_replicas != self._replicas:
            await self._jetstream.update_stream(config.evolve(num_replicas=self._replicas))

    async def bucket(self, name: str) -> KeyValue:
        """One bucket, made if need be."""
        if name not in self._opened and name in BUCKETS:
            await self.open()
        elif name not in self._opened:
            self._opened[name] = await self._made(bucket_name(name))
        return self._opened[name]

    def forget(self) -> None:
        """Look again whether the buckets are there: the broker may have lost its disk."""
        self._opened.clear()
        self._fences = {}

    async def raise_fences(self, term: int) -> None:
        """Refuse what leaders of earlier terms write from now on, and write under this term.

        Raises `FencedError` if a later leader has done so.
        """
        async with bounded("raise its fences", OPEN_TIMEOUT_S):
            opened = {name: await self.bucket(name) for name in FENCED}
            raised = await asyncio.gather(
                *(
                    raise_fence(self._jetstream, bucket, bucket_name(name), term)
                    for name, bucket in opened.items()
                )
            )
        self._fences = dict(zip(opened, raised, strict=True))
        self._fence_term = term

    async def write(self, writes: Sequence[Write], term: int | None = None) -> None:
        """Write all of these, in order; returns when all are in the store.

        With a `term` they are refused once a leader of a later one has raised its fences: `FencedError`, or
        the error of a store that is away.
        """
        if not self._connection.is_connected:
            raise StoreAwayError("the management broker is away")
        try:
            fences: dict[str, Fence] = {}
            if term is not None:
                if not self._fences or self._fence_term != term:
                    await self.raise_fences(term)
                # These and no later ones: this agent may lead anew before all is written.
                fences = self._fences
            async with bounded("take a write", TIMEOUT_S + len(writes) / RECORDS_A_SECOND):
                for name in {write.bucket for write in writes}:
                    await self.bucket(name)
                lot = _lot(writes, fences)
                for start in range(0, len(writes), lot):
                    await self._write_some(writes[start : start + lot], fences)
        except StoreAwayError:
            self.forget()
            raise

    async def _write_some(self, writes: Sequence[Write], fences: Mapping[str, Fence]) -> None:
        """Write without waiting for each; returns when all are in the store."""
        acknowledged: list[asyncio.Future[PubAck]] = []
        try:
            for number, (bucket, key, value) in enumerate(writes):
                subject = f"$KV.{bucket_name(bucket)}.{store_key(key)}"
                headers = fences[bucket].header(number) if bucket in fences else {}
                if value is not None:
                    sent = await self._jetstream.publish_async(subject, value, headers=headers or None)
                else:
                    removed = {**headers, KV_OP: KV_PURGE, Header.ROLLUP: MSG_ROLLUP_SUBJECT}
                    sent = await self._jetstream.publish_async(subject, headers=removed, msg_ttl=MARKER_S)
                acknowledged.append(sent)
            await asyncio.gather(*acknowledged)
        finally:
            for each in acknowledged:
                if not each.cancel() and not each.cancelled():
                    each.exception()  # the first that failed has been told

    async def read(self, name: str, *, max_records: int) -> list[bytes]:
        """All values of a bucket, at most so many; after `raise_fences`, all that were written before."""
        async with bounded("tell what it holds", OPEN_TIMEOUT_S + max_records / RECORDS_A_SECOND):
            for _ in range(READ_ATTEMPTS):
                through = self.fence_revision(name)
                values, last = await self._read_once(name, max_records)
                if last >= through or len(values) >= max_records:
                    return values
                await asyncio.sleep(READ_AGAIN_S)  # a member of the cluster that is behind the others
        raise StoreAwayError("the store did not tell what it holds: who was asked is behind the others")

    async def _read_once(self, name: str, max_records: int) -> tuple[list[bytes], int]:
        """Values, and the latest revision that was seen."""
        values: list[bytes] = []
        last = 0
        bucket = await self.bucket(name)
        if not (await bucket.status()).values:
            return values, last
        async with self.follow(name) as subscription:
            pending = 1
            while pending and len(values) < max_records:
                message = await subscription.next_msg(timeout=OPEN_TIMEOUT_S)
                pending = message.metadata.num_pending
                last = max(last, message.metadata.sequence.stream)
                if is_value(message):
                    values.append(message.data)
        return values, last

    @asynccontextmanager
    async def follow(self, name: str) -> AsyncIterator[JetStreamContext.PushSubscription]:
        """What a bucket holds, one message for each key, and then everything that is written there."""
        subscription = await self._jetstream.subscribe(
            f"$KV.{bucket_name(name)}.>",
            stream=f"KV_{bucket_name(name)}",
            ordered_consumer=True,
            deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
        )
        try:
            yield subscription
        finally:
            await subscription.unsubscribe()

    def fence_revision(self, name: str) -> int:
        """Whoever has seen this revision of a bucket has seen all that earlier leaders wrote; 0: unknown."""
        return self._fences[name].revision if name in self._fences else 0


def _lot(writes: Sequence[Write], fences: Mapping[str, Fence]) -> int:
    """How many may be on their way at once."""
    bounds = {fences[write.bucket].in_flight for write in writes if write.bucket in fences}
    return min([bound for bound in bounds if bound] or [IN_FLIGHT])


def bucket_name(name: str) -> str:
    """What a bucket is called at the broker, beside those of others."""
    return f"mangrove-{name}"


def is_value(message: Msg) -> bool:
    """Whether a message of a bucket holds a value, not a fence nor what is left of one that was removed."""
    headers = message.headers or {}
    fence = f".{FENCE_PREFIX}" in message.subject
    return not fence and KV_OP not in headers and MARKER not in headers


@asynccontextmanager
async def bounded(doing: str, seconds: float) -> AsyncIterator[None]:
    """Turns everything that a store can do wrong into one error."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise StoreAwayError(f"the store did not {doing} within {seconds:.1f} s") from None
    except (nats.errors.Error, OSError) as error:
        raise StoreAwayError(f"the store did not {doing}: {str(error) or type(error).__name__}") from None
