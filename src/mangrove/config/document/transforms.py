"""Transforms of a federation file, and how contracts name them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from mangrove.config.document.fields import MAX_MESSAGE_LIMIT_BYTES, Name, Strict
from mangrove.model.mediation.transform import DEFAULT_MEMORY_MB, DEFAULT_TIME_MS, Format, Place

Expression = Annotated[str, Field(min_length=1, max_length=4096)]


class TransformDocument(Strict):
    """What a gateway makes of a payload: of the document in it, by a stylesheet, or by a function."""

    decode: Format | None = Field(default=None, description="What the payload is; by default `json`.")
    encode: Format | None = Field(default=None, description="What it becomes; by default what it was.")
    keep: Expression | None = Field(
        default=None,
        description="JMESPath: messages for which it is false, null or empty are left out, and counted.",
    )
    select: Expression | None = Field(
        default=None, description="JMESPath: its value is the new document. After `keep`."
    )
    pick: list[str] = Field(default=[], description="Fields that stay; by default all. After `select`.")
    rename: dict[str, str] = Field(default={}, description="Fields and their new names. After `pick`.")
    xslt: str | None = Field(
        default=None, description="File with an XSLT 1.0 stylesheet, relative to this one, for XML."
    )
    function: str | None = Field(
        default=None,
        description="A function of yours, `module:function` or the name of an entry point of the group "
        "`mangrove_transforms`.",
    )
    time_ms: Annotated[float, Field(gt=0, le=60_000)] = Field(
        default=DEFAULT_TIME_MS, description="What one message may take."
    )
    memory_mb: Annotated[int, Field(ge=1, le=65_536)] = Field(
        default=DEFAULT_MEMORY_MB, description="What its process may need, beyond what it needs at rest."
    )
    max_bytes: Annotated[int, Field(ge=1, le=MAX_MESSAGE_LIMIT_BYTES)] | None = Field(
        default=None, description="The largest result; by default `max_message_bytes`."
    )


class TransformUseDocument(Strict):
    """Which transform, and where; its name alone is short for it at the receiving gateway."""

    use: Name = Field(description="A name under `transforms`.")
    at: Place = Field(
        default=Place.RECEIVING,
        description="The gateway that transforms: the subscribers' or the publisher's.",
    )


def transform_section(value: Any) -> Any:
    """A name is short for the transform of this name, at the receiving gateway."""
    return {"use": value} if isinstance(value, str) else value
