"""Connections that are no SDK's: what they are handed is read from the broker, and stays where it is."""

from __future__ import annotations

import msgspec

from mangrove.control.load.plausibility import amount_problem, rate_problem
from mangrove.control.stimuli import PlainClient, PlainClientsSeen

MIN_LOOK_S = 0.5
"""Two looks that are closer give no rates."""


class PlainLoad(msgspec.Struct, frozen=True):
    """What one connection takes of a broker's output, and the streams that its patterns bring in."""

    cid: int
    name: str
    messages_s: float
    bytes_s: float
    patterns: dict[str, tuple[float, float]]
    """Messages and bytes in a second, by pattern."""


class PlainClients:
    """The plain clients of one broker, from one look at its connections to the next."""

    def __init__(self) -> None:
        self.loads: tuple[PlainLoad, ...] = ()
        """The heaviest first. After the first look their patterns are known, and no rates yet."""
        self.left_out = 0
        self._base: dict[int, PlainClient] = {}
        self._base_at = 0.0

    def take(self, seen: PlainClientsSeen, now: float) -> int:
        """Take a look in; how many clients were refused, because their figures cannot be right."""
        elapsed_s = now - self._base_at if self._base else 0.0
        usable = [client for client in seen.clients if not _problem(client)]
        loads = [_load(client, self._base.get(client.cid), elapsed_s) for client in usable]
        self.loads = tuple(sorted(loads, key=lambda load: (-load.bytes_s, load.cid)))
        self.left_out = seen.left_out
        self._base = {client.cid: client for client in usable}
        self._base_at = now
        return len(seen.clients) - len(usable)


def _problem(client: PlainClient) -> str:
    figures = (client.bytes_out, client.pending_bytes, *(count for _, count in client.patterns))
    return next((problem for figure in figures if (problem := amount_problem(figure))), "")


def _load(client: PlainClient, before: PlainClient | None, elapsed_s: float) -> PlainLoad:
    """Rates since the look before; none of a connection that is new, or whose counters fell."""
    silent = PlainLoad(client.cid, client.name, 0.0, 0.0, {name: (0.0, 0.0) for name, _ in client.patterns})
    if before is None or elapsed_s < MIN_LOOK_S:
        return silent
    earlier = dict(before.patterns)
    grown = {pattern: count - earlier.get(pattern, 0) for pattern, count in client.patterns}
    size_bytes, messages = client.bytes_out - before.bytes_out, sum(grown.values())
    if size_bytes < 0 or min(grown.values(), default=0) < 0:
        return silent
    messages_s, bytes_s = messages / elapsed_s, size_bytes / elapsed_s
    if rate_problem(messages_s, bytes_s):
        return silent
    mean_bytes = size_bytes / messages if messages else 0.0
    patterns = {name: (each / elapsed_s, each / elapsed_s * mean_bytes) for name, each in grown.items()}
    return PlainLoad(client.cid, client.name, messages_s, bytes_s, patterns)
