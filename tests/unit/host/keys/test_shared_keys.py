"""Two domains share a key that a third cannot make, and go on sharing one while keys are replaced."""

from __future__ import annotations

from pathlib import Path
from time import time_ns

from tests.kit.keyed import FEDERATION, made, ring_of

from mangrove.host.keys.making import revoke, rotate
from mangrove.host.keys.ring import KeyRing
from mangrove.host.keys.rotation import Part
from mangrove.model.federation import Domain, Federation
from mangrove.overlay.protocol.control_messages import LinkStateAd
from mangrove.overlay.protocol.signed_bodies import words
from mangrove.overlay.trust.trust import KeyTrust

THREE = Federation(
    name="ring",
    domains={**FEDERATION.domains, "c": Domain(name="c", base_port=7200)},
    links=FEDERATION.links,
)


def trust(ring: KeyRing) -> KeyTrust:
    return KeyTrust("ring", ring, ring, time_ns)


def test_a_tag_is_of_one_domain_for_one_other(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys", THREE)
    a, b, c = (ring_of(keys, name) for name in "abc")
    tag = trust(a).tag(b.credential, b"frame")
    assert trust(b).tagged((a.credential,), b"frame", tag)
    assert not trust(b).tagged((a.credential,), b"other", tag)
    assert not trust(b).tagged((c.credential,), b"frame", tag)
    assert not trust(c).tagged((a.credential,), b"frame", tag)
    assert not trust(b).tagged((), b"frame", tag)
    assert trust(c).tag(b.credential, b"frame") != tag


def test_tags_hold_while_either_side_replaces_its_sealing_key(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    before, other = ring_of(keys, "a"), ring_of(keys, "b")
    under_way = trust(other).tag(before.credential, b"frame")
    own = trust(before).tag(other.credential, b"frame")
    rotate(keys.path, domains=["a"], parts=[Part.SEALING])
    after = ring_of(keys, "a")
    assert trust(after).tagged((other.credential,), b"frame", under_way), "made for the key before"
    assert trust(other).tagged((after.credential, before.credential), b"frame", own)
    new = trust(after).tag(other.credential, b"frame")
    assert new != own
    assert trust(other).tagged((after.credential, before.credential), b"frame", new)


def test_nothing_is_shared_with_who_was_revoked(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    gone = ring_of(keys, "b")
    tag = trust(gone).tag(ring_of(keys, "a").credential, b"frame")
    revoke(keys.path, "b")
    here = trust(ring_of(keys, "a"))
    assert not here.tagged((gone.credential,), b"frame", tag)
    assert here.tag(gone.credential, b"frame") == bytes(16)
    signed = trust(gone).signed(words(LinkStateAd(origin="b", epoch=1, sequence=1, links={})))
    assert "revoked" in here.judge("b", signed).problem
