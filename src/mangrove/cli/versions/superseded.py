"""A federation file whose contracts no longer hold, since others were put in force while it ran."""

from __future__ import annotations

from collections.abc import Iterable

from mangrove.host.run_directory import RunDirectory
from mangrove.host.versions.version_store import VersionStore
from mangrove.model.federation import Federation


def superseded(federation: Federation, run: RunDirectory, domains: Iterable[str]) -> list[str]:
    """What to say to who starts these domains from the file; nothing, if its contracts hold."""
    kept = [VersionStore(run.versions_of(domain)).read().committed for domain in domains]
    documents = [each.read() for each in kept if each is not None]
    latest = max(documents, key=lambda each: each.version, default=None)
    if latest is None or latest.topics.contracts == federation.topics.contracts:
        return []
    return [
        f"the contracts of version {latest.version} hold, not those of the file: they were put in force "
        "while the federation ran; `mangrove apply FILE` puts those of the file in force"
    ]
