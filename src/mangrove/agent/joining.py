"""A site joins a running federation: members are asked, and what it must know is laid ready."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mangrove.agent.management import ManagementConnection
from mangrove.errors import InputError, MangroveError
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.ports import PortReservation
from mangrove.host.run_directory import RunDirectory
from mangrove.host.versions.version_store import VersionStore
from mangrove.model.endpoints import Runtime, fixed_endpoints
from mangrove.model.federation import Federation
from mangrove.model.shared_names import gateway_process
from mangrove.model.topics import TopicRules
from mangrove.model.versions.document import WrittenDocument
from mangrove.model.versions.kept import KeptVersions
from mangrove.model.versions.network import Network, network_of


def members_at(wanted: Federation, domain: str, keys: str) -> Runtime:
    """Where a federation file says that the other domains are; `keys` is a directory with keys for them."""
    endpoints = {name: fixed_endpoints(each) for name, each in wanted.domains.items() if name != domain}
    if keys:
        folders = {name: KeyDirectory(Path(keys)).domain(name).path for name in endpoints}
        endpoints = {
            name: msgspec.structs.replace(each, keys=str(folders[name]) if folders[name].is_dir() else "")
            for name, each in endpoints.items()
        }
    others = {name: each for name, each in wanted.domains.items() if name != domain}
    links = tuple(link for link in wanted.links if domain not in link.between)
    federation = msgspec.structs.replace(wanted, domains=others, links=links)
    return Runtime(federation=federation, domains=endpoints, pid=0, keys=keys)


def joined_network(present: Network, wanted: Federation, domain: str) -> Network:
    """The domains and links in force, with a new domain and its links as the file has them."""
    file = network_of(wanted)
    site = next(each for each in file.sites if each.name == domain)
    links = tuple(each for each in file.links if domain in each.between)
    strangers = sorted({end for each in links for end in each.between} - {domain, *present.names})
    if strangers:
        raise InputError(
            f"the file links {domain} with {', '.join(strangers)}, which no member is",
            hint="take the link out of the file, or let that domain join first",
        )
    if not links:
        raise InputError(
            f"the file has no link of {domain}, so no way would lead there",
            hint=f"add one under `links`, with {domain} at one end",
        )
    return msgspec.structs.replace(
        present,
        sites=tuple(sorted((*present.sites, site), key=lambda each: each.name)),
        links=tuple(sorted((*present.links, *links), key=lambda each: each.link().pair)),
    )


def ports_in_use(wanted: Federation, domain: str) -> None:
    """InputError if the gateway of a domain could not listen on this machine."""
    ports = PortReservation()
    try:
        for gateway in fixed_endpoints(wanted.domains[domain]).gateways[:1]:
            ports.take(*gateway)
    except MangroveError as error:
        raise InputError(
            f"domains.{domain}.base_port: {error.message}",
            hint="choose another base_port, or another address of this machine",
        ) from None
    finally:
        ports.release()


def make_ready(run: RunDirectory, wanted: Federation, domain: str, written: WrittenDocument) -> None:
    """Lay the document in force where the gateway of a new site looks for it."""
    document = written.read()
    if document.federation != wanted.name:
        raise InputError(
            f"the document is of federation {document.federation!r}, not {wanted.name!r}",
            hint="give the document of this federation: mangrove history --write FILE, at a member",
        )
    if document.network is None or domain not in document.members:
        raise InputError(
            f"{domain} is no member by version {document.version}",
            hint="first: mangrove apply FILE, where the federation can be changed",
        )
    site = next(each for each in document.network.sites if each.name == domain)
    own = next(each for each in network_of(wanted).sites if each.name == domain)
    if (site.address, site.base_port, site.hosts) != (own.address, own.base_port, own.hosts):
        raise InputError(
            f"the name {domain} is taken: that domain is at {site.address}, from port {site.base_port}",
            hint="choose another name, or give the file the address that was agreed on",
        )
    for name in (domain, gateway_process(domain, 2))[: own.gateways]:
        store = VersionStore(run.versions_of(name))
        kept = store.read().committed
        before = None if kept is None else kept.read()
        if before is not None and before.line != document.line:
            raise InputError(
                f"{run.versions_of(name)} holds versions of another federation",
                hint="remove that folder, or choose another --run-dir",
            )
        if before is None or before.version < document.version:
            store.write(KeptVersions(committed=written))


async def unsettled(runtime: Runtime, domain: str, topics: TopicRules) -> str:
    """Why a domain should not leave yet; empty if it may."""
    async with ManagementConnection(runtime.domains[domain]) as management:
        status = await management.gateway_status()
    if status is None:
        return "its gateway does not answer"
    mirrored = [each.match for each in topics.contracts if each.mirror]
    if mirrored and any(status.mirroring.edges.values()):
        return f"it serves the mirrors of {', '.join(mirrored)}"
    durable = [each.match for each in topics.contracts if each.durable]
    if durable and not status.head_connected:
        return f"messages of {', '.join(durable)}, which are durable, wait until its head broker is back"
    if status.parked_bytes:
        return f"{status.parked_bytes:,} bytes wait there for a way to other domains"
    return ""
