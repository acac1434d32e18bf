"""Sealing with the keys of a key directory: files change at different sites at different times."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.kit.engines import federation

from mangrove.gateway.sealing.domain_sealing import DomainSealing
from mangrove.gateway.sealing.refusal import Refusal, UnopenedError
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.making import make_keys, revoke
from mangrove.host.keys.ring import KeyRing
from mangrove.host.keys.rotation import Part, finish, rotate
from mangrove.overlay.protocol.frames import Frame, FrameType

SHAPE = federation(("a", "b"), ("b", "c"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("keys") / "keys"
    make_keys(SHAPE, directory)
    return directory


@pytest.fixture
def keys(made: Path, tmp_path: Path) -> Path:
    return copied(made, tmp_path / "keys")


def copied(keys: Path, to: Path) -> Path:
    """What somebody carries to a site."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(keys, to)
    return to


def ring_of(keys: Path, domain: str) -> KeyRing:
    return KeyRing.read(KeyDirectory(keys).domain(domain).path)


def sealing_of(keys: Path, domain: str) -> DomainSealing:
    return DomainSealing(SHAPE, domain, ring_of(keys, domain))


def sent(origin: DomainSealing, number: int = 1) -> Frame:
    """A frame from a for c."""
    frame = Frame(FrameType.DATA, b"%d" % number, 32, 0, 0, 7, 0b100, flow_id=1, sequence=number)
    return replace(frame, body=origin.sealer.seal(frame))


def opened(destination: DomainSealing, frame: Frame) -> bytes | Refusal:
    try:
        return destination.opener.open(frame)
    except UnopenedError as error:
        return error.refusal


def test_two_who_never_met_read_each_others_keys(keys: Path) -> None:
    assert opened(sealing_of(keys, "c"), sent(sealing_of(keys, "a"))) == b"1"
    assert opened(sealing_of(keys, "b"), sent(sealing_of(keys, "a"))) is Refusal.NOT_FOR_US


def test_a_key_that_somebody_uses_already_is_found_at_once(keys: Path) -> None:
    a, c = sealing_of(keys, "a"), sealing_of(keys, "c")
    assert opened(c, sent(a)) == b"1"
    rotate(keys, domains=["c"], parts=[Part.SEALING])
    a.take(ring_of(keys, "a"))
    assert opened(c, sent(a, 2)) == b"2", "c had not looked at its files yet"
    assert opened(sealing_of(keys, "c"), sent(a, 3)) == b"3"


def test_files_may_come_to_the_origin_before_they_come_to_the_destination(keys: Path, tmp_path: Path) -> None:
    at_c = copied(keys, tmp_path / "at-c")
    a, c = sealing_of(keys, "a"), sealing_of(at_c, "c")
    a.heard("c", ring_of(at_c, "c").credential)
    rotate(keys, domains=["c"])
    a.take(ring_of(keys, "a"))
    assert opened(c, sent(a)) == b"1", "a seals for what c says it has, not for what files say"
    copied(keys, at_c)
    c.take(ring_of(at_c, "c"))
    assert opened(c, sent(a, 2)) == b"2", "with the key before"
    a.heard("c", ring_of(at_c, "c").credential)
    (tmp_path / "at-c/domains/c/sealing.previous.key").unlink()
    assert opened(sealing_of(at_c, "c"), sent(a, 3)) == b"3", "with the new one alone"


def test_files_may_never_come_to_the_origin(keys: Path, tmp_path: Path) -> None:
    at_a = copied(keys, tmp_path / "at-a")
    rotate(keys, domains=["c"])
    a, c = sealing_of(at_a, "a"), sealing_of(keys, "c")
    assert opened(c, sent(a)) == b"1"
    a.heard("c", ring_of(keys, "c").credential)
    finish(keys)
    c = sealing_of(keys, "c")
    assert opened(c, sent(a, 2)) == b"2", "the key before is gone, and a has heard of the new one"


def test_who_signs_is_heard(keys: Path, tmp_path: Path) -> None:
    at_a = copied(keys, tmp_path / "at-a")
    rotate(keys, domains=["c"])
    a, ring = sealing_of(at_a, "a"), ring_of(keys, "c")
    before = a.keys.newest_id_of("c")
    assert a.verify("c", b"forged", ring.sign(b"said"), ring.credential)
    assert a.verify("b", b"said", ring.sign(b"said"), ring.credential)
    assert a.keys.newest_id_of("c") == before
    assert not a.verify("c", b"said", ring.sign(b"said"), ring.credential)
    assert a.keys.newest_id_of("c") != before


def test_what_was_heard_under_another_name_or_from_another_authority_changes_nothing(
    keys: Path, tmp_path: Path
) -> None:
    a = sealing_of(keys, "a")
    before = a.keys.version
    a.heard("c", ring_of(keys, "b").credential)
    strangers = tmp_path / "strangers"
    make_keys(SHAPE, strangers)
    a.heard("c", ring_of(strangers, "c").credential)
    a.heard("c", b"nonsense")
    assert a.keys.version == before


def test_a_revoked_domain_is_neither_sealed_for_nor_opened_from(keys: Path) -> None:
    a, c = sealing_of(keys, "a"), sealing_of(keys, "c")
    assert opened(c, sent(a)) == b"1"
    second = sent(a, 2)
    revoke(keys, "a")
    c.take(c._ring.renewed())
    assert opened(c, second) is Refusal.ORIGIN_KEY_UNKNOWN
    frame = Frame(FrameType.DATA, b"x", 32, 2, 0, 7, 0b001, flow_id=1, sequence=1)
    c.sealer.seal(frame)
    assert c.without_key == ("a",)


def test_files_that_cannot_be_read_leave_what_was_there(keys: Path) -> None:
    a, c = sealing_of(keys, "a"), sealing_of(keys, "c")
    certificate = KeyDirectory(keys).domain("c").gateway_certificate
    certificate.write_bytes(b"torn")
    about = KeyDirectory(keys).about
    about.write_bytes(about.read_bytes() + b"\n")
    a._look_again()
    c._look_again()
    assert opened(c, sent(a)) == b"1"
