"""What is asked of a gateway about versions of the federation document, and what it answers."""

from __future__ import annotations

import msgspec

from mangrove.model.versions.changes import Change
from mangrove.model.versions.document import WrittenDocument


class VersionsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Look, ask for another version, or ask for the text of one that was in force."""

    propose: WrittenDocument | None = None
    change: str = ""
    """The digest of what was proposed: what became of it?"""
    text_of: int = 0
    """A version whose text is wanted, if it was in force here."""
    newer_than: int = 0
    """The text of the version in force is wanted only if it is a later one."""


class VersionsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What is in force, here and elsewhere, as far as this gateway knows."""

    domain: str = ""
    document: bytes = b""
    """The text of the version in force."""
    signature: bytes = b""
    """The authority's, where there are keys."""
    versions: dict[str, int] = {}
    reachable: tuple[str, ...] = ()
    """Other domains to which some way leads."""
    change: Change | None = None
    text: bytes = b""
    """What was asked for; empty if it is not kept here."""
    problem: str = ""
    hint: str = ""


def gateway_versions_subject(domain: str) -> str:
    """Where a gateway is asked, on its domain's management broker."""
    return f"mangrove.{domain}.gateway.versions"
