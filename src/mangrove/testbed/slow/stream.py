"""What is published to slow and quick subscribers: numbered, stamped, and useful one time in ten."""

from __future__ import annotations

import random
import struct
import time

from mangrove.model.congestion.keywords import keyword_utility

SUBJECT = "slow.stream"
FLOOD_SUBJECT = "slow.flood"
INTERESTS = frozenset({"storm", "flood", "surge", "wave"})
KEYWORDS = (
    ["storm", "flood", "surge", "wave"],
    ["storm", "flood", "traffic", "sport"],
    ["traffic", "sport"],
)
"""Of the useful tenth, of some that are half about it, and of the rest: utilities 1, 1/4 and 0."""
UTILITIES = tuple(keyword_utility(INTERESTS, frozenset(words)) for words in KEYWORDS)
TENTH = 10
STAMP = struct.Struct("<QQ")
PADDING = bytes(200)


def draw_kinds(seed: int, count: int) -> list[int]:
    """Positions in `KEYWORDS`: of each ten messages one is useful, and two are half so."""
    rng = random.Random(seed)
    kinds: list[int] = []
    while len(kinds) < count:
        ten = [0, 1, 1, *([2] * (TENTH - 3))]
        rng.shuffle(ten)
        kinds += ten
    return kinds[:count]


def payload(number: int, padding: bytes = PADDING) -> bytes:
    """A message that says which it is, and when it was sent."""
    return STAMP.pack(number, time.monotonic_ns()) + padding


def number_and_delay_ms(data: bytes) -> tuple[int, float]:
    """What a payload says."""
    number, sent_ns = STAMP.unpack_from(data)
    return number, (time.monotonic_ns() - sent_ns) / 1e6
