"""Whether a broker that somebody else runs can be joined."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

TIMEOUT_S = 3.0


async def leaf_problem(url: str) -> str:
    """Why a leaf-node listener cannot be used, or an empty string if it greets as one should."""
    parts = urlsplit(url)
    writer = None
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            line = await reader.readline()
    except TimeoutError:
        return f"{parts.hostname}:{parts.port} does not answer within {TIMEOUT_S:g} s"
    except (OSError, ValueError) as error:
        return f"{parts.hostname}:{parts.port} cannot be reached: {error}"
    finally:
        if writer is not None:
            writer.close()
    if not line.startswith(b"INFO "):
        return f"{parts.hostname}:{parts.port} answers, but not as nats-server does: {line[:40]!r}"
    if b'"nonce"' not in line and b'"leafnode_urls"' not in line:
        return (
            f"{parts.hostname}:{parts.port} is a NATS listener, but not one for leaf nodes; "
            "give the broker a leafnodes section and name that port as `leaf`"
        )
    return ""
