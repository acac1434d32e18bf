"""What the processes of a domain do with its keys, and whom they believe."""

from __future__ import annotations

import random
import ssl
import time
from collections import Counter
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from tests.kit.keyed import made, ring_of

from mangrove.errors import InputError, UntrustedError
from mangrove.host.keys.certificates import today
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.files.key_files import read_authority
from mangrove.host.keys.making import issue_client, revoke, rotate
from mangrove.host.keys.ring import KeyRing
from mangrove.host.keys.rotation import Part
from mangrove.model.federation import Domain, Federation
from mangrove.model.security.identity import Identity, Role
from mangrove.model.security.users import FIRST_CLIENT, USER_ROLES

DAY_S = 86_400.0


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyDirectory:
    """Not changed by any test."""
    return made(tmp_path_factory.mktemp("ring") / "keys")


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends of a connection in memory, after the handshake."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    there = server.wrap_bio(to_server, to_client, server_side=True)
    here = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    done = 0
    for _ in range(6):
        for end in (here, there):
            try:
                end.do_handshake()
                done += 1
            except ssl.SSLWantReadError:
                continue
    assert done >= 2
    return there, here


def test_gateways_of_one_federation_know_each_other(keys: KeyDirectory) -> None:
    a, b = ring_of(keys, "a"), ring_of(keys, "b")
    there, here = handshake(a.server_context(), b.client_context())
    assert a.peer(there) == b.identity == Identity("ring", Role.GATEWAY, "b")
    assert b.peer(here) == a.identity
    assert there.version() == "TLSv1.3"


def test_of_another_federation_nobody_gets_through_the_handshake(keys: KeyDirectory, tmp_path: Path) -> None:
    same_name = Federation(name="ring", domains={"b": Domain(name="b", base_port=7100)})
    foreign = ring_of(made(tmp_path / "keys", same_name), "b")
    mine = ring_of(keys, "a")
    with pytest.raises(ssl.SSLError):
        handshake(mine.server_context(), foreign.client_context())
    assert mine.still_trusted(foreign.credential) == "its certificate is from another authority"


def test_nobody_gets_through_the_handshake_without_a_certificate_or_with_old_tls(keys: KeyDirectory) -> None:
    server = ring_of(keys, "a").server_context()
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    nobody.check_hostname = False
    nobody.verify_mode = ssl.CERT_NONE
    with pytest.raises(ssl.SSLError):
        handshake(server, nobody)
    old = ring_of(keys, "b").client_context()
    old.minimum_version = ssl.TLSVersion.TLSv1_2
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        handshake(server, old)


def test_a_broker_is_no_gateway(keys: KeyDirectory) -> None:
    broker = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    broker.check_hostname = False
    broker.load_verify_locations(keys.trusted)
    domain = keys.domain("b")
    broker.load_cert_chain(domain.broker_certificate("b-head"), domain.broker_key("b-head"))
    a = ring_of(keys, "a")
    there, _ = handshake(a.server_context(), broker)
    with pytest.raises(UntrustedError, match="no gateway, but the broker b-head of b in ring"):
        a.peer(there)


def test_brokers_are_checked_by_their_address(keys: KeyDirectory) -> None:
    domain = keys.domain("a")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(domain.broker_certificate("a-head"), domain.broker_key("a-head"))
    context = ring_of(keys, "a").authority_context()
    handshake(server, context)
    gateway = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    gateway.load_cert_chain(domain.gateway_certificate, domain.gateway_key)
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for"):
        handshake(gateway, context)


def test_what_a_gateway_signs_is_its_own(keys: KeyDirectory) -> None:
    a, b = ring_of(keys, "a"), ring_of(keys, "b")
    signature = a.sign(b"said")
    assert b.verify("a", b"said", signature, a.credential) == ""
    assert b.verify("a", b"said", signature, a.credential) == ""
    assert b.verify("b", b"said", signature, a.credential) == "it is signed by a"
    assert b.verify("a", b"sad", signature, a.credential) == "its signature is wrong"
    assert b.verify("a", b"said", signature[:-1], a.credential) == "its signature is wrong"
    assert b.verify("a", b"said", signature, a.credential[:-1]) == "it has no certificate"
    assert b.verify("a", b"said", signature, b"") == "it has no certificate"
    assert "too large" in b.verify("a", b"said", signature, bytes(100_000))


