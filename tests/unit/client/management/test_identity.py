"""Keys of clients: kept for their owner alone, and what follows from them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mangrove.agent.serving.lease_keys import LeaseKeys
from mangrove.client.management.identity import Identity, identity_in
from mangrove.errors import InputError
from mangrove.model.agents.registration import Registration


def registration_of(identity: Identity) -> Registration:
    return Registration(
        client=identity.client,
        sequence=identity.next_sequence(),
        public_key=identity.public_key,
        exchange_key=identity.exchange_key,
    )


def test_a_file_keeps_the_identity_but_not_the_exchange_key(tmp_path: Path) -> None:
    made = identity_in(tmp_path / "key")
    again = identity_in(tmp_path / "key")
    assert made.client == again.client
    assert made.exchange_key != again.exchange_key
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert Identity().client != Identity().client


@pytest.mark.parametrize("text", ["", "zz", "00" * 31, "00" * 33])
def test_files_that_hold_none_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(InputError, match="no identity"):
        identity_in(path)


def test_keys_that_others_may_read_are_refused(tmp_path: Path) -> None:
    identity_in(tmp_path / "key")
    (tmp_path / "key").chmod(0o640)
    with pytest.raises(InputError, match="others may read"):
        identity_in(tmp_path / "key")
    with pytest.raises(InputError, match="cannot keep"):
        identity_in(tmp_path / "no" / "such" / "place")


def test_numbers_grow_even_if_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    identity = Identity()
    first = identity.next_sequence()
    monkeypatch.setattr("time.time_ns", lambda: first - 10**12)
    numbers = [identity.next_sequence() for _ in range(3)]
    assert numbers == [first + 1, first + 2, first + 3]


def test_an_agent_believes_what_is_signed_and_shares_the_key() -> None:
    identity = Identity()
    signed = identity.signed(registration_of(identity))
    agent = LeaseKeys("here")
    opened = agent.open_registration(msgspec.json.encode(signed))
    assert opened.client == identity.client
    theirs = X25519PrivateKey.generate()
    key = identity.lease_key(theirs.public_key().public_bytes_raw(), "here")
    assert key != identity.lease_key(theirs.public_key().public_bytes_raw(), "there")
    with pytest.raises(ValueError, match="32"):
        identity.lease_key(b"short", "here")
