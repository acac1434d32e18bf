"""Whether a federation proves who is who: the federation file's `security`."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class SecurityMode(StrEnum):
    """With keys, everybody proves who it is and all connections are encrypted; with none, nobody does."""

    KEYS = "keys"
    NONE = "none"


class Security(msgspec.Struct, frozen=True, kw_only=True):
    """How a federation is secured, and where its keys are on this machine."""

    mode: SecurityMode = SecurityMode.NONE
    keys: str = ""
    """The key directory, if the file names one; empty: in the run directory."""

    @property
    def secured(self) -> bool:
        """Whether everybody proves who it is."""
        return self.mode is SecurityMode.KEYS
