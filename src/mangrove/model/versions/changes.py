"""What became of a change that somebody asked for."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class ChangeState(StrEnum):
    """How far a change is. One that is prepared may still be undone, one that is decided on no more."""

    PREPARING = "preparing"
    DECIDING = "deciding"
    IN_FORCE = "in force"
    REFUSED = "refused"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A change, named by the digest of its document."""

    digest: str
    state: ChangeState
    detail: str = ""
