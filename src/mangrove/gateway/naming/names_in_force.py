"""Which names of its own a domain has now: those of its start, or what its site has reloaded since."""

from __future__ import annotations

from pathlib import Path

from mangrove.host.versions.reloaded_file import ReloadedFile
from mangrove.model.gateway_settings import GatewaySettings
from mangrove.model.names.mapping import NameMapping

Mappings = tuple[NameMapping, ...]


class NamesInForce:
    """Reads what the site writes down when it is told to reload."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._file = settings.federation
        self._domain = settings.domain
        self._reloaded = ReloadedFile(Path(settings.reloaded_path)) if settings.reloaded_path else None
        self._stamp = 0

    def changed(self) -> bool:
        """Whether something was reloaded since it was read last."""
        return self._reloaded is not None and self._reloaded.stamp() != self._stamp

    def read(self) -> Mappings:
        """The names, unchecked."""
        federation = self._file
        if self._reloaded is not None:
            self._stamp = self._reloaded.stamp()
            federation = self._reloaded.read(federation)
        domain = federation.domains.get(self._domain)
        return () if domain is None else domain.names
