"""What clients keep of contracts themselves: told when they ask, and to all of them when it changes."""

from __future__ import annotations

import msgspec

from mangrove.model.agents.speakers import said_by
from mangrove.model.congestion.rate_limit import Limits
from mangrove.model.congestion.terms import TopicTerms


class TermsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What holds at present?"""


class TermsTold(msgspec.Struct, frozen=True, kw_only=True):
    """What holds, by one version of the federation document."""

    version: int
    names: str = ""
    """Tells apart by which names of the domain's own (`model.names.mapping.names_digest`)."""
    terms: tuple[TopicTerms, ...] = ()
    """Of contracts, in the order in which the first that matches counts."""
    client_limits: Limits = Limits()


def gateway_terms_subject(domain: str, user: str = "") -> str:
    """Where a gateway is asked, on its domain's management broker."""
    return said_by(user, domain, "gateway.terms")


def terms_told_subject(domain: str) -> str:
    """Where a gateway tells all clients of its domain, on its management broker."""
    return f"mangrove.{domain}.terms"
