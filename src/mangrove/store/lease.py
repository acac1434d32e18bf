"""Who leads a domain: a record that is renewed by compare-and-set, and taken over when nobody renews it.

No two clocks are compared. A follower waits, by its own clock, until the record has not changed for `TTL_S`;
a leader counts its lease from before it asked for it, so that it knows of its end before anybody else does.
A term grows with every change of leaders. A store that lost everything begins at the minutes since 2020: that
is beyond every term that it gave out before, unless leaders changed more often than once a minute.
"""

from __future__ import annotations

import asyncio
import secrets
import time

import msgspec
import nats.errors
import nats.js.errors

from mangrove.store.buckets import LEADERSHIP, Buckets, StoreAwayError

TTL_S = 3.0
RENEW_S = 1.0
ASK_TIMEOUT_S = 1.0
KEY = "leader"
TERMS_BEGAN = 1_577_836_800
"""2020-01-01, in seconds since 1970."""


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """Who leads; an empty holder has stepped down."""

    holder: str
    agent: str
    term: int
    beat: int = 0


_decoder = msgspec.json.Decoder(_Record)


def lease_clock() -> float:
    """Seconds that also pass while the machine sleeps: a lease ends then, too."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Lease:
    """One agent's claim to lead. Call `attempt` about every `RENEW_S`; lead only while it is `held`."""

    def __init__(self, buckets: Buckets, agent: str) -> None:
        self._buckets = buckets
        self._agent = agent
        self._holder = secrets.token_hex(8)
        """Of this process: one that is started anew under the same name is another."""
        self._revision = 0
        """Of our own record, while we lead."""
        self._ends = 0.0
        self._seen: tuple[int, float] = (-1, 0.0)
        """The record of somebody else as last seen, and since when it has been the same."""
        self.term = 0
        self.leader = ""
        """The agent that leads, as far as is known."""

    @property
    def held(self) -> bool:
        """Whether this agent leads at this moment."""
        return bool(self._revision) and lease_clock() < self._ends

    @property
    def pause_s(self) -> float:
        """How long to wait before the next attempt: somebody else's lease may end before a renewal is due."""
        ends_in_s = self._seen[1] + TTL_S - lease_clock()
        return RENEW_S if self.held or ends_in_s <= 0 else min(RENEW_S, ends_in_s)

    async def attempt(self) -> bool:
        """Renew the lease, or take it if it is free; says whether it is held. Raises `StoreAwayError`."""
        try:
            async with asyncio.timeout(ASK_TIMEOUT_S):
                if self.held:
                    await self._renew()
                else:
                    await self._take()
        except TimeoutError:
            raise StoreAwayError(f"the store did not answer within {ASK_TIMEOUT_S:g} s") from None
        except nats.js.errors.NoStreamResponseError:
            self._buckets.forget()
            raise StoreAwayError("the store has no buckets any more") from None
        except (nats.errors.Error, OSError) as error:
            raise StoreAwayError(f"the store failed: {str(error) or type(error).__name__}") from None
        return self.held

    async def release(self) -> None:
        """Step down, so that another can lead at once."""
        if not self.held:
            return
        self._ends = 0.0
        record = _Record(holder="", agent=self._agent, term=self.term)
        async with asyncio.timeout(ASK_TIMEOUT_S):
            bucket = await self._buckets.bucket(LEADERSHIP)
            await bucket.update(KEY, msgspec.json.encode(record), last=self._revision)

    async def _renew(self) -> None:
        asked = lease_clock()
        record = _Record(holder=self._holder, agent=self._agent, term=self.term, beat=self._revision)
        try:
            await self._put(record, self._revision, asked)
        except nats.js.errors.KeyWrongLastSequenceError:
            await self._look_again(asked)

    async def _look_again(self, asked: float) -> None:
        """A renewal that timed out may have come about; or somebody else has taken the lease."""
        found, revision = await self._read()
        if found is not None and found.holder == self._holder and found.term == self.term:
            self._revision = revision
            await self._put(found, revision, asked)
        else:
            self._revision, self._ends = 0, 0.0
            self._observe(found, revision)

    async def _take(self) -> None:
        self._revision, self._ends = 0, 0.0
        asked = lease_clock()
        found, revision = await self._read()
        self._observe(found, revision)
        taken = found is not None and found.holder not in ("", self._holder)
        if taken and asked - self._seen[1] < TTL_S:
            return
        term = found.term + 1 if found is not None else _first_term()
        record = _Record(holder=self._holder, agent=self._agent, term=term)
        try:
            await self._put(record, revision, asked)
        except nats.js.errors.KeyWrongLastSequenceError:
            return  # somebody else was faster
        self.term, self.leader = term, self._agent

    async def _put(self, record: _Record, last: int, asked: float) -> None:
        bucket = await self._buckets.bucket(LEADERSHIP)
        self._revision = await bucket.update(KEY, msgspec.json.encode(record), last=last)
        self._ends = asked + TTL_S

    async def _read(self) -> tuple[_Record | None, int]:
        """The record and its revision; one that cannot be read counts as none, and is replaced."""
        bucket = await self._buckets.bucket(LEADERSHIP)
        try:
            entry = await bucket.get(KEY)
        except nats.js.errors.KeyDeletedError as deleted:
            return None, deleted.entry.revision or 0
        except nats.js.errors.KeyNotFoundError:
            return None, 0
        try:
            return _decoder.decode(entry.value or b""), entry.revision or 0
        except msgspec.DecodeError:
            return None, entry.revision or 0

    def _observe(self, found: _Record | None, revision: int) -> None:
        self.leader = found.agent if found is not None and found.holder else ""
        if revision != self._seen[0]:
            self._seen = (revision, lease_clock())


def _first_term() -> int:
    return max(1, int(time.time() - TERMS_BEGAN) // 60)
