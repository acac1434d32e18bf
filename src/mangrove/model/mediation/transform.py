"""Transforms: what a gateway makes of the payload of a message, and within which limits."""

from __future__ import annotations

from enum import StrEnum

import msgspec

DEFAULT_TIME_MS = 1000.0
DEFAULT_MEMORY_MB = 256


class Format(StrEnum):
    """How a document is written in a payload."""

    JSON = "json"
    MSGPACK = "msgpack"


class Place(StrEnum):
    """Which gateway transforms: that of the subscribers, or that of the publisher."""

    RECEIVING = "receiving"
    SENDING = "sending"


class Transform(msgspec.Struct, frozen=True, kw_only=True):
    """What is done with a payload: by a function, else by a stylesheet, else to the document in it.

    Of a document, first `keep` is asked, then come `select`, `pick` and `rename`, in this order.
    """

    decode: Format = Format.JSON
    encode: Format | None = None
    """None: as it was."""
    keep: str = ""
    """JMESPath; a message for which it is false, null or empty is left out."""
    select: str = ""
    """JMESPath; its value is the new document."""
    pick: tuple[str, ...] = ()
    """Fields that stay; none: all."""
    rename: dict[str, str] = {}
    stylesheet: str = ""
    """The text of an XSLT stylesheet."""
    function: str = ""
    """`module:function`, or the name of an entry point of the group `mangrove_transforms`."""
    time_ms: float = DEFAULT_TIME_MS
    """What one message may take."""
    memory_mb: int = DEFAULT_MEMORY_MB
    """What the process may need beyond what it needs at rest."""
    max_bytes: int | None = None
    """The largest result; None: what a message may have."""


class TransformUse(msgspec.Struct, frozen=True, kw_only=True):
    """What a contract says: which transform, and where."""

    use: str
    at: Place = Place.RECEIVING
