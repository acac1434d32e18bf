"""The lists made from access rules, asked of a real nats-server: it allows what the rules do, never more."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from tests.kit.access import CLIENTS, DOMAINS, TOKENS, client, rule, rules

from mangrove.broker.nats.server import nats_server
from mangrove.host.ports import PortReservation
from mangrove.model.access.evaluation import AccessJudge
from mangrove.model.access.permissions import PatternLists, Permissions, permissions_of
from mangrove.model.access.rules import AccessRules, Action, Effect, Principal, Rule
from mangrove.model.subjects import matches

SUBJECTS = [".".join(tokens) for length in (1, 2, 3) for tokens in product(TOKENS[:2], repeat=length)]
PATTERNS = [">", "*", "*.*", "x.>", "x.*", "x.*.>", "x.*.y", "*.x.>", "y.>"]
SEED = 20_161
SETS = 24

NARROW = [
    (rules(rule("may", *subjects), default="deny"), client("anna", "a"))
    for subjects in (
        ("x.*",),
        ("x.*", "x.y.x"),
        ("x.*", "x.*.y", "y"),
        ("*",),
        ("*.*", "y.y.y"),
        ("x.y.*", "x.x"),
    )
]
"""Where nats-server would let `x.>` be heard by who may hear `x.*`."""


def _drawn(rng: random.Random) -> tuple[AccessRules, Principal]:
    def one() -> Rule:
        return rule(
            rng.choice(list(Effect)),
            *rng.sample([*PATTERNS[1:], *SUBJECTS], rng.randint(1, 3)),
            actions=rng.choice([(Action.PUBLISH,), (Action.SUBSCRIBE,), tuple(Action)]),
            domain=rng.choice(["", "", "a"]),
            client=rng.choice(["", "", "anna"]),
        )

    drawn = [one() for _ in range(rng.randint(1, 5))]
    default = rng.choice(["allow", "deny", "deny"])
    return rules(*drawn, default=default), client(rng.choice(CLIENTS), rng.choice(DOMAINS))


def _permissions(found: Permissions) -> dict[str, dict[str, list[str]]]:
    def written(lists: PatternLists) -> dict[str, list[str]]:
        return {"allow": ["_INBOX.>", *lists.allow], "deny": list(lists.deny)}

    return {"publish": written(found.publish), "subscribe": written(found.subscribe)}


class Broker:
    """A nats-server with a user for each set of rules, and one who may everything."""

    def __init__(self, url: str, drawn: list[tuple[AccessRules, Principal]]) -> None:
        self._url = url
        self.drawn = drawn

    async def connect(self, user: str) -> Client:
        async def ignore(_: Exception) -> None:
            """A refusal shows in what is not heard."""

        return await nats.connect(f"nats://{user}:x@{self._url}", error_cb=ignore)


@pytest.fixture(scope="module")
async def broker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Broker]:
    directory: Path = tmp_path_factory.mktemp("access")
    rng = random.Random(SEED)
    drawn = [*NARROW, *(_drawn(rng) for _ in range(SETS))]
    users: list[dict[str, object]] = [{"user": "all", "password": "x"}]
    for number, (each, principal) in enumerate(drawn):
        permissions = _permissions(permissions_of(each, principal))
        users.append({"user": f"u{number}", "password": "x", "permissions": permissions})
    with PortReservation() as reserved:
        port = reserved.take("127.0.0.1")
        config = f'listen: "127.0.0.1:{port}"\nauthorization: {{users: {json.dumps(users)}}}\n'
        process = nats_server("access", config, directory)
        await process.start()
        try:
            yield Broker(f"127.0.0.1:{port}", drawn)
        finally:
            await process.stop()


async def _settle(connection: Client) -> None:
    """Wait until the broker has taken all that was said, and all that it said was read.

    The first question of a client overtakes what waits in its buffer, the second does not.
    """
    await connection.flush()
    await connection.flush()


async def _hears(broker: Broker, number: int, speaker: Client) -> dict[str, set[str]]:
    """What a user hears under each of its subscriptions."""
    connection = await broker.connect(f"u{number}")
    subscriptions = {pattern: await connection.subscribe(pattern) for pattern in (*PATTERNS, *SUBJECTS)}
    await _settle(connection)
    for subject in SUBJECTS:
        await speaker.publish(subject, b"")
    await _settle(speaker)
    await _settle(connection)
    heard = {pattern: await _subjects(subscription) for pattern, subscription in subscriptions.items()}
    await connection.close()
    return heard


async def _subjects(subscription: Subscription) -> set[str]:
    """What waits to be read."""
    return {(await subscription.next_msg()).subject for _ in range(subscription.pending_msgs)}


@pytest.mark.asyncio(loop_scope="module")
async def test_subscribers_hear_what_they_may_and_not_more(broker: Broker) -> None:
    speaker = await broker.connect("all")
    for number, (each, principal) in enumerate(broker.drawn):
        judge, lists = AccessJudge(each), permissions_of(each, principal).subscribe
        may = {s for s in SUBJECTS if judge.decide(principal, Action.SUBSCRIBE, s)}
        withheld = {s for s in SUBJECTS if any(matches(pattern, s) for pattern in lists.withheld)}
        heard = await _hears(broker, number, speaker)
        for pattern, subjects in heard.items():
            under = {subject for subject in SUBJECTS if matches(pattern, subject)}
            assert subjects <= may & under, f"{principal} hears too much under {pattern}: {each}"
            if subjects or pattern in SUBJECTS:
                assert subjects | withheld >= may & under, f"{principal} hears too little: {pattern}, {each}"
    await speaker.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_publishers_are_heard_as_far_as_they_may_speak(broker: Broker) -> None:
    listener = await broker.connect("all")
    for number, (each, principal) in enumerate(broker.drawn):
        subscription = await listener.subscribe(">")
        await _settle(listener)
        connection = await broker.connect(f"u{number}")
        for subject in SUBJECTS:
            await connection.publish(subject, b"")
        await _settle(connection)
        await _settle(listener)
        heard = await _subjects(subscription)
        await subscription.unsubscribe()
        judge = AccessJudge(each)
        assert heard == {s for s in SUBJECTS if judge.decide(principal, Action.PUBLISH, s)}, each
        await connection.close()
    await listener.close()
