"""Keys are made, completed, handed out, replaced, and taken back."""

from __future__ import annotations

import stat
from datetime import UTC, datetime
from pathlib import Path

import bcrypt
import msgspec
import pytest
from tests.kit.keyed import FEDERATION, all_files, made, ring_of, secrets_in

from mangrove.errors import InputError
from mangrove.host.keys.checking import check_site
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.files.key_files import read_broker
from mangrove.host.keys.making import issue_client, make_keys, revoke, rotate
from mangrove.host.keys.ring import KeyRing
from mangrove.host.keys.rotation import Part, change_authority, finish, introduce_authority
from mangrove.model.federation import Domain, Edge, Elastic, External, Federation, Host


def test_everything_is_for_its_owner_alone(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    for path in [keys.path, *keys.path.rglob("*")]:
        assert stat.S_IMODE(path.lstat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert len(secrets_in(keys)) > 10


def test_secrets_are_in_the_secret_files_alone(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    secret = {
        path: path.read_bytes().split(b"\n")[-3 if b"BEGIN" in path.read_bytes() else 0]
        for path in secrets_in(keys)
    }
    others = [path for path in keys.path.rglob("*") if path.is_file() and path not in secret]
    assert all(len(word) > 20 for word in secret.values())
    for path in others:
        assert not [word for word in secret.values() if word in path.read_bytes()], path


def test_a_file_that_grows_gets_what_is_missing(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    before = all_files(keys)
    grown = Federation(
        name="ring",
        domains={
            **FEDERATION.domains,
            "b": Domain(name="b", base_port=7100, edges=(Edge(),)),
            "c": Domain(name="c", base_port=7200, address="10.0.0.3"),
        },
    )
    told: list[str] = []
    make_keys(grown, keys.path, progress=told.append)
    after = all_files(keys)
    assert told == ["b: b-edge1", "c: gateway, c-head, c-management, users"]
    changed = {str(path) for path in before if after[path] != before[path]}
    assert changed == {"keys.json"}
    assert read_broker(keys.domain("c"), "c-head", "ring")[2] == ("localhost", "10.0.0.3", "127.0.0.1")
    assert ring_of(keys, "a").generation == 2


def test_a_broker_that_moves_is_certified_anew(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    key = keys.domain("a").broker_key("a-head").read_bytes()
    moved = Federation(
        name="ring",
        domains={"a": Domain(name="a", base_port=7000, edges=(Edge(),), address="edge.example.org")},
    )
    make_keys(moved, keys.path)
    assert keys.domain("a").broker_key("a-head").read_bytes() == key
    assert "edge.example.org" in read_broker(keys.domain("a"), "a-head", "ring")[2]


def test_each_broker_of_ours_has_a_certificate(tmp_path: Path) -> None:
    hosts = tuple(
        Host(name=f"h{n}", address=f"10.0.0.{n}", brokers=(b,))
        for n, b in enumerate(("head", "edge1", "edge2"))
    )
    domains = {
        "a": Domain(
            name="a",
            base_port=7000,
            edges=(Edge(), Edge()),
            hosts=hosts,
            elastic=Elastic(enabled=True, max_edges=3),
        ),
        "x": Domain(
            name="x", base_port=7100, external=External(head="nats://h:4222", leaf="nats-leaf://h:7422")
        ),
    }
    keys = made(tmp_path / "keys", Federation(name="ring", domains=domains))
    found = {domain: sorted(p.stem for p in keys.domain(domain).brokers.glob("*.pem")) for domain in domains}
    assert found == {
        "a": ["a-edge1", "a-edge2", "a-edge3", "a-head", "a-management", "a-management2", "a-management3"],
        "x": ["x-management"],
    }
    assert "10.0.0.1" in read_broker(keys.domain("a"), "a-edge1", "ring")[2]
    for host in ("h0", "h1", "h2"):
        check_site(keys.path, Federation(name="ring", domains=domains), "a", host)


def test_a_broker_at_any_address_is_certified_for_this_machine(tmp_path: Path) -> None:
    keys = made(
        tmp_path / "keys",
        Federation(name="ring", domains={"a": Domain(name="a", base_port=1, address="0.0.0.0")}),
    )
    assert read_broker(keys.domain("a"), "a-head", "ring")[2] == ("localhost", "127.0.0.1")


def test_a_client_gets_all_that_it_needs(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    folder = issue_client(keys.path, "a", "sensor-1", role="sensor")
    files = {path.name for path in folder.path.iterdir()}
    assert files == {"user", "client.nk", "password", "ca.pem", "README"}
    assert folder.user.read_text().strip() == "sensor-1"
    user = next(user for user in ring_of(keys, "a").users() if user.name == "sensor-1")
    assert (user.role, user.client) == ("sensor", True)
    assert bcrypt.checkpw(folder.password.read_bytes().strip(), user.password_hash.encode())
    assert ring_of(keys, "a").login("sensor-1").nkey == user.nkey
    assert folder.trusted.read_bytes() == keys.trusted.read_bytes()
    assert "sensor-1" in folder.readme.read_text()


@pytest.mark.parametrize(
    ("domain", "name", "role", "message"),
    [
        ("a", "client", "client", "has a client 'client' already"),
        ("a", "../b", "client", "is no name"),
        ("a", "", "client", "is no name"),
        ("a", "x", "a b", "is no name"),
        ("a", "gateway", "client", "is the name of one of ours"),
        ("a", "x", "operator", "is the name of one of ours"),
        ("c", "x", "client", "no keys of a domain 'c'"),
    ],
)
def test_clients_that_cannot_be(tmp_path: Path, domain: str, name: str, role: str, message: str) -> None:
    keys = made(tmp_path / "keys")
    before = all_files(keys)
    with pytest.raises(InputError, match=message):
        issue_client(keys.path, domain, name, role=role)
    assert all_files(keys) == before


def test_the_keys_of_a_client_go_with_it(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    folder = issue_client(keys.path, "a", "sensor")
    revoke(keys.path, "a", client="sensor")
    assert not folder.path.exists()
    with pytest.raises(InputError, match="has no client 'sensor'"):
        revoke(keys.path, "a", client="sensor")
    with pytest.raises(InputError, match="has no client 'agent'"):
        revoke(keys.path, "a", client="agent")
    issue_client(keys.path, "a", "sensor")
    assert "sensor" in {user.name for user in ring_of(keys, "a").users()}


@pytest.mark.parametrize("part", list(Part))
def test_each_part_is_replaced_by_itself(tmp_path: Path, part: Part) -> None:
    keys = made(tmp_path / "keys")
    before, ring = all_files(keys), ring_of(keys, "a")
    rotate(keys.path, domains=["a"], parts=[part])
    after = all_files(keys)
    changed = {str(path) for path in after if after[path] != before.get(path)} - {"keys.json"}
    brokers = {
        f"domains/a/brokers/{name}.{end}"
        for name in ("a-head", "a-edge1", "a-management")
        for end in ("key", "pem")
    }
    expected = {
        Part.GATEWAY: {"domains/a/gateway.key", "domains/a/gateway.pem"},
        Part.SEALING: {"domains/a/gateway.pem", "domains/a/sealing.key", "domains/a/sealing.previous.key"},
        Part.BROKERS: brokers,
        Part.USERS: {
            f"domains/a/users/{name}.nk"
            for name in ("gateway", "probe", "edge", "agent", "host", "recorder", "operator")
        }
        | {"domains/a/users.json"},
        Part.CLIENTS: {
            "domains/a/users.json",
            "domains/a/clients/client/client.nk",
            "domains/a/clients/client/password",
        },
    }[part]
    assert changed == expected
    check_site(keys.path, FEDERATION, "a")
    assert ring.changed()


def test_old_keys_are_believed_until_that_is_ended(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    old_a, old_b = ring_of(keys, "a"), ring_of(keys, "b")
    rotate(keys.path)
    new_a, new_b = ring_of(keys, "a"), ring_of(keys, "b")
    for one, other in ((old_a, new_b), (new_a, old_b), (new_a, new_b)):
        assert one.still_trusted(other.credential) == other.still_trusted(one.credential) == ""
    assert len(new_a.sealings) == 2
    assert new_a.sealings[1].public_key() == old_a.sealing.public_key()
    for old, new in zip(old_a.users(), new_a.users(), strict=True):
        assert new.nkeys == (new.nkey, old.nkey)
        assert new.nkey != old.nkey
    assert finish(keys.path)
    last = ring_of(keys, "a")
    assert last.still_trusted(old_b.credential) == "its certificate was revoked"
    assert last.still_trusted(new_b.credential) == ""
    assert [user.nkeys for user in last.users()] == [(user.nkey,) for user in new_a.users()]
    assert len(last.sealings) == 1
    assert not finish(keys.path)
    check_site(keys.path, FEDERATION, "a")


def test_what_is_sealed_for_any_key_before_can_be_opened_until_that_is_ended(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    publics = [ring_of(keys, "a").sealing.public_key()]
    for _ in range(3):
        rotate(keys.path, domains=["a"], parts=[Part.SEALING])
        publics.insert(0, ring_of(keys, "a").sealing.public_key())
    assert [key.public_key() for key in ring_of(keys, "a").sealings] == publics
    keys.domain("a").previous_sealing_key.write_bytes(keys.domain("a").gateway_key.read_bytes())
    with pytest.raises(InputError, match="holds a key of another kind"):
        ring_of(keys, "a")


def test_one_client_alone_is_replaced(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    issue_client(keys.path, "a", "sensor")
    before = {user.name: user for user in ring_of(keys, "a").users()}
    rotate(keys.path, domains=["a"], parts=[Part.CLIENTS], client="sensor")
    after = {user.name: user for user in ring_of(keys, "a").users()}
    assert {name for name in after if after[name] != before[name]} == {"sensor"}
    with pytest.raises(InputError, match="has no client 'nobody'"):
        rotate(keys.path, domains=["a"], parts=[Part.CLIENTS], client="nobody")


def test_an_authority_is_replaced_without_a_moment_of_distrust(tmp_path: Path) -> None:
    """At no step does anybody meet a certificate that it does not believe, be it one step behind or not."""
    keys = made(tmp_path / "keys")
    issue_client(keys.path, "a", "sensor")
    revoke(keys.path, "a", client="sensor")
    steps = [{name: ring_of(keys, name) for name in "ab"}]
    first = keys.authority_key.read_bytes()
    with pytest.raises(InputError, match="there is no next authority"):
        change_authority(keys.path)
    for step in (introduce_authority, change_authority, finish):
        step(keys.path)
        steps.append({name: ring_of(keys, name) for name in "ab"})
        for ahead, behind in (("a", "b"), ("b", "a")):
            one, other = steps[-1][ahead], steps[-2][behind]
            assert one.still_trusted(other.credential) == "" or step is finish
            assert other.still_trusted(one.credential) == ""
        check_site(keys.path, FEDERATION, "a")
        if step is introduce_authority:
            with pytest.raises(InputError, match="a next authority already"):
                introduce_authority(keys.path)
    assert keys.authority_key.read_bytes() != first
    assert [len(each["a"].trust.authorities) for each in steps] == [1, 2, 2, 1]
    assert steps[-1]["a"].still_trusted(steps[0]["b"].credential) != ""
    assert steps[-1]["a"].trust.revocations.nkeys
    assert keys.domain("a").client("client").trusted.read_bytes() == keys.trusted.read_bytes()
    assert not keys.next_authority_key.exists()


def test_without_the_authority_nothing_is_issued(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    keys.authority_key.unlink()
    keys.authority_certificate.unlink()
    before = all_files(keys)
    for act in (
        lambda: issue_client(keys.path, "a", "x"),
        lambda: revoke(keys.path, "a"),
        lambda: rotate(keys.path),
        lambda: introduce_authority(keys.path),
        lambda: make_keys(Federation(name="ring", domains={"c": Domain(name="c", base_port=1)}), keys.path),
    ):
        with pytest.raises(InputError, match="has no authority"):
            act()
    assert all_files(keys) == before
    make_keys(FEDERATION, keys.path)  # complete: nothing is to be issued
    check_site(keys.path, FEDERATION, "a")


def test_revocations_are_forgotten_when_their_certificates_end(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    revoke(keys.path, "b")
    assert len(ring_of(keys, "a").trust.revocations.serials) == 1
    issue_client(keys.path, "a", "sensor")
    revoke(keys.path, "a", client="sensor")
    assert len(ring_of(keys, "a").trust.revocations.nkeys) == 1
    rotate(keys.path, domains=["b"], parts=[Part.GATEWAY])
    revoke(keys.path, "b", now=datetime(2100, 1, 1, tzinfo=UTC))
    revocations = ring_of(keys, "a").trust.revocations
    assert revocations.number == 3
    assert len(revocations.serials) == 2
    assert not revocations.nkeys


@pytest.mark.parametrize("step", ["sealing", "authority"])
def test_a_key_that_was_revoked_is_not_certified_anew(tmp_path: Path, step: str) -> None:
    keys = made(tmp_path / "keys")
    stolen = ring_of(keys, "b")
    revoke(keys.path, "b")
    if step == "sealing":
        rotate(keys.path, domains=["b"], parts=[Part.SEALING])
    else:
        introduce_authority(keys.path)
        change_authority(keys.path)
    new = ring_of(keys, "b")
    assert new.verify("b", b"said", stolen.sign(b"said"), new.credential) == "its signature is wrong"
    assert new.sealing.public_key() != stolen.sealing.public_key()


def test_a_revoked_domain_gets_new_keys_and_is_believed_again(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    revoke(keys.path, "b")
    with pytest.raises(InputError, match="would be believed by nobody: its certificate was revoked"):
        KeyRing.read(keys.domain("b").path)
    rotate(keys.path, domains=["b"], parts=[Part.GATEWAY, Part.SEALING])
    assert ring_of(keys, "a").still_trusted(ring_of(keys, "b").credential) == ""


def test_what_is_public_holds_no_secret_types(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    users = msgspec.json.decode(keys.domain("a").users.read_bytes())
    for user in users["users"]:
        hashes = {"password_hash", "password_sha256"}
        assert set(user) <= {"name", "role", "client", "nkey", "previous_nkey", "home"} | hashes
        assert user["nkey"].startswith("U")
    assert isinstance(KeyDirectory(keys.path), KeyDirectory)
