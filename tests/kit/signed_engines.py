"""Engines with real Ed25519 keys, a clock that tests set, and what they say in each other's names."""

from __future__ import annotations

from collections.abc import Mapping

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from tests.kit.engines import federation

from mangrove.model.federation import Federation
from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.events.happenings import StatementRefused
from mangrove.overlay.instructions import Instruction, SendFrame
from mangrove.overlay.protocol.control_messages import (
    ControlBody,
    Heartbeat,
    HeartbeatKind,
    InterestUpdate,
    LinkReport,
    LinkStateAd,
    control_body,
    control_frame,
)
from mangrove.overlay.protocol.frames import Frame, FrameType
from mangrove.overlay.protocol.signed import InterestStatement, Signed
from mangrove.overlay.protocol.signed_bodies import Signable, changed_wants, signed_frame, words
from mangrove.overlay.trust.table_hash import TableHash, digest_of
from mangrove.overlay.trust.trust import KeyTrust

SECOND_NS = 10**9
BEGAN_NS = 1_700_000_000 * SECOND_NS
RULES = TopicRules((Contract(match="twice.>", paths=2),))
SQUARE = federation(("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), topics=RULES)


class Clock:
    """The time of day, as far as it is known to one gateway."""

    def __init__(self) -> None:
        self.time_ns = BEGAN_NS

    def __call__(self) -> int:
        return self.time_ns

    def advance(self, seconds: float) -> None:
        self.time_ns += int(seconds * SECOND_NS)


class Ed25519Keys:
    """One domain's keys; the credential is its name and its public key."""

    def __init__(self, domain: str) -> None:
        self._key = Ed25519PrivateKey.generate()
        self.credential = domain.encode() + b" " + self._key.public_key().public_bytes_raw()

    def sign(self, statement: bytes) -> bytes:
        return self._key.sign(statement)

    def shared_keys(self, credential: bytes) -> tuple[bytes, ...]:
        """As secret as a test needs."""
        return (digest_of(b"secret" + b"".join(sorted((self.credential, credential)))),)


APPROVED = b"approved"


class KeyBook:
    """Everybody's keys, and who may still use them."""

    def __init__(self, shape: Federation = SQUARE) -> None:
        self.shape = shape
        self.keys = {name: Ed25519Keys(name) for name in shape.domains}
        self.valid = {keys.credential for keys in self.keys.values()}
        self.clock = Clock()
        self.verified = 0

    def verify(self, origin: str, statement: bytes, signature: bytes, credential: bytes) -> str:
        self.verified += 1
        name, _, public = credential.partition(b" ")
        if credential not in self.valid or name.decode() != origin:
            return f"the credential is not one of {origin}"
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(signature, statement)
        except InvalidSignature:
            return "the signature does not fit"
        return ""

    def approved(self, text: bytes, signature: bytes) -> str:
        return "" if signature == APPROVED else "no authority has signed it"

    def renew(self, domain: str) -> KeyTrust:
        self.valid.discard(self.keys[domain].credential)
        self.keys[domain] = Ed25519Keys(domain)
        self.valid.add(self.keys[domain].credential)
        return self.trust(domain)

    def trust(self, domain: str, clock: Clock | None = None) -> KeyTrust:
        return KeyTrust(self.shape.name, self.keys[domain], self, clock or self.clock)

    def engine(self, domain: str, *, life: int = 0, clock: Clock | None = None) -> OverlayEngine:
        """An engine with keys whose links have all passed their tests."""
        made = OverlayEngine(self.shape, domain, BEGAN_NS + life, trust=self.trust(domain, clock))
        for link in self.shape.links_of(domain):
            peer = link.other(domain)
            made.peer_up(peer, now=0.0)
            answer = Heartbeat(kind=HeartbeatKind.TEST_ACK, sequence=1, sent=0.0, received=0)
            made.receive(peer, control_frame(answer), 0.01)
        return made

    def signed(self, domain: str, message: Signable) -> Signed:
        """What a domain signs now."""
        return self.trust(domain).signed(words(message))

    def ad(
        self,
        origin: str,
        sequence: int = 1,
        told: Mapping[str, LinkReport] | None = None,
        *,
        by: str = "",
        life: int = 0,
        **links: LinkReport,
    ) -> Frame:
        """An advertisement in the name of a domain, signed by it or by another."""
        everything = {**(told or {}), **links}
        ad = LinkStateAd(origin=origin, epoch=BEGAN_NS + life, sequence=sequence, links=everything)
        return signed_frame(FrameType.LINK_STATE, self.signed(by or origin, ad))

    def update(
        self,
        origin: str,
        version: int,
        added: list[str],
        *,
        removed: list[str] | None = None,
        table: list[str] | None = None,
        snapshot: bool = False,
        by: str = "",
        life: int = 0,
    ) -> InterestUpdate:
        """A change of interest, or a table, in the name of a domain, signed by it or by another."""
        plain = InterestUpdate(
            origin=origin,
            epoch=BEGAN_NS + life,
            version=version,
            snapshot=snapshot,
            added=added,
            removed=removed or [],
        )
        statement = InterestStatement(
            origin=origin,
            epoch=BEGAN_NS + life,
            version=version,
            change=digest_of(changed_wants(plain)),
            table=TableHash(added if table is None else table).root(),
        )
        signed = self.signed(by or origin, statement)
        return InterestUpdate(
            origin=origin,
            epoch=BEGAN_NS + life,
            version=version,
            snapshot=snapshot,
            added=added,
            removed=removed or [],
            statement=signed,
        )


def refused(engine: OverlayEngine) -> list[StatementRefused]:
    """What the story tells of refusals."""
    return [
        event.happening for event in engine.take_events() if isinstance(event.happening, StatementRefused)
    ]


def sent_to(peer: str, instructions: list[Instruction]) -> list[ControlBody]:
    """The control messages for a neighbour."""
    return [
        control_body(each.frame) for each in instructions if isinstance(each, SendFrame) and each.peer == peer
    ]
