"""Access rules at the brokers of a secured domain: each client gets its own, and an error for the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.kit.secured_domain import Connected, SecuredDomain, secured_domain

SITE = """
federation: one
security: keys
domains: {here: {edges: 1}}
access:
  default: deny
  roles: {crew: [alice]}
  rules:
    - {who: {role: crew}, may: [publish, subscribe], subjects: ["alert.>", "plan.*"]}
    - {who: {client: bob}, may: [subscribe], subjects: ["alert.>"]}
    - {who: {client: bob}, may_not: [subscribe], subjects: ["alert.internal.>"]}
    - {who: {role: client}, may: [publish], subjects: ["ask.me", "plan.x.y"]}
"""


@pytest.fixture(scope="module")
async def domain(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SecuredDomain]:
    async with secured_domain(tmp_path_factory.mktemp("access"), SITE) as running:
        for client in ("alice", "bob"):
            running.issue(client)
        assert running.brokers.keys is not None
        running.brokers.keys.renew()
        await running.brokers.take_over_keys()
        yield running


async def in_force(connected: Connected) -> None:
    """Wait until the broker knows what is subscribed to."""
    for _ in range(2):  # nats-py writes its PING before the subscription that waits for its flusher
        await connected.client.flush()


async def refuses(connected: Connected, *, publish: str = "", subscribe: str = "") -> None:
    """The broker answers with an error that names the subject."""
    if publish:
        await connected.client.publish(publish, b"")
    else:
        await connected.client.subscribe(subscribe)
    assert (publish or subscribe).lower() in await connected.complaint()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("how", ["key", "password"])
async def test_a_client_hears_what_it_may_and_is_told_what_it_may_not(
    domain: SecuredDomain, how: str
) -> None:
    login = domain.login if how == "key" else domain.by_password
    alice = await domain.connect(domain.endpoints.head, login("alice"))
    bob = await domain.connect(domain.endpoints.head, login("bob"))
    heard = await bob.client.subscribe("alert.>")
    await in_force(bob)
    for subject in ("alert.internal.x", "alert.fire", "ask.me"):
        await alice.client.publish(subject, b"")
    assert (await heard.next_msg(timeout=10)).subject == "alert.fire"
    assert (alice.complaints, bob.complaints) == ([], [])
    for subject in ("alert.fire", "_MGR._MIRROR.alert.fire", "plan.x", "_MGR.there.alert.fire"):
        await refuses(bob, publish=subject)
    for subject in (">", "alert.internal.x", "_MGR._MIRROR.alert.internal.x", "plan.x", "ask.me"):
        await refuses(bob, subscribe=subject)
    await refuses(alice, publish="plan.x.z")
    await refuses(alice, subscribe="plan.x.y")
    for each in (alice, bob):
        await each.client.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_who_may_hear_one_level_hears_no_deeper_one(domain: SecuredDomain) -> None:
    alice = await domain.connect(domain.endpoints.head, domain.login("alice"))
    heard = await alice.client.subscribe("plan.>")
    await in_force(alice)
    for subject in ("plan.x.y", "plan.x"):
        await alice.client.publish(subject, b"")
    assert (await heard.next_msg(timeout=10)).subject == "plan.x"
    assert alice.complaints == [], "what is left out is no error"
    await alice.client.close()
