"""This agent's claim to lead: the election, the store that it asks, and a clock that no setting moves."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable

from mangrove.control.election.election import TTL_S, Election, PutLease
from mangrove.store.buckets import Buckets, StoreAwayError
from mangrove.store.lease import StoredLease

TERMS_BEGAN = 1_577_836_800
"""2020-01-01, in seconds since 1970."""
MAX_STEPS = 4
"""Of one attempt: look, look again, ask."""


def lease_clock() -> float:
    """Seconds that also pass while the machine sleeps, a lease ends then, too; nobody can set this clock."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Lease:
    """Call `attempt` whenever `wait` returns; lead only while it is `held`."""

    def __init__(
        self,
        buckets: Buckets,
        agent: str,
        rank: Callable[[str], int] = lambda _last_leader: 0,
        *,
        ttl_s: float = TTL_S,
    ) -> None:
        self._store = StoredLease(buckets)
        self._election = Election(
            agent, secrets.token_hex(8), first_term=_first_term(), rank=rank, ttl_s=ttl_s
        )
        self._asking = asyncio.Lock()
        self._said = asyncio.Event()
        """Set when the lease is to be looked at before it is due."""

    @property
    def held(self) -> bool:
        """Whether this agent leads at this moment."""
        return self._election.held(lease_clock())

    @property
    def term(self) -> int:
        """In which this agent leads, or led last."""
        return self._election.term

    @property
    def leader(self) -> str:
        """The agent that leads, as far as is known."""
        return self._election.leader

    @property
    def revision(self) -> int:
        """Of our own record while we lead, else 0: others look when they hear of a new one."""
        return self._election.revision

    async def wait(self) -> None:
        """Wait until the next attempt is due."""
        pause_s = max(0.0, self._election.timer() - lease_clock())
        try:
            async with asyncio.timeout(pause_s):
                await self._said.wait()
        except TimeoutError:
            pass
        self._said.clear()

    def look(self) -> None:
        """Another agent has said that the lease is taken, renewed or free."""
        self._election.look(lease_clock())
        self._said.set()

    def step_down(self, successor: str) -> None:
        """Lead no more, from this moment on; the store is told by the next attempt, which is due at once."""
        self._election.step_down(successor, lease_clock())
        self._said.set()

    async def attempt(self) -> bool:
        """Renew the lease, or take it if it is free and our turn; says whether it is held.

        Raises `StoreAwayError`.
        """
        async with self._asking:
            self._election.look(lease_clock())
            await self._ask()
        return self.held

    async def release(self) -> None:
        """Step down, so that another can lead at once. Raises `StoreAwayError`."""
        self.step_down("")
        async with self._asking:
            await self._ask()

    async def _ask(self) -> None:
        for _ in range(MAX_STEPS):
            wish = self._election.turn(lease_clock())
            if wish is None:
                return
            try:
                if isinstance(wish, PutLease):
                    revision = await self._store.put(wish.record, wish.last)
                    if revision is None:
                        self._election.refused(lease_clock())
                    else:
                        self._election.written(revision, lease_clock())
                else:
                    self._election.found(*await self._store.read(), lease_clock())
            except StoreAwayError:
                self._election.unanswered(lease_clock())
                raise
            except asyncio.CancelledError:
                self._election.unanswered(lease_clock())
                raise


def _first_term() -> int:
    """Of a store that lost everything: beyond all that it gave out before, unless leaders changed more often
    than once a minute."""
    return max(1, int(time.time() - TERMS_BEGAN) // 60)
