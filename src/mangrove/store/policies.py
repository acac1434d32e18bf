"""Bodies of policies, read chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence

import nats.js.errors

from mangrove.store.buckets import POLICIES, Buckets, bounded
from mangrove.store.keys import store_key

READ_TIMEOUT_S = 5.0


async def read_document(buckets: Buckets, keys: Sequence[str], max_bytes: int) -> bytes | None:
    """The values of these keys one after the other; None if one is not there, or they are too many bytes.

    Raises `StoreAwayError`.
    """
    body = bytearray()
    async with bounded("tell a policy", READ_TIMEOUT_S):
        bucket = await buckets.bucket(POLICIES)
        for key in keys:
            try:
                entry = await bucket.get(store_key(key))
            except nats.js.errors.KeyNotFoundError:
                return None
            body += entry.value or b""
            if len(body) > max_bytes:
                return None
    return bytes(body)
