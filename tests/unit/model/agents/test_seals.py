"""Both ends of a registration agree on ids and seals."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mangrove.model.agents.seals import client_id, is_client_id, seal, seal_holds, seal_key


def test_an_id_follows_from_the_key_and_is_a_token() -> None:
    made = {client_id(bytes([number]) * 32) for number in range(100)}
    assert len(made) == 100
    assert all(is_client_id(each) for each in made)
    assert client_id(b"k" * 32) == client_id(b"k" * 32)
    assert not is_client_id("a.b" * 8)
    assert not is_client_id("short")
    assert not is_client_id("A" * 24)


def test_both_ends_of_an_exchange_have_the_same_key_and_nobody_else() -> None:
    client, agent, other = (X25519PrivateKey.generate() for _ in range(3))
    publics = client.public_key().public_bytes_raw(), agent.public_key().public_bytes_raw()
    at_client = seal_key(client.exchange(agent.public_key()), *publics, "c")
    at_agent = seal_key(agent.exchange(client.public_key()), *publics, "c")
    assert at_client == at_agent
    assert at_agent != seal_key(other.exchange(client.public_key()), *publics, "c")
    assert at_agent != seal_key(agent.exchange(client.public_key()), *publics, "d"), "bound to the client"


def test_a_seal_holds_for_its_body_alone() -> None:
    key = b"k" * 32
    assert seal_holds(key, b"body", seal(key, b"body"))
    assert not seal_holds(key, b"Body", seal(key, b"body"))
    assert not seal_holds(b"x" * 32, b"body", seal(key, b"body"))
    assert not seal_holds(key, b"body", b"")
