"""The W3C's trace context in message headers: found without reading messages, and made by publishers."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import NamedTuple, Self

HEADER = "traceparent"
MAX_FOUND = 16
"""Traced messages that are looked at in one frame; samples are rare, and bodies come from anybody."""
_NEEDLE = b"raceparent:"
_FOUND = re.compile(rb"[Tt]raceparent:[ \t]*00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f][13579bdf][ \t]*\r\n")
_TEXT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


class TraceContext(NamedTuple):
    """Which trace a message belongs to, and the span that it came from. Only sampled ones are kept."""

    trace_id: int
    span_id: int

    @classmethod
    def new(cls) -> Self:
        """The beginning of a trace."""
        return cls(random.getrandbits(128) or 1, random.getrandbits(64) or 1)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Of a header's text; None if it is malformed, of nothing, or not sampled."""
        found = _TEXT.fullmatch(text.strip())
        if found is None or not int(found[3], 16) & 1:
            return None
        made = cls(int(found[1], 16), int(found[2], 16))
        return made if all(made) else None

    def __str__(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-01"

    def child(self) -> TraceContext:
        """A span that came from this one."""
        return TraceContext(self.trace_id, random.getrandbits(64) or 1)


def contexts_in(body: bytes) -> Iterator[TraceContext]:
    """The contexts of sampled messages in a buffer of any number of messages."""
    if _NEEDLE not in body:
        return
    for count, found in enumerate(_FOUND.finditer(body)):
        if count >= MAX_FOUND:
            return
        made = TraceContext(int(found[1], 16), int(found[2], 16))
        if all(made):
            yield made
