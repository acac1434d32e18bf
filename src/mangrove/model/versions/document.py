"""The federation document: one version of what all domains agree on and may change while messages flow.

The first version is the federation file, which nobody needs to send. Every other one says what it follows
(`line`: the file; `before`: the version before it), so that no document of another federation, or of another
history, can take its place. What the contracts of a version mean by their classes is said with them
(`model.topics`): a class is given once in the life of a federation, to words that never change.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

import msgspec

from mangrove.model.access.rules import AccessRules
from mangrove.model.congestion.parameters import Congestion
from mangrove.model.federation import Federation, Limits, Region
from mangrove.model.mediation.transform import Transform
from mangrove.model.topics import Contract, TopicRules
from mangrove.model.versions.network import Network, members, with_network

MAX_DOCUMENT_BYTES = 384 << 10
MAX_SIGNATURE_BYTES = 1024
MAX_WORDS = 500
MAX_PAST = 64
FIRST_VERSION = 1
SETTINGS = ("limits", "access", "transforms", "regions", "congestion")
"""What a document may say besides contracts, as the federation file calls it."""

Words = Annotated[str, msgspec.Meta(max_length=MAX_WORDS)]


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """One of the versions before, for the history."""

    version: int
    digest: str
    by: Words = ""
    at: Words = ""
    note: Words = ""


class FederationDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version. Its digest is that of its text, which is what is signed and handed on."""

    federation: str
    version: Annotated[int, msgspec.Meta(ge=1, le=1 << 53)]
    line: str
    """Names the federation file with which it all began (`Federation.topology_hash`)."""
    shape: str
    """Names what the first file said besides contracts: domains, links (`Federation.shape_hash`)."""
    before: str = ""
    """The digest of the version before it."""
    by: Words = ""
    at: Words = ""
    note: Words = ""
    domains: tuple[str, ...]
    """In the order of their numbers, with the places of those that have left (`versions.network`)."""
    network: Network | None = None
    """None: domains and links are those of the first file."""
    topics: TopicRules
    next_class: int
    """The class that the next new contract gets."""
    limits: Limits | None = None
    """None: each site keeps to its own file."""
    access: AccessRules | None = None
    """None: each site keeps to its own file."""
    transforms: dict[str, Transform] | None = None
    """None: each site keeps to its own file."""
    regions: dict[str, Region] | None = None
    """None: each site keeps to its own file."""
    congestion: Congestion | None = None
    """None: each site keeps to its own file."""
    past: tuple[Past, ...] = ()
    """The versions before it, the newest first, as far as they are told."""

    def text(self) -> bytes:
        """What is signed, stored and sent; of contracts, what they say beyond the default."""
        # Once there and back, so that a number is written in one way only.
        said = msgspec.to_builtins(msgspec.convert(msgspec.to_builtins(self), FederationDocument))
        topics = said["topics"]
        topics["contracts"] = [_short(each) for each in topics["contracts"]]
        for each in topics.get("withdrawn", ()):
            each["contract"] = _short(each["contract"])
        return msgspec.json.encode(said, order="deterministic")

    @property
    def digest(self) -> str:
        """Names this very text."""
        return digest_of(self.text())

    @property
    def members(self) -> tuple[str, ...]:
        """The domains that agree on the next version, in the order of their numbers."""
        return members(self.domains)

    def as_past(self) -> Past:
        """What later versions tell of it."""
        return Past(version=self.version, digest=self.digest, by=self.by, at=self.at, note=self.note)


class WrittenDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document as it is stored and sent: its text, and the authority's signature where there are keys."""

    text: Annotated[bytes, msgspec.Meta(max_length=MAX_DOCUMENT_BYTES)]
    signature: Annotated[bytes, msgspec.Meta(max_length=MAX_SIGNATURE_BYTES)] = b""

    @property
    def digest(self) -> str:
        """Names the text."""
        return digest_of(self.text)

    def read(self) -> FederationDocument:
        """What it says; ValueError if that is nothing, or if it says more than this release understands.

        A word that only later releases know would otherwise be in force here without being kept.
        """
        document = _decoder.decode(self.text)
        if document.text() != self.text:
            raise ValueError("it is not written as documents are, or says what only a later release knows")
        return document


_DEFAULTS = msgspec.to_builtins(Contract(match=""))
_decoder = msgspec.json.Decoder(FederationDocument)


def _short(contract: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in contract.items() if value != _DEFAULTS[key]}


def digest_of(text: bytes) -> str:
    """Names a document's text."""
    return hashlib.blake2b(text, digest_size=12).hexdigest()


def first_document(federation: Federation) -> FederationDocument:
    """What a federation file says, as the version with which everything begins."""
    topics = federation.topics
    return FederationDocument(
        federation=federation.name,
        version=FIRST_VERSION,
        line=federation.topology_hash(),
        shape=federation.shape_hash(),
        domains=federation.domain_order,
        topics=TopicRules(topics.contracts, tuple(range(len(topics.contracts))), len(topics.contracts)),
        next_class=len(topics.contracts) + 1,
        note="the federation file",
    )


def in_force(federation: Federation, document: FederationDocument) -> Federation:
    """A site's federation, with what a document says in place of what its file said."""
    if document.version == FIRST_VERSION:
        return federation
    if document.network is not None:
        federation = with_network(federation, document.network)
    said = {key: value for key in SETTINGS if (value := getattr(document, key)) is not None}
    return msgspec.structs.replace(federation, topics=document.topics, numbers=document.domains, **said)


def same_network(document: FederationDocument, federation: Federation) -> bool:
    """Whether a site's file has the domains and links of a version, as far as that can be told.

    A version that has them is followed whatever the file says. One that has not keeps those of the first
    file, whose hash it has; where transforms have changed since, that cannot be computed any more.
    """
    if document.network is not None or document.shape == federation.shape_hash():
        return True
    return document.transforms is not None and document.domains == federation.domain_order
