"""What a publisher says of its message: keywords, and how useful it is to anybody."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from mangrove.client.message import Message
from mangrove.errors import InputError
from mangrove.model.congestion.keywords import MAX_HEADER_CHARACTERS, checked_keywords
from mangrove.model.shared_names import KEYWORDS_HEADER, UTILITY_HEADER

KEYWORDS_START = b"\r\n%b:" % KEYWORDS_HEADER.encode()
UTILITY_START = b"\r\n%b:" % UTILITY_HEADER.encode()
_READ_BYTES = 4 * MAX_HEADER_CHARACTERS + 4
"""So much of a header is copied: beyond the limit in characters, however many bytes each takes."""
_NUMBER_CHARACTERS = 32


def usefulness_headers(
    headers: Mapping[str, str] | None, keywords: Iterable[str] | None, utility: float | None
) -> dict[str, str]:
    """The user's headers, and those that say what a message is about and how useful it is."""
    result = dict(headers or {})
    if keywords is not None:
        result[KEYWORDS_HEADER] = ",".join(sorted(checked_keywords(keywords)))
    if utility is not None:
        if not (math.isfinite(utility) and 0 <= utility <= 1):
            raise InputError(f"a utility is a number from 0 to 1, not {utility:g}")
        result[UTILITY_HEADER] = f"{utility:.6g}"
    return result


def header_of(message: Message, start: bytes) -> str | None:
    """The value of a header, or as much of it as is ever read; None if it is not there."""
    head = message.head
    if not isinstance(head, bytes):
        return head.get(start[2:-1].decode())
    at = head.find(start)
    if at < 0:
        return None
    begin = at + len(start)
    end = head.find(b"\r\n", begin)
    return head[begin : min(end, begin + _READ_BYTES)].strip().decode(errors="replace")


def claimed_utility(value: str) -> float | None:
    """What a utility header says, unless it is no number; it may lie outside of 0 to 1."""
    if len(value) > _NUMBER_CHARACTERS or "_" in value:
        return None
    try:
        claimed = float(value)
    except ValueError:
        return None
    return claimed if math.isfinite(claimed) else None
