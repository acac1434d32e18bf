"""What an agent process is told when it starts."""

from __future__ import annotations

import msgspec

from mangrove.errors import InputError
from mangrove.host.daemon import WRITTEN_BY
from mangrove.model.address import Address
from mangrove.model.agents.credentials import Credentials
from mangrove.model.endpoints import DomainEndpoints
from mangrove.model.federation import Federation


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Whose agent it is, and where its domain's brokers are."""

    federation: Federation
    domain: str
    agent: str
    """Its name among the agents of the domain."""
    endpoints: DomainEndpoints
    system_user: Credentials | None = None
    """Who it is in the system account of the data brokers; None: it reads their monitoring pages."""
    keys: str = ""
    """The folder with the keys of the domain; empty: nobody proves who it is."""
    versions_path: str = ""
    """Where versions of the federation document are kept on this machine; empty: nowhere."""
    reloaded_path: str = ""
    """Where what the site has reloaded from a changed file is found; empty: nowhere."""
    events_path: str = ""
    audit_path: str = ""
    power: float | None = None
    """Computing power of its machine, if not what that says of itself."""
    health: Address | None = None
    """Where to tell of its health; None: nowhere."""


def check(settings: AgentSettings) -> None:
    """Refuse settings that are about a domain that the federation does not have."""
    if settings.domain not in settings.federation.domains or settings.endpoints.domain != settings.domain:
        raise InputError(
            f"the agent cannot start: the federation has no domain {settings.domain!r} that is described",
            hint=WRITTEN_BY,
        )
