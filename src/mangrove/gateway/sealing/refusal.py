"""Why the body of a frame is not opened, or not believed."""

from __future__ import annotations

from enum import StrEnum

from mangrove.errors import MangroveError


class Refusal(StrEnum):
    """Why a body is not opened."""

    NOT_SEALED = "not sealed, though its topic is confidential"
    NO_KEYS = "sealed, and this gateway has no keys"
    MALFORMED = "its seal cannot be read"
    NOT_FOR_US = "not sealed for this domain"
    OWN_KEY_UNKNOWN = "sealed for a key that this domain does not have"
    ORIGIN_KEY_UNKNOWN = "sealed with a key of its origin that is not known here"
    BROKEN = "its seal is broken"
    REPEATED = "it was opened before"
    TOO_OLD = "sealed under a key that its origin gave up long ago"


class UnopenedError(MangroveError):
    """A body that is not opened."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.value)
        self.refusal = refusal
