"""What a problem file says of where it comes from, handed on to every answer so that it can be applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ORIGIN_FIELDS = ("federation", "domain", "topology", "topics", "data_until")
"""`topics` are the topics of each item; `data_until` is the end of the telemetry, in seconds since 1970."""


def origin_fields(document: object) -> dict[str, Any]:
    """These fields of a problem document, as they stand there."""
    if not isinstance(document, Mapping):
        return {}
    return {name: document[name] for name in ORIGIN_FIELDS if name in document}
