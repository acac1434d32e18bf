"""A gateway's sealing, put together from the keys of its domain and from what is heard of the others'.

Every export of keys holds the certificates of all domains, so that a gateway can seal for those that it has
never heard of. Certificates come with what other gateways sign, too: so it is known which key a domain has,
whichever of the two sites got its new files first.
"""

from __future__ import annotations

import logging
from time import monotonic

from cryptography.hazmat.primitives.serialization import Encoding

from mangrove.errors import InputError, UntrustedError
from mangrove.gateway.sealing.content_keys import ContentKeys
from mangrove.gateway.sealing.gateway_sealer import GatewaySealer
from mangrove.gateway.sealing.opener import Opener
from mangrove.gateway.sealing.sealing_keys import OtherKey, SealingKeys
from mangrove.host.keys.files.key_files import read_certificates
from mangrove.host.keys.ring import KeyRing
from mangrove.model.federation import Federation

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 0.05
"""So often keys are looked at anew, at most, because somebody uses one that is not known."""


class DomainSealing:
    """Sealer and opener of one gateway life, and the keys of both."""

    def __init__(self, federation: Federation, domain: str, ring: KeyRing) -> None:
        order = federation.domain_order
        self._domain = domain
        self._others = tuple(name for name in federation.domains if name != domain)
        self._ring = ring
        self._looked_at = float("-inf")
        self._heard: dict[str, bytes] = {}
        self.keys = SealingKeys(ring.sealing)
        self._content = ContentKeys(federation.name, order, domain, self.keys)
        self.sealer = GatewaySealer(self._content)
        self.opener = Opener(federation.name, order, domain, self.keys, self._look_again)
        self.take(ring)

    def adopt(self, federation: Federation) -> None:
        """Other domains are members: their keys are looked for, those of who has left are forgotten."""
        order = federation.domain_order
        self._others = tuple(name for name in federation.domains if name != self._domain)
        self._content.adopt(order)
        self.opener.adopt(order)
        for domain, other_id, _ in list(self.keys.others()):
            if domain not in self._others:
                self.keys.forget_other(domain, other_id)
        self.take(self._ring)

    @property
    def without_key(self) -> tuple[str, ...]:
        """Domains for which something was to be sealed, though their keys are not known."""
        return tuple(sorted(self._content.without_key))

    def take(self, ring: KeyRing) -> None:
        """The keys in the files, as they are now. What is not believed any more is forgotten."""
        self._ring = ring
        self.keys.take_own(*ring.sealings)
        for domain, other_id, key in list(self.keys.others()):
            if ring.still_trusted(key.credential):
                self.keys.forget_other(domain, other_id)
        for domain in self._others:
            path = ring.keys.directory.domain(domain).gateway_certificate
            try:
                certificate = read_certificates(path, ring.keys.directory.path)[0]
            except InputError as error:  # it may be heard of in other ways
                log.warning("no sealing key of %s in the key directory: %s", domain, error.message)
                continue
            self._believe(domain, certificate.public_bytes(Encoding.DER), heard=False)

    def heard(self, domain: str, credential: bytes) -> None:
        """Another domain's gateway has signed something, with this certificate."""
        if self._heard.get(domain) != credential and domain in self._others:
            self._heard[domain] = credential
            self._believe(domain, credential, heard=True)

    def _believe(self, domain: str, credential: bytes, *, heard: bool) -> None:
        try:
            found = self._ring.trust.credential(credential)
        except UntrustedError as error:
            log.warning("the certificate of %s is not believed: %s", domain, error.reason)
            return
        if found.identity.domain == domain:
            self.keys.take_other(domain, OtherKey(found.sealing, found.begins_s, credential, heard))

    def verify(self, origin: str, statement: bytes, signature: bytes, credential: bytes) -> str:
        """Judge what a gateway has signed, as the ring does, and hear which certificate it has."""
        problem = self._ring.verify(origin, statement, signature, credential)
        if not problem:
            self.heard(origin, credential)
        return problem

    def approved(self, text: bytes, signature: bytes) -> str:
        """Judge what the authority has signed, as the ring does."""
        return self._ring.approved(text, signature)

    def _look_again(self) -> None:
        """Somebody uses a key that is not known: the files may have changed a moment ago."""
        now = monotonic()
        if now < self._looked_at + LOOK_AGAIN_S or not self._ring.changed():
            return
        self._looked_at = now
        try:
            self.take(self._ring.renewed())
        except InputError as error:
            log.warning("other keys that cannot be used: %s", error.message)
