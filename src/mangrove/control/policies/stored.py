"""What of policies and members outlives a leader, among what is read at every take-over."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mangrove.control.instructions import StoreWrite
from mangrove.control.policies.documents import chunk_key, chunks_of
from mangrove.control.store_writes import SESSIONS
from mangrove.model.agents.members import PolicyRecord
from mangrove.model.unreadable import UNREADABLE

POLICIES = "policies"
COMMITTED_KEY = "policy.committed"
PROPOSED_KEY = "policy.proposed"
MEMBERS_KEY = "policy.members"
KEYS = (COMMITTED_KEY, PROPOSED_KEY, MEMBERS_KEY)


class StoredCommitted(msgspec.Struct, frozen=True, kw_only=True, tag="policy-committed"):
    """The policy in force."""

    record: PolicyRecord
    term: int


class StoredProposed(msgspec.Struct, frozen=True, kw_only=True, tag="policy-proposed"):
    """A policy that all were to hold; once `discarded` it keeps its version from being used again."""

    record: PolicyRecord
    term: int
    discarded: bool = False


class StoredMembers(msgspec.Struct, frozen=True, kw_only=True, tag="policy-members"):
    """Who holds policies before they are in force."""

    members: tuple[str, ...]
    epoch: int


_Stored = StoredCommitted | StoredProposed | StoredMembers
_decoder: msgspec.json.Decoder[_Stored] = msgspec.json.Decoder(_Stored)


class FoundPolicies(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier leaders left."""

    committed: PolicyRecord | None = None
    proposed: PolicyRecord | None = None
    highest: int = 0
    """Of all versions that were given out, as far as the store tells."""
    members: tuple[str, ...] = ()
    epoch: int = 0


def found_policies(records: Iterable[bytes]) -> FoundPolicies:
    """From everything that the store holds beside the directory."""
    found = FoundPolicies()
    for record in records:
        try:
            stored = _decoder.decode(record)
        except UNREADABLE:  # another's
            continue
        match stored:
            case StoredCommitted():
                highest = max(found.highest, stored.record.version)
                found = msgspec.structs.replace(found, committed=stored.record, highest=highest)
            case StoredProposed():
                highest = max(found.highest, stored.record.version)
                proposed = None if stored.discarded else stored.record
                found = msgspec.structs.replace(found, proposed=proposed, highest=highest)
            case StoredMembers():
                found = msgspec.structs.replace(found, members=stored.members, epoch=stored.epoch)
    return found


def body_writes(record: PolicyRecord, body: bytes) -> list[StoreWrite]:
    """A body, in chunks."""
    return [
        StoreWrite(POLICIES, chunk_key(record.version, number), chunk)
        for number, chunk in enumerate(chunks_of(body))
    ]


def body_removals(record: PolicyRecord) -> list[StoreWrite]:
    """A body that nobody needs any more."""
    return [
        StoreWrite(POLICIES, chunk_key(record.version, number), None)
        for number in range(min(record.chunks, 1_000))
    ]


def committed_write(record: PolicyRecord, term: int) -> StoreWrite:
    """This policy is in force."""
    return StoreWrite(SESSIONS, COMMITTED_KEY, msgspec.json.encode(StoredCommitted(record=record, term=term)))


def proposed_write(record: PolicyRecord, term: int, *, discarded: bool = False) -> StoreWrite:
    """This policy is to be held by all, or is not any more."""
    stored = StoredProposed(record=record, term=term, discarded=discarded)
    return StoreWrite(SESSIONS, PROPOSED_KEY, msgspec.json.encode(stored))


def members_write(members: tuple[str, ...], epoch: int) -> StoreWrite:
    """These agents hold policies before they are in force."""
    stored = StoredMembers(members=members, epoch=epoch)
    return StoreWrite(SESSIONS, MEMBERS_KEY, msgspec.json.encode(stored))
