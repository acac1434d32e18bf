"""What a domain must never forget of its versions: what is in force, and what it has promised and accepted.

Written down before anybody is told of it. A domain that forgot would let two changes take place at once.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from mangrove.model.versions.document import WrittenDocument


class Ballot(NamedTuple):
    """Which attempt to change the federation: later ones are higher, and no two are equal."""

    round: int = 0
    domain: str = ""


NO_BALLOT = Ballot()


class KeptVersions(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one domain. What concerns the next version is forgotten when that is in force."""

    committed: WrittenDocument | None = None
    """None: the federation file."""
    promised: Ballot = NO_BALLOT
    """No attempt before this one is heard any more."""
    accepted: Ballot = NO_BALLOT
    accepted_document: WrittenDocument | None = None
