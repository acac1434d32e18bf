"""What the engine asks of keys and clocks: to sign what it says, and to judge what others have signed.

The engine is pure; keys and the time of day are not. So they are behind `Trust`, whose answers can be noted
while an engine runs and given again when its stimuli are replayed. Without a `Trust` an engine signs nothing
and believes its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from hmac import compare_digest
from typing import NamedTuple, Protocol

from mangrove.overlay.protocol.frames import TAG_BYTES
from mangrove.overlay.protocol.signed import Signed

PURPOSE = b"mangrove control message 1\n"
"""Begins everything that is signed here, so that nothing signed for another purpose can pass for it."""
MAX_SHARED = 8192


def statement(federation: str, at_ns: int, said: bytes) -> bytes:
    """The bytes that are signed."""
    return b"%b%b\n%b%b" % (PURPOSE, federation.encode(), at_ns.to_bytes(8, "big"), said)


class Signer(Protocol):
    """The keys of the own domain."""

    @property
    def credential(self) -> bytes:
        """What shows others whose signatures these are."""

    def sign(self, statement: bytes) -> bytes:
        """The signature of a statement."""

    def shared_keys(self, credential: bytes) -> tuple[bytes, ...]:
        """Keys that only the own domain and that of a credential have: the newest first, which is used, and
        those before it; none if the credential is not believed."""


class Verifier(Protocol):
    """What is known of the keys of others."""

    def verify(self, origin: str, statement: bytes, signature: bytes, credential: bytes) -> str:
        """Empty if the gateway of `origin` has signed the statement; else why that is not believed."""

    def approved(self, text: bytes, signature: bytes) -> str:
        """Empty if the authority has signed a federation document; else why that is not believed."""


class Judgement(NamedTuple):
    """What is to be thought of something signed."""

    problem: str
    """Empty if the origin has signed it."""
    age_s: float
    """How long ago, by its clock and this one; negative if one of them is wrong."""


class Trust(Protocol):
    """All that an engine asks of keys and of the time of day."""

    def signed(self, said: bytes) -> Signed:
        """Sign what this gateway says."""

    def judge(self, origin: str, signed: Signed) -> Judgement:
        """Whether a domain has said this."""

    def approved(self, text: bytes, signature: bytes) -> str:
        """Empty if the authority has signed a federation document; else why that is not believed."""

    def time_ns(self) -> int:
        """The time of day, as epochs are counted."""

    def tag(self, credential: bytes, content: bytes) -> bytes:
        """What proves to the gateway of a credential that this domain has sent something."""

    def tagged(self, credentials: tuple[bytes, ...], content: bytes, tag: bytes) -> bool:
        """Whether the gateway of one of these credentials has sent something to this domain."""


class KeyTrust:
    """Trust by keys."""

    def __init__(
        self, federation: str, signer: Signer, verifier: Verifier, time_ns: Callable[[], int]
    ) -> None:
        self._federation = federation
        self._signer = signer
        self._verifier = verifier
        self._time_ns = time_ns
        self._keys: dict[bytes, tuple[bytes, ...]] = {}
        """By credential; as many as there are domains, and some that were replaced."""

    def signed(self, said: bytes) -> Signed:
        """Sign what this gateway says."""
        at_ns = self._time_ns()
        return Signed(
            said=said,
            at_ns=at_ns,
            signature=self._signer.sign(statement(self._federation, at_ns, said)),
            credential=self._signer.credential,
        )

    def judge(self, origin: str, signed: Signed) -> Judgement:
        """Whether a domain has said this."""
        signed_bytes = statement(self._federation, signed.at_ns, signed.said)
        problem = self._verifier.verify(origin, signed_bytes, signed.signature, signed.credential)
        return Judgement(problem, (self._time_ns() - signed.at_ns) / 1e9)

    def approved(self, text: bytes, signature: bytes) -> str:
        """Empty if the authority has signed a federation document; else why that is not believed."""
        return self._verifier.approved(text, signature)

    def time_ns(self) -> int:
        """The time of day."""
        return self._time_ns()

    def tag(self, credential: bytes, content: bytes) -> bytes:
        """What proves to the gateway of a credential that this domain has sent something."""
        keys = self._with(credential)
        return _tag(keys[0], content) if keys else bytes(TAG_BYTES)

    def tagged(self, credentials: tuple[bytes, ...], content: bytes, tag: bytes) -> bool:
        """Whether the gateway of one of these credentials has sent something to this domain."""
        return any(
            compare_digest(_tag(key, content), tag)
            for credential in credentials
            for key in self._with(credential)
        )

    def _with(self, credential: bytes) -> tuple[bytes, ...]:
        keys = self._keys.get(credential)
        if keys is None:
            if len(self._keys) >= MAX_SHARED:
                self._keys.clear()
            keys = self._keys[credential] = self._signer.shared_keys(credential)
        return keys

    def __repr__(self) -> str:
        return "KeyTrust()"


def _tag(key: bytes, content: bytes) -> bytes:
    return blake2b(content, key=key, digest_size=TAG_BYTES).digest()
