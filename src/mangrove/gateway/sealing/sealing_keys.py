"""The X25519 keys that a gateway seals and opens with: its own, and the public ones of the other domains.

Keys change while frames are under way. So earlier keys of both kinds are kept beside the newest; and the own
newest key is not sealed with before the others can have heard of it, because who opens must know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from mangrove.gateway.sealing.key_schedule import key_id

HEARD_S = 15.0
"""After so long every domain that can be reached has heard of a new key."""
KEPT = 8
"""Keys of one domain that are known at the same time; of the own ones as many as there are in the files."""
MAX_SECRETS = 4096


class OtherKey(NamedTuple):
    """The public key of another domain."""

    public: bytes
    since_s: float
    """When it was issued."""
    credential: bytes = b""
    """The certificate that carries it."""
    heard: bool = False
    """Whether the domain itself has used the certificate. Files may be here before they are there: what was
    heard goes before what was read, and of each the latest, when something is sealed for the domain."""

    @property
    def rank(self) -> tuple[bool, float]:
        """The highest is the one to seal for."""
        return self.heard, self.since_s


class SealingKeys:
    """Keys by their ids. `version` changes with every key that is sealed with, or for, or not believed."""

    def __init__(self, own: X25519PrivateKey, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._own: dict[bytes, X25519PrivateKey] = {}
        self._others: dict[str, dict[bytes, OtherKey]] = {}
        """Those of each domain, the one to seal for at the end."""
        self._secrets: dict[tuple[bytes, bytes], bytes] = {}
        self.version = 0
        self.sealing_id = _id_of(own)
        """The own key that bodies are sealed with."""
        self._own[self.sealing_id] = own
        self._next: tuple[bytes, float] | None = None
        """The own key that comes next, and when."""

    # -- keys come and go ---------------------------------------------------------------------------------

    def take_own(self, newest: X25519PrivateKey, *earlier: X25519PrivateKey) -> None:
        """The own keys, the latest first: all of them open at once, and the newest seals a little later."""
        self.follow_clock()
        for each in (*reversed(earlier), newest):
            own_id = _id_of(each)
            self._own.pop(own_id, None)
            self._own[own_id] = each
        while len(self._own) > max(KEPT, len(earlier) + 2):
            oldest = next(each for each in self._own if each != self.sealing_id)
            del self._own[oldest]
            self._secrets = {pair: secret for pair, secret in self._secrets.items() if pair[0] != oldest}
        coming = self.sealing_id if self._next is None else self._next[0]
        if self.sealing_id not in map(_id_of, (newest, *earlier)):
            self._next = (own_id, self._clock())  # it was ended: whoever knows that opens nothing with it
            self.follow_clock()
        elif own_id != coming:
            self._next = (own_id, self._clock() + HEARD_S)

    def take_other(self, domain: str, key: OtherKey) -> None:
        """A public key of another domain, from wherever it was heard."""
        known = self._others.get(domain, {})
        new_id = key_id(key.public)
        if new_id in known and known[new_id].rank >= key.rank:
            return
        others = [each for each in known.items() if each[0] != new_id]
        ordered = sorted([*others, (new_id, key)], key=lambda each: each[1].rank)
        self._others[domain] = dict(ordered[-KEPT:])
        self.version += 1

    def forget_other(self, domain: str, other_id: bytes) -> None:
        """A key of another domain is not believed any more."""
        if self._others.get(domain, {}).pop(other_id, None) is not None:
            self.version += 1

    def follow_clock(self) -> None:
        """Seal with a newer key when the others can have heard of it."""
        if self._next is not None and self._clock() >= self._next[1]:
            self.sealing_id = self._next[0]
            self._next = None
            self.version += 1

    # -- keys are asked for -------------------------------------------------------------------------------

    def others(self) -> Iterator[tuple[str, bytes, OtherKey]]:
        """All public keys of other domains, with their ids."""
        for domain, known in self._others.items():
            for other_id, key in known.items():
                yield domain, other_id, key

    def newest_id_of(self, domain: str) -> bytes | None:
        """The key to seal with for another domain; None if none is known."""
        known = self._others.get(domain)
        return next(reversed(known)) if known else None

    def has_own(self, own_id: bytes) -> bool:
        """Whether what was sealed for this key can be opened here."""
        return own_id in self._own

    def knows(self, domain: str, other_id: bytes) -> bool:
        """Whether a key of another domain is known."""
        return other_id in self._others.get(domain, {})

    def shared_secret(self, own_id: bytes, domain: str, other_id: bytes) -> bytes | None:
        """What the two keys have in common; None if one of them is not known, or good for nothing."""
        own, other = self._own.get(own_id), self._others.get(domain, {}).get(other_id)
        if own is None or other is None:
            return None
        found = self._secrets.get((own_id, other.public))
        if found is None:
            try:
                found = own.exchange(X25519PublicKey.from_public_bytes(other.public))
            except ValueError:  # a point of small order, or no point at all
                return None
            if len(self._secrets) >= MAX_SECRETS:
                self._secrets.clear()
            self._secrets[own_id, other.public] = found
        return found

    def __repr__(self) -> str:
        return f"SealingKeys(own={len(self._own)}, others={len(self._others)})"


def _id_of(private_key: X25519PrivateKey) -> bytes:
    return key_id(private_key.public_key().public_bytes_raw())
