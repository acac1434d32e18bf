"""Signatures and seals: what is believed, and why all else is not."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.registrations import SigningClient

from mangrove.agent.serving import lease_keys
from mangrove.agent.serving.lease_keys import (
    FORGET_AFTER_S,
    MAX_MESSAGE_BYTES,
    LeaseKeys,
    Reason,
    RefusedError,
)
from mangrove.model.agents.identity import seal_of
from mangrove.model.agents.registration import Migrated, Report, Sealed, Signed, Traffic


def registered(keys: LeaseKeys, client: SigningClient, now: float = 0.0) -> SigningClient:
    keys.admit(keys.open_registration(client.signed(client.registration("plant.>"))), now)
    client.share(keys.exchange_key)
    return client


def refusal(call: Callable[[], object]) -> Reason:
    with pytest.raises(RefusedError) as caught:
        call()
    return caught.value.reason


def test_a_registered_client_is_heard_in_its_order_until_it_leaves() -> None:
    keys = LeaseKeys("here")
    client = registered(keys, SigningClient())
    first, second = client.report(), client.report()
    assert keys.open_message(client.sealed(first), 1.0) == first
    assert keys.open_message(client.sealed(second), 2.0) == second
    assert refusal(lambda: keys.open_message(client.sealed(first), 3.0)) is Reason.STALE
    keys.open_message(client.sealed(client.leave()), 4.0)
    assert refusal(lambda: keys.open_message(client.sealed(client.report()), 5.0)) is Reason.UNKNOWN


def test_registrations_that_are_not_the_clients_own() -> None:
    keys, honest, thief = LeaseKeys("here"), SigningClient(), SigningClient()
    in_its_name = msgspec.structs.replace(thief.registration(), client=honest.client)
    assert refusal(lambda: keys.open_registration(thief.signed(in_its_name))) is Reason.FORGED_ID
    with_its_key = honest.registration()
    assert refusal(lambda: keys.open_registration(thief.signed(with_its_key))) is Reason.FORGED_SIGNATURE
    signed = msgspec.json.decode(honest.signed(honest.registration("a.b")), type=Signed)
    changed = msgspec.structs.replace(signed, body=signed.body.replace(b"a.b", b"a.c"))
    assert refusal(lambda: keys.open_registration(msgspec.json.encode(changed))) is Reason.FORGED_SIGNATURE
    elsewhere = honest.registration(domain="there")
    assert refusal(lambda: keys.open_registration(honest.signed(elsewhere))) is Reason.OTHER_DOMAIN
    assert refusal(lambda: keys.open_registration(b"x" * (MAX_MESSAGE_BYTES + 1))) is Reason.TOO_LARGE
    assert refusal(lambda: keys.open_registration(b'{"body": 1}')) is Reason.UNREADABLE
    many = honest.registration(ended=("x",) * 10_001)
    assert refusal(lambda: keys.open_registration(honest.signed(many))) is Reason.TOO_MANY
    negative = honest.registration(sequence=-1)
    assert refusal(lambda: keys.open_registration(honest.signed(negative))) is Reason.STALE
    no_point = keys.open_registration(honest.signed(honest.registration(exchange_key=b"\0" * 32)))
    assert refusal(lambda: keys.admit(no_point, 0.0)) is Reason.BAD_EXCHANGE
    assert len(keys) == 0


def test_a_registration_is_good_for_one_time() -> None:
    keys, client = LeaseKeys("here"), SigningClient()
    data = client.signed(client.registration())
    keys.admit(keys.open_registration(data), 0.0)
    assert refusal(lambda: keys.open_registration(data)) is Reason.STALE


def test_a_lease_cannot_be_used_by_somebody_else() -> None:
    keys = LeaseKeys("here")
    honest, thief = registered(keys, SigningClient()), registered(keys, SigningClient())
    report = honest.report()
    stolen = msgspec.json.decode(thief.sealed(report), type=Sealed)
    in_its_name = msgspec.json.encode(msgspec.structs.replace(stolen, client=honest.client))
    assert refusal(lambda: keys.open_message(in_its_name, 0.0)) is Reason.FORGED_SEAL
    as_itself = msgspec.json.encode(stolen)
    assert refusal(lambda: keys.open_message(as_itself, 0.0)) is Reason.FORGED_ID, "but about another"
    assert keys.open_message(honest.sealed(report), 0.0) == report


@pytest.mark.parametrize(
    "report",
    [
        {"span_s": 0.0},
        {"span_s": -1.0},
        {"span_s": 1e9},
        {"received": {"a": Traffic(-1, 0)}},
        {"received": {"a": Traffic(1, -5)}},
        {"published": {"a": Traffic(1 << 60, 0)}},
    ],
)
def test_impossible_reports_are_refused(report: dict[str, object]) -> None:
    keys = LeaseKeys("here")
    client = registered(keys, SigningClient())
    impossible: Report = msgspec.structs.replace(client.report(), **report)
    assert refusal(lambda: keys.open_message(client.sealed(impossible), 0.0)) is Reason.IMPOSSIBLE


@pytest.mark.parametrize("repeated", [-1, 1 << 32, 1 << 63, 1 << 64])
def test_more_copies_in_a_move_than_there_can_be_are_refused(repeated: int) -> None:
    keys = LeaseKeys("here")
    client = registered(keys, SigningClient())
    moved = Migrated(client=client.client, sequence=2, session="x-1", key="s1", broker="e2", repeated=7)
    body = msgspec.json.encode(moved).replace(b'"repeated":7', b'"repeated":%d' % repeated)
    impossible = Sealed(client=client.client, body=body, seal=seal_of(client.key, body))
    assert refusal(lambda: keys.open_message(msgspec.json.encode(impossible), 0.0)) is Reason.IMPOSSIBLE
    assert keys.open_message(client.sealed(moved), 1.0) == moved


@given(st.binary(max_size=300))
def test_noise_is_refused_and_never_raises_anything_else(data: bytes) -> None:
    keys = LeaseKeys("here")
    assert refusal(lambda: keys.open_registration(data)) is Reason.UNREADABLE
    assert refusal(lambda: keys.open_message(data, 0.0)) in (Reason.UNREADABLE, Reason.UNKNOWN)


def test_silent_clients_are_forgotten_and_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = LeaseKeys("here")
    silent, talking = registered(keys, SigningClient()), registered(keys, SigningClient())
    keys.open_message(talking.sealed(talking.report()), 50.0)
    keys.prune(FORGET_AFTER_S + 1.0)
    assert len(keys) == 1
    assert refusal(lambda: keys.open_message(silent.sealed(silent.report()), 60.0)) is Reason.UNKNOWN
    monkeypatch.setattr(lease_keys, "MAX_CLIENTS", 3)
    for _ in range(5):
        registered(keys, SigningClient(), now=60.0)
    assert len(keys) == 3


def test_where_users_log_in_each_speaks_for_its_own_clients_alone() -> None:
    keys, client = LeaseKeys("here", users=True), SigningClient()
    signed = client.signed(client.registration("plant.>"))
    assert refusal(lambda: keys.open_registration(signed)) is Reason.NO_USER
    keys.admit(keys.open_registration(signed, "pump"), 0.0, "pump")
    client.share(keys.exchange_key)
    assert keys.user_of(client.client) == "pump"
    again = client.signed(client.registration("plant.>"))
    assert refusal(lambda: keys.open_registration(again, "thief")) is Reason.OTHER_USER
    said = client.sealed(client.report())
    assert refusal(lambda: keys.open_message(said, 1.0, "thief")) is Reason.OTHER_USER
    assert refusal(lambda: keys.open_message(said, 1.0)) is Reason.NO_USER
    keys.open_message(said, 1.0, "pump")
    keys.open_message(client.sealed(client.leave()), 2.0, "pump")
    assert keys.user_of(client.client) == ""
