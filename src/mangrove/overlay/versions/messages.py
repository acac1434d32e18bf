"""What gateways say to each other about versions of the federation document."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

import msgspec

from mangrove.model.versions.document import FIRST_VERSION, WrittenDocument
from mangrove.model.versions.kept import NO_BALLOT, Ballot

MAX_NAME = 64
MAX_OBJECTION = 500

Digest = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
Domain = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]


class Step(IntEnum):
    """How far an attempt is: nothing is asked; may this be; let it be."""

    NONE = 0
    PREPARE = 1
    DECIDE = 2


class VersionNotice(msgspec.Struct, frozen=True, kw_only=True, tag="notice", omit_defaults=True):
    """All that a domain says about versions; a newer (epoch, sequence) replaces an older one.

    What it says beyond `version` and `digest`, which are in force there, is about the next version.
    """

    origin: Domain
    epoch: int
    sequence: int
    version: int
    digest: Digest
    promised: Ballot = NO_BALLOT
    accepted: Ballot = NO_BALLOT
    accepted_digest: Digest = ""
    objected: Digest = ""
    """A document that cannot be in force there, and why."""
    objection: Annotated[str, msgspec.Meta(max_length=MAX_OBJECTION)] = ""
    step: Step = Step.NONE
    """Of its own attempt, if it makes one."""
    ballot: Ballot = NO_BALLOT
    proposed: Digest = ""
    ready: int = FIRST_VERSION
    """For the domains and links of which version there are tables."""
    forwards: int = FIRST_VERSION
    """By the tables of which version it forwards."""

    @property
    def stamp(self) -> tuple[int, int]:
        """Orders what one domain says in time."""
        return (self.epoch, self.sequence)

    def named(self) -> tuple[str, ...]:
        """The documents that it speaks of."""
        return tuple(each for each in (self.digest, self.accepted_digest, self.proposed) if each)


class VersionText(msgspec.Struct, frozen=True, kw_only=True, tag="document"):
    """A document that a notice, which follows it, speaks of."""

    document: WrittenDocument
