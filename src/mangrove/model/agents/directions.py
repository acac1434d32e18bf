"""What a client that knows one broker of a domain learns of all of it, from one question at that broker."""

from __future__ import annotations

import msgspec

DIRECTIONS_SUBJECT = "_MGR._WHERE"
"""Asked on any data broker; the domain's own gateway answers. It never leaves the domain."""


class BrokerDirection(msgspec.Struct, frozen=True, kw_only=True):
    """Where clients reach one broker."""

    name: str
    url: str


class Directions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a client needs to know of its domain."""

    federation: str
    domain: str
    head: BrokerDirection
    edges: tuple[BrokerDirection, ...] = ()
    management_url: str = ""
    placement: str = "lan"
