"""What clients ask of their domain's agent about contracts, and what the agent asks the signer.

An agent answers at once: a change goes on by itself, and is asked about by its digest.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from mangrove.model.access.rules import Principal
from mangrove.model.agents.speakers import said_by
from mangrove.model.versions.changes import ChangeState

MAX_REQUEST_BYTES = 64 << 10


class ContractsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Look, make or change a contract, withdraw one, or ask what became of a change."""

    set: dict[str, Any] | None = None
    """A contract as in a federation file, with its `match`."""
    remove: str = ""
    """The `match` of one to be withdrawn."""
    note: str = ""
    again: bool = False
    """Whether it was asked for before, and no answer came: that it has been done already is no mistake."""
    change: str = ""
    """The digest of a change that was asked for."""
    version: int = 0
    """The version that it was to be."""

    @property
    def match(self) -> str:
        """The contract that is to change; empty if none is."""
        return self.remove or str((self.set or {}).get("match", ""))


class Objection(StrEnum):
    """Why a contract does not change."""

    NOT_ALLOWED = "not allowed"
    INVALID = "invalid"
    REFUSED = "refused"
    UNSIGNED = "nobody signs"
    UNAVAILABLE = "not available"


class ContractsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What holds, or how far a change is."""

    version: int = 0
    contracts: tuple[dict[str, Any], ...] = ()
    """In the order in which they are tried, as a file has them; if that was asked."""
    digest: str = ""
    """Names the change."""
    state: ChangeState | None = None
    versions: dict[str, int] = {}
    """What is in force at each domain, as far as it is known."""
    away: tuple[str, ...] = ()
    objection: Objection | None = None
    problem: str = ""
    hint: str = ""


class SigningRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An agent asks for the authority's signature, for a client that may change the contract."""

    text: bytes
    """The document."""
    match: str
    """The only contract that it changes."""
    client: Principal


class SigningAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The signature, or why there is none."""

    signature: bytes = b""
    problem: str = ""


def contracts_subject(domain: str, user: str = "") -> str:
    """Where the agent of a domain is asked: `ContractsRequest` → `ContractsAnswer`."""
    return said_by(user, domain, "agent.contracts")


def signer_subject(domain: str) -> str:
    """Where whoever holds the authority's key is asked: `SigningRequest` → `SigningAnswer`."""
    return f"mangrove.{domain}.signer"
