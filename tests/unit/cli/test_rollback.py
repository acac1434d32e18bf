"""What `mangrove rollback` does about domains and links, by what a site knows of an earlier version."""

from __future__ import annotations

from pathlib import Path

import pytest

from mangrove.agent.versioning import Standing
from mangrove.cli.versions.rollback import earlier, network_back
from mangrove.cli.versions.superseded import network_in_force
from mangrove.config import parse_federation
from mangrove.errors import InputError
from mangrove.host.run_directory import RunDirectory
from mangrove.host.versions.version_store import VersionStore
from mangrove.model.endpoints import Runtime
from mangrove.model.federation import Federation
from mangrove.model.topics import Contract
from mangrove.model.versions.document import FederationDocument, WrittenDocument, first_document
from mangrove.model.versions.kept import KeptVersions
from mangrove.model.versions.network import network_of
from mangrove.model.versions.succession import successor

TEXT = """
federation: f
domains: {a: {}, b: {}, c: {}}
links:
  - {between: [a, b], delay_ms: 2}
  - {between: [b, c], delay_ms: 2}
  - {between: [a, c], delay_ms: 3}
security: none
"""
TO_C = "  - {between: [a, c], delay_ms: 3}\n"
RING, LINE = TEXT, TEXT.replace(TO_C, "")
IN_PARTS = LINE.replace("  - {between: [b, c], delay_ms: 2}\n", "")


def file(text: str) -> Federation:
    return parse_federation(text, "f").require()


FIRST = first_document(file(RING))


def following(before: FederationDocument, *contracts: str, links: str = "") -> FederationDocument:
    return successor(
        before,
        [Contract(match=each) for each in contracts],
        by="",
        at="",
        network=network_of(file(links)) if links else None,
    )


SECOND = following(FIRST, "x")
THIRD = following(SECOND, "x", links=LINE)


def restarted(tmp_path: Path, document: FederationDocument) -> Federation:
    """What a site runs by that was started with the first file when a version was in force."""
    run = RunDirectory(tmp_path)
    kept = KeptVersions(committed=WrittenDocument(text=document.text()))
    VersionStore(run.versions_of("a")).write(kept)
    return network_in_force(file(RING), run, "a")


def at(document: FederationDocument, federation: Federation | None = None) -> tuple[Standing, Runtime]:
    standing = Standing(domain="a", document=document, versions={}, away=())
    return standing, Runtime(federation=federation or file(RING), domains={}, pid=0)


def test_links_go_back_to_those_of_the_first_file_where_a_site_has_it(tmp_path: Path) -> None:
    assert network_back(SECOND, *at(THIRD), force=False) == (network_of(file(RING)), ())
    before = restarted(tmp_path, SECOND)
    assert network_back(SECOND, *at(THIRD, before), force=False) == (network_of(file(RING)), ())
    assert earlier(1, *at(THIRD, before)) == FIRST


def test_a_site_that_was_started_with_later_links_does_not_take_them_for_earlier_ones(tmp_path: Path) -> None:
    since = restarted(tmp_path, THIRD)
    fourth = following(THIRD, "x", links=LINE.replace("[b, c], delay_ms: 2", "[b, c], delay_ms: 50"))
    for now in (THIRD, fourth):
        with pytest.raises(InputError, match="the links of version 2 are those of the first") as refused:
            network_back(SECOND, *at(now, since), force=True)
        assert "mangrove apply FILE" in refused.value.hint
        with pytest.raises(InputError, match="with other contracts or links than those of the first"):
            earlier(1, *at(now, since))
    assert network_back(THIRD, *at(fourth, since), force=False) == (THIRD.network, ())


def test_the_first_version_is_refused_too_if_only_what_its_name_does_not_tell_has_changed(
    tmp_path: Path,
) -> None:
    moved = RING.replace("delay_ms: 3}", 'delay_ms: 3, endpoints: {c: "10.0.0.9:7777"}}')
    now, since = at(third := following(SECOND, "x", links=moved), restarted(tmp_path, third))
    with pytest.raises(InputError, match="the links of version 1 are those of the first"):
        network_back(earlier(1, now, since), now, since, force=False)


def test_who_has_left_and_joined_again_keeps_its_links() -> None:
    without_c = LINE.replace(", c: {}", "").replace("  - {between: [b, c], delay_ms: 2}\n", "")
    gone = following(SECOND, "x", links=without_c)
    returned = following(gone, "x", links=LINE.replace("c: {}", "c: {address: 10.0.0.50, base_port: 7000}"))
    assert returned.domains == ("a", "b", "c~2", "c")
    assert network_back(SECOND, *at(returned), force=False) == (None, ("c has joined since, and stays",))


def test_what_changes_no_link_is_not_refused_in_a_network_that_is_in_parts() -> None:
    apart = following(SECOND, "x", links=IN_PARTS)
    other_contracts = following(apart, "y")
    assert network_back(apart, *at(other_contracts), force=False) == (None, ())
    whole = following(apart, "x", links=RING)
    with pytest.raises(InputError, match="no way would lead to c any more"):
        network_back(apart, *at(whole), force=False)
    assert network_back(apart, *at(whole), force=True) == (apart.network, ())
