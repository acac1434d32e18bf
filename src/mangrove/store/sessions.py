"""Open offload sessions as the store keeps them: only the brain that wrote them knows what is in them."""

from __future__ import annotations

from mangrove.store.buckets import SESSIONS, Buckets

MAX_SESSIONS = 10_000


async def read_sessions(buckets: Buckets) -> tuple[bytes, ...]:
    """All sessions that were open."""
    return tuple(await buckets.read(SESSIONS, max_records=MAX_SESSIONS))
