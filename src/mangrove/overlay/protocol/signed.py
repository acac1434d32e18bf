"""Something in its origin's own words, signed, as it is passed on from gateway to gateway."""

from __future__ import annotations

from typing import Annotated

import msgspec

from mangrove.model.questions.endangered import MAX_FOR_S

MAX_SAID_BYTES = 1 << 20
MAX_KEY_BYTES = 4096

_KeyBytes = Annotated[bytes, msgspec.Meta(max_length=MAX_KEY_BYTES)]


class Signed(msgspec.Struct, frozen=True, kw_only=True, tag="signed"):
    """Words, the time by their origin's clock, its signature over both, and its credential.

    `left_s` is not signed: who passes on a notice of a region says how much of its time is left.
    """

    said: Annotated[bytes, msgspec.Meta(max_length=MAX_SAID_BYTES)]
    at_ns: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    signature: _KeyBytes
    credential: _KeyBytes
    left_s: Annotated[float, msgspec.Meta(ge=0, le=MAX_FOR_S)] | None = None


class InterestStatement(msgspec.Struct, frozen=True, kw_only=True, tag="interest"):
    """What an origin signs of its interest: hashes of the last change, and of all that is wanted after it.

    So a gateway that passes on a whole table, made of many changes, can prove what the origin never said in
    one go.
    """

    origin: str
    epoch: int
    version: int
    change: bytes
    table: bytes
