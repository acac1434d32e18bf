"""What a file may not change in a federation that runs."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec
import pytest

from mangrove.agent.joining import joined_network, make_ready, ports_in_use
from mangrove.cli.versions.apply import fixed_mistakes
from mangrove.cli.versions.membership import refuse_partition
from mangrove.config import parse_federation
from mangrove.errors import InputError
from mangrove.host.run_directory import RunDirectory
from mangrove.host.versions.exported import read_exported, write_exported
from mangrove.host.versions.version_store import VersionStore
from mangrove.model.endpoints import GATEWAY
from mangrove.model.federation import Prepare
from mangrove.model.versions.document import WrittenDocument, first_document
from mangrove.model.versions.network import network_of
from mangrove.model.versions.succession import successor

FILE = """
federation: f
domains: {a: {}, b: {}, c: {}}
links: [{between: [a, b], delay_ms: 5}, {between: [b, c]}]
security: none
topics: [{match: x}]
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("federation: f", "federation: other", "'other' is another federation"),
        ("a: {}", "a: {base_port: 9000}", "cannot change its base_port"),
        ("a: {}", "a: {address: 127.0.0.2}", "cannot change its address"),
        ("topics:", "max_message_bytes: 5000\ntopics:", "cannot change while"),
    ],
)
def test_what_needs_a_restart_is_told_with_its_place(old: str, new: str, said: str) -> None:
    running = parse_federation(FILE, "file").require()
    wanted = parse_federation(FILE.replace(old, new), "file").require()
    found = fixed_mistakes(running, wanted, network_of(running))
    assert said in "; ".join(map(str, found))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("match: x", "match: y, paths: 2"),
        ("delay_ms: 5", "delay_ms: 6"),
        (", {between: [b, c]}", ", {between: [a, c]}"),
        ("c: {}}", "c: {location: [1, 2]}}"),
    ],
)
def test_contracts_domains_and_links_may_change(old: str, new: str) -> None:
    running = parse_federation(FILE, "file").require()
    wanted = parse_federation(FILE.replace(old, new), "file").require()
    assert fixed_mistakes(running, wanted, network_of(running)) == []


def test_a_network_that_falls_apart_is_refused_unless_it_is_wanted() -> None:
    before = network_of(parse_federation(FILE, "file").require())
    after = msgspec.structs.replace(before, links=before.links[:1])
    with pytest.raises(InputError, match="no way would lead to c any more"):
        refuse_partition(after, before, force=False)
    refuse_partition(after, before, force=True)


def test_a_document_that_is_half_written_or_of_another_federation_lets_nobody_join(tmp_path: Path) -> None:
    file = parse_federation(FILE, "file").require()
    first = first_document(file)
    joined = msgspec.structs.replace(network_of(file), prepare=Prepare.PAIRS)
    written = WrittenDocument(text=successor(first, (), by="", at="", network=joined).text())
    path = tmp_path / "document"
    write_exported(path, written)
    assert read_exported(path) == written
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="is no federation document"):
        read_exported(path)
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(InputError, match="is of federation 'f', not 'other'"):
        make_ready(run, msgspec.structs.replace(file, name="other"), "a", written)
    moved = parse_federation(FILE.replace("a: {}", "a: {base_port: 9000}"), "file").require()
    with pytest.raises(InputError, match="the name a is taken"):
        make_ready(run, moved, "a", written)
    make_ready(run, file, "a", written)
    assert VersionStore(run.versions_of("a")).read().committed == written


def test_who_joins_needs_a_link_to_a_member_and_a_free_port() -> None:
    present = network_of(parse_federation(FILE, "file").require())
    wanted = parse_federation(
        FILE.replace("c: {}}", "c: {}, d: {}, e: {}}").replace(
            "[{between: [a, b]", "[{between: [c, e]}, {between: [d, e]}, {between: [a, b]"
        ),
        "file",
    ).require()
    with pytest.raises(InputError, match="links d with e, which no member is"):
        joined_network(present, wanted, "d")
    joined = joined_network(present, msgspec.structs.replace(wanted, links=wanted.links[:1]), "e")
    assert joined.names == ("a", "b", "c", "e")
    with pytest.raises(InputError, match="has no link of e"):
        joined_network(present, msgspec.structs.replace(wanted, links=()), "e")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        domain = msgspec.structs.replace(wanted.domains["e"], base_port=port - GATEWAY)
        with pytest.raises(InputError, match=r"domains\.e\.base_port: cannot use port"):
            ports_in_use(msgspec.structs.replace(wanted, domains={"e": domain}), "e")
