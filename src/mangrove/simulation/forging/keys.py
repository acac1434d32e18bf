"""Keys for simulations: fast, the same for the same seed, and honest in the way that matters here.

A signature is a keyed hash under a secret of its domain. A forger is given its own domain's keys and
nothing else. What each domain has signed is kept, so that belief can be compared with truth.
"""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest

SIGNATURE_BYTES = 64


class SimulatedKeys:
    """The keys of one domain."""

    def __init__(self, domain: str, authority: SimulatedAuthority) -> None:
        self.domain = domain
        self.credential = domain.encode()
        self._authority = authority
        self.signed: set[bytes] = set()
        """All statements that were ever signed."""

    def sign(self, statement: bytes) -> bytes:
        """The signature of a statement."""
        self.signed.add(statement)
        return signature(self._authority.secrets[self.domain], statement)

    def shared_keys(self, credential: bytes) -> tuple[bytes, ...]:
        """What this domain shares with the owner of a credential, and with nobody else."""
        secrets = self._authority.secrets
        both = sorted((secrets[self.domain], secrets[credential.decode()]))
        return (blake2b(b"".join(both), digest_size=32).digest(),)


class SimulatedAuthority:
    """Knows the keys of all domains, and judges whose a signature is."""

    def __init__(self, domains: list[str], seed: int) -> None:
        self.secrets = {name: blake2b(f"{seed} {name}".encode()).digest() for name in domains}
        self._secret = blake2b(f"{seed} authority".encode()).digest()
        self.keys = {name: SimulatedKeys(name, self) for name in domains}

    def verify(self, origin: str, statement: bytes, signed: bytes, credential: bytes) -> str:
        """Empty if the gateway of `origin` has signed the statement."""
        if credential != origin.encode():
            return f"the credential is not that of {origin}"
        secret = self.secrets.get(origin)
        if secret is None or not compare_digest(signature(secret, statement), signed):
            return "the signature does not fit"
        return ""

    def approve(self, text: bytes) -> bytes:
        """Sign a federation document."""
        return signature(self._secret, text)

    def approved(self, text: bytes, signed: bytes) -> str:
        """Empty if this authority has signed a federation document."""
        return "" if compare_digest(self.approve(text), signed) else "no authority has signed it"


def signature(secret: bytes, statement: bytes) -> bytes:
    """A keyed hash."""
    return blake2b(statement, key=secret, digest_size=SIGNATURE_BYTES).digest()
