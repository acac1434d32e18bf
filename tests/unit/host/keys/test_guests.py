"""Clients of one domain at the brokers of another: by their NKEY alone, and nothing there helps a thief."""

from __future__ import annotations

import tarfile
from pathlib import Path

import msgspec
import pytest
from tests.kit.keyed import FEDERATION, made, ring_of

from mangrove.agent.hosting.broker_keys import BrokerKeys
from mangrove.broker.nats.configuration.data_permissions import data_users
from mangrove.broker.nats.configuration.management_permissions import management_users
from mangrove.config import parse_federation
from mangrove.errors import InputError
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.export import export_site
from mangrove.host.keys.inspection import differences, inspect_keys
from mangrove.host.keys.making import issue_client, make_keys, revoke
from mangrove.host.keys.ring import read_guests, read_users
from mangrove.host.keys.rotation import Part, finish, rotate
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.security.users import DomainUsers

FILE = """
federation: ring
domains:
  a: {base_port: 7000, edges: 1, accept_load_from: [b]}
  b: {base_port: 7100}
links: [{between: [a, b]}]
access:
  - {who: {domain: b, client: buoy}, may_not: [publish], subjects: ["valve.>"]}
"""
OPEN = parse_federation(FILE, "ring").require()


@pytest.fixture
def keys(tmp_path: Path) -> KeyDirectory:
    made_keys = made(tmp_path / "keys", OPEN)
    issue_client(made_keys.path, "b", "buoy")
    return made_keys


def names(keys: KeyDirectory) -> list[str]:
    return [guest.name for guest in ring_of(keys, "a").guests()]


def test_who_takes_load_from_a_domain_lets_its_clients_in(keys: KeyDirectory) -> None:
    assert names(keys) == ["client@b", "buoy@b"]
    assert ring_of(keys, "b").guests() == ()


def test_nothing_is_told_of_them_but_public_halves(keys: KeyDirectory, tmp_path: Path) -> None:
    """The other site gets neither a seed nor a hash of a password, nor who else may connect at home."""
    home = read_users(keys.domain("b"))
    hashes = [user.password_hash for user in home.users if user.password_hash]
    content = keys.domain("a").guests.read_text()
    assert hashes
    assert not [each for each in hashes if each in content]
    assert not [user.name for user in home.users if not user.client and user.nkey in content]
    export_site(keys.path, OPEN, "a", None, tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar") as archive:
        inside = archive.getnames()
    assert "domains/a/guests.json" in inside
    assert not [name for name in inside if name.startswith("domains/b")]


def test_they_follow_what_becomes_of_their_keys(keys: KeyDirectory) -> None:
    before = {guest.name: guest.nkey for guest in ring_of(keys, "a").guests()}
    rotate(keys.path, domains=["b"], parts=[Part.CLIENTS], client="buoy")
    buoy = ring_of(keys, "a").guests()[1]
    assert buoy.nkeys == (read_users(keys.domain("b")).users[-1].nkey, before["buoy@b"])
    finish(keys.path)
    assert len(ring_of(keys, "a").guests()[1].nkeys) == 1
    revoke(keys.path, "b", client="buoy")
    assert names(keys) == ["client@b"]


def test_a_revocation_reaches_a_site_before_its_next_export(keys: KeyDirectory) -> None:
    """The signed list alone is enough, and is the same for all sites."""
    old = keys.domain("a").guests.read_bytes()
    revoke(keys.path, "b", client="buoy")
    keys.domain("a").guests.write_bytes(old)
    assert names(keys) == ["client@b"]


def test_who_takes_no_load_any_more_lets_nobody_in(keys: KeyDirectory) -> None:
    closed = make_keys(FEDERATION, keys.path)
    assert names(closed) == []


@pytest.mark.parametrize(
    "change",
    [
        {"name": "gateway"},
        {"name": "client@c"},
        {"password_hash": "$2b$05$x"},
        {"client": False},
        {"home": ""},
    ],
)
def test_a_list_that_makes_more_of_them_is_refused(keys: KeyDirectory, change: dict[str, object]) -> None:
    folder = keys.domain("a")
    guest = read_guests(folder).users[0]
    forged = DomainUsers(users=(msgspec.structs.replace(guest, **change),))
    folder.guests.write_bytes(msgspec.json.encode(forged))
    with pytest.raises(InputError, match="no guest"):
        ring_of(keys, "a")


def test_the_rules_for_them_are_those_of_their_own_domain(keys: KeyDirectory) -> None:
    """And at the management broker they ask one question, under their own name."""
    endpoints = fixed_endpoints(OPEN.domains["a"])
    security = BrokerKeys(str(keys.domain("a").path), OPEN, "a").of(endpoints.head, attaches=False)
    assert "valve.>" in security.rights["buoy@b"].publish.deny
    assert security.rights["client@b"].publish.deny == ()
    nkey = next(user.nkey for user in security.users if user.name == "buoy@b")
    (at_data,) = [line for line in data_users(security) if nkey in line]
    assert "valve.>" in at_data
    assert '"STANDARD"' in at_data
    assert "MQTT" not in at_data.partition("permissions")[0]
    (at_management,) = [line for line in management_users(security) if nkey in line]
    assert "mangrove.a.from.buoy@b.gateway.interest" in at_management
    assert "register" not in at_management
    assert "_INBOX.buoy@b.>" in at_management


def test_a_file_that_takes_load_since_is_noticed(tmp_path: Path) -> None:
    closed = made(tmp_path / "keys")
    before = list(differences(inspect_keys(closed.path), OPEN))
    assert before == ["a does not know the clients of b yet: mangrove keys init"]
    make_keys(OPEN, closed.path)
    assert list(differences(inspect_keys(closed.path), OPEN)) == []
