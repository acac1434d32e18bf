"""What the recorder process is told when it starts."""

from __future__ import annotations

import msgspec

from mangrove.errors import InputError
from mangrove.host.daemon import WRITTEN_BY
from mangrove.model.address import Address
from mangrove.model.endpoints import DomainEndpoints
from mangrove.model.federation import Federation


class RecorderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which domains to look at, and the directory of the lake to write."""

    federation: Federation
    domains: tuple[DomainEndpoints, ...]
    lake: str
    keys: str = ""
    """The key directory; empty: nobody proves who it is."""
    health: Address | None = None
    """Where to tell of its health; None: nowhere."""


def check(settings: RecorderSettings) -> None:
    """Refuse settings that name no domain, or one that the federation does not have."""
    unknown = [each.domain for each in settings.domains if each.domain not in settings.federation.domains]
    if unknown or not settings.domains:
        problem = f"unknown domains: {', '.join(unknown)}" if unknown else "no domain to record"
        raise InputError(f"the recorder cannot start: {problem}", hint=WRITTEN_BY)
