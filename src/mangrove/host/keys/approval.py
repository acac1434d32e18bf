"""The authority's word on a federation document: signed where the authority is, judged by every gateway."""

from __future__ import annotations

from collections.abc import Iterable

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from mangrove.host.keys.certificates import Authority
from mangrove.host.keys.revocation import signed_by

PREFIX = b"mangrove federation document 1\0"
"""Before what is signed: nothing that was signed for another purpose can pass for a document."""


def approve(text: bytes, authority: Authority) -> bytes:
    """The authority's signature of a document's text."""
    return authority.key.sign(PREFIX + text, ec.ECDSA(hashes.SHA256()))


def approval_problem(text: bytes, signature: bytes, authorities: Iterable[x509.Certificate]) -> str:
    """Empty if one of these authorities has signed the text; else what is wrong."""
    if not signature:
        return "it is not signed"
    if any(signed_by(each, PREFIX + text, signature) for each in authorities):
        return ""
    return "no authority of this federation has signed it"
