"""A federation file whose contracts no longer hold, since others were put in force while it ran."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mangrove.errors import InputError
from mangrove.host.run_directory import RunDirectory
from mangrove.host.versions.version_store import VersionStore
from mangrove.model.federation import Federation
from mangrove.model.versions.network import network_difference, network_of, with_network
from mangrove.model.versions.settings import wanted_settings


def network_in_force(federation: Federation, run: RunDirectory, domain: str | None) -> Federation:
    """The domains and links by which a site, or all of them, starts: those in force.

    All sites on one machine are those of the file, so that must have the same; one site has its own settings
    of the file, and the rest from the document that it keeps.
    """
    own = (domain,) if domain else tuple(federation.domains)
    kept = [VersionStore(run.versions_of(name)).read().committed for name in own]
    documents = [each.read() for each in kept if each is not None]
    latest = max(documents, key=lambda each: each.version, default=None)
    if latest is None or latest.network is None:
        return federation
    gone = [name for name in own if name not in latest.members]
    if domain and gone:
        raise InputError(
            f"{domain} has left {latest.federation}, or was expelled, in version {latest.version}",
            hint=f"mangrove join FILE --domain {domain} makes it a member again",
        )
    if domain is None and latest.network != network_of(federation):
        what = "; ".join(network_difference(network_of(federation), latest.network).sentences())
        raise InputError(
            f"version {latest.version}, which is in force, has other domains or links than the file: {what}",
            hint="change the file accordingly, or start the sites one by one with --domain",
        )
    return msgspec.structs.replace(with_network(federation, latest.network), numbers=latest.domains)


def superseded(federation: Federation, run: RunDirectory, domains: Iterable[str]) -> list[str]:
    """What to say to who starts these domains from the file; nothing, if its contracts hold."""
    kept = [VersionStore(run.versions_of(domain)).read().committed for domain in domains]
    documents = [each.read() for each in kept if each is not None]
    latest = max(documents, key=lambda each: each.version, default=None)
    if latest is None:
        return []
    other = ["contracts"] if latest.topics.contracts != federation.topics.contracts else []
    other += wanted_settings(latest, federation, federation)
    if not other:
        return []
    return [
        f"the {', '.join(other)} of version {latest.version} hold, not those of the file: they were put in "
        "force while the federation ran; `mangrove apply FILE` puts those of the file in force"
    ]