@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_no_damaged_certificate_is_believed_or_breaks_anything(keys: KeyDirectory) -> None:
    """3,000 that differ from a good one in a few places, always the same ones."""
    ring, good = ring_of(keys, "a"), ring_of(keys, "b").credential
    rng = random.Random(1)
    reasons = Counter[str]()
    for _ in range(3000):
        damaged = bytearray(good)
        for _ in range(rng.choice((1, 1, 2, 4))):
            place = rng.randrange(len(damaged))
            damaged[place : place + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        if damaged != good:
            reasons[ring.still_trusted(bytes(damaged))] += 1
    assert set(reasons) == {"it has no certificate", "its certificate is from another authority"}


def test_an_authority_of_two_federations_does_not_join_them(keys: KeyDirectory) -> None:
    identity = Identity("other", Role.GATEWAY, "b")
    certificate = read_authority(keys).issue_gateway(
        identity, Ed25519PrivateKey.generate(), X25519PrivateKey.generate(), today()
    )
    credential = certificate.public_bytes(serialization.Encoding.DER)
    assert ring_of(keys, "a").still_trusted(credential) == "it is of another federation (other)"


def test_the_credential_is_small_and_carries_the_sealing_key(keys: KeyDirectory) -> None:
    a, b = ring_of(keys, "a"), ring_of(keys, "b")
    assert len(a.credential) < 600
    assert b.sealing_key_of(a.credential) == a.sealing.public_key().public_bytes_raw()
    shared = a.sealing.exchange(b.sealing.public_key())
    assert shared == b.sealing.exchange(X25519PublicKey.from_public_bytes(b.sealing_key_of(a.credential)))


def test_what_has_expired_is_not_believed(keys: KeyDirectory) -> None:
    credential = ring_of(keys, "b").credential
    times = {
        "soon": time.time() + 729 * DAY_S,
        "late": time.time() + 731 * DAY_S,
        "early": time.time() - DAY_S,
    }
    ring = ring_of(keys, "a")
    assert ring.still_trusted(credential) == ""
    ring.trust.clock = lambda: times["soon"]
    assert ring.still_trusted(credential) == ""
    ring.trust.clock = lambda: times["late"]
    assert ring.still_trusted(credential) == "its certificate has expired"
    ring.trust.clock = lambda: times["early"]
    assert ring.still_trusted(credential) == "its certificate is not valid yet"


def test_who_is_revoked_is_no_longer_believed(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    a, b = ring_of(keys, "a"), ring_of(keys, "b")
    assert not a.changed()
    revoke(keys.path, "b")
    assert a.changed()
    assert a.still_trusted(b.credential) == ""  # a ring is what was read
    later = a.renewed()
    assert not later.changed()
    assert later.still_trusted(b.credential) == "its certificate was revoked"
    assert later.verify("b", b"said", b.sign(b"said"), b.credential) == "its certificate was revoked"


def test_every_user_has_a_login_that_its_broker_can_check(keys: KeyDirectory) -> None:
    ring = ring_of(keys, "a")
    users = {user.name: user for user in ring.users()}
    assert set(users) == {*USER_ROLES, FIRST_CLIENT}
    for name, user in users.items():
        login = ring.login(name)
        assert login.nkey == user.nkey
        assert len(login.sign(b"nonce")) == 64
        assert login.key is not None
        assert login.key.seed not in repr(login)
    assert len({user.nkey for user in users.values()}) == len(users)
    with pytest.raises(InputError, match="is no name of a user"):
        ring.login("../../b/clients/client")
    with pytest.raises(InputError, match=r"nobody/client.nk is missing|nobody is missing"):
        ring.login("nobody")


def test_revoked_clients_are_no_users(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    issue_client(keys.path, "a", "sensor", role="probe")
    old = keys.domain("a").users.read_bytes()
    assert [user.role for user in ring_of(keys, "a").users() if user.name == "sensor"] == ["probe"]
    revoke(keys.path, "a", client="sensor")
    assert "sensor" not in {user.name for user in ring_of(keys, "a").users()}
    keys.domain("a").users.write_bytes(old)  # a site that has only heard of the revocation
    assert "sensor" not in {user.name for user in ring_of(keys, "a").users()}


def test_a_ring_outlives_the_change_of_its_files(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    a, b = ring_of(keys, "a"), ring_of(keys, "b")
    rotate(keys.path, domains=["a"], parts=[Part.GATEWAY])
    handshake(a.server_context(), b.client_context())
    new = a.renewed()
    assert new.credential != a.credential
    there, here = handshake(new.server_context(), b.client_context())
    assert b.peer(here) == a.identity
    assert new.peer(there) == b.identity


def test_a_list_of_revocations_does_not_become_shorter(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    before = keys.revoked.read_bytes()
    revoke(keys.path, "b")
    ring = ring_of(keys, "a")
    keys.revoked.write_bytes(before)
    with pytest.raises(InputError, match="older than before"):
        ring.renewed()


def test_a_ring_says_nothing_of_its_keys(keys: KeyDirectory) -> None:
    assert repr(ring_of(keys, "a")) == f"KeyRing({str(keys.domain('a').path)!r}, generation 1)"
    assert isinstance(KeyRing.read(str(keys.domain("a").path)), KeyRing)
