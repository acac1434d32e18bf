"""Ids and seals."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mangrove.model.agents.identity import KEY_BYTES, client_id, is_sealed_by, lease_key, seal_of

KEYS = st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES)


def test_an_id_is_a_token_that_stands_in_a_subject() -> None:
    assert client_id(b"k" * 32) == client_id(b"k" * 32) != client_id(b"l" * 32)
    assert len(client_id(b"k" * 32)) == 32
    assert client_id(b"k" * 32).isalnum()


@given(KEYS, KEYS, st.binary(max_size=100), st.binary(max_size=100))
def test_a_seal_fits_its_key_and_its_body_alone(key: bytes, other: bytes, body: bytes, more: bytes) -> None:
    seal = seal_of(key, body)
    assert is_sealed_by(key, body, seal)
    assert is_sealed_by(other, body, seal) == (other == key)
    assert is_sealed_by(key, more, seal) == (more == body)
    assert not is_sealed_by(key, body, seal[:-1])


@given(KEYS)
def test_a_lease_key_is_of_one_client_in_one_domain(shared: bytes) -> None:
    keys = {lease_key(shared, client, domain) for client in ("a", "b") for domain in ("east", "west")}
    assert len(keys) == 4
