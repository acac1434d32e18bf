"""Two domains with different names for the same things: plain clients, the SDK, MQTT, requests, groups."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import nats
import pytest
from nats.aio.msg import Msg
from tests.kit.mqtt_clients import PahoClient
from tests.kit.own_names import serves_every_request
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.agent.inspection import gateway_status
from mangrove.config import parse_federation
from mangrove.model.subjects import is_internal
from mangrove.testbed.local_federation import LocalFederation

TWO = """
federation: named
domains:
  berlin:
    edges: 1
    names:
      - {local: "werk.>", federation: "plant.berlin.>"}
      - {local: "alarm", federation: "alert.berlin"}
      - {local: "meldung.>", federation: "report.>", direction: in}
  lyon:
    edges: 1
    names:
      - {local: "usine.voisine.>", federation: "plant.berlin.>"}
links: [{between: [berlin, lyon], delay_ms: 1}]
topics:
  - {match: "plant.berlin.slow", rate_msg_s: 20}
"""


@pytest.fixture(scope="module")
async def named(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    directory = tmp_path_factory.mktemp("state") / "named"
    federation = parse_federation(TWO, "named").require()
    async with LocalFederation(federation, directory, ephemeral=True) as launched:
        running = Running(launched)
        await running.links_up()
        yield running


async def next_topic(subscription: mangrove.Subscription) -> mangrove.Message:
    """The next message that is none of the machinery's, which `>` covers as well."""
    while True:
        message = await subscription.next(5)
        if not is_internal(message.subject):
            return message


async def test_the_sdk_publishes_and_subscribes_by_local_names(named: Running) -> None:
    directory = named.launched.directory
    async with (
        mangrove.connect(run_dir=directory, domain="berlin") as berlin,
        mangrove.connect(run_dir=directory, domain="lyon") as lyon,
    ):
        heard = await lyon.subscribe("usine.voisine.*.temp")
        wide = await lyon.subscribe(">")
        back = await berlin.subscribe("werk.>")
        for each in (heard, wide, back):
            await each.ready()
        await berlin.publish("werk.halle1.temp", b"21")
        assert (await heard.next(5)).subject == "usine.voisine.halle1.temp"
        assert (await next_topic(wide)).subject == "usine.voisine.halle1.temp"
        await lyon.publish("usine.voisine.halle2", b"on")
        seen = [(await back.next(5)).subject for _ in range(2)]
        assert seen == ["werk.halle1.temp", "werk.halle2"]
        await berlin.publish("alarm", b"!")
        assert (await next_topic(wide)).subject == "usine.voisine.halle2"
        assert (await next_topic(wide)).subject == "alert.berlin"
        # By a name that means something else there, nothing passes; what has no mapping keeps its name.
        await berlin.publish("plant.berlin.x", b"has no name outside")
        await lyon.publish("werk.y", b"has no name in berlin")
        await berlin.publish("other.z", b"same everywhere")
        assert {(await next_topic(wide)).subject for _ in range(2)} == {"werk.y", "other.z"}
        # One way only: reports come in, and do not go out.
        reports = await berlin.subscribe("meldung.>")
        await reports.ready()
        await berlin.publish("meldung.intern", b"stays")
        await lyon.publish("report.night", b"quiet")
        assert [(await reports.next(5)).subject for _ in range(2)] == ["meldung.intern", "meldung.night"]
        await berlin.publish("other.z", b"last")
        assert {(await next_topic(wide)).data for _ in range(2)} == {b"quiet", b"last"}
        await berlin.publish("werk.slow", b"")
        assert berlin.limits["werk.slow"].msg_s == 20, "contracts are known by local names"


async def test_a_publisher_may_be_silent_by_its_own_names(named: Running) -> None:
    directory = named.launched.directory
    async with (
        mangrove.connect(run_dir=directory, domain="berlin") as berlin,
        mangrove.connect(run_dir=directory, domain="lyon") as lyon,
    ):

        async def silent() -> bool:
            return await berlin.publish("werk.unheard", b"") is mangrove.Outcome.UNWANTED

        await eventually(silent, "nobody wants it", timeout_s=20)
        heard = await lyon.subscribe("usine.voisine.unheard")
        await heard.ready()
        assert await berlin.publish("werk.unheard", b"wanted now") is mangrove.Outcome.SENT
        assert (await heard.next(5)).data == b"wanted now"


async def test_plain_clients_requests_and_queue_groups(named: Running) -> None:
    berlin = await nats.connect(named.edge("berlin"))
    lyon = await nats.connect(named.edge("lyon"))
    others = await nats.connect(named.head("lyon"))
    try:
        served: list[str] = []

        async def serve(message: Msg) -> None:
            served.append(message.subject)
            await message.respond(message.data.upper())

        await lyon.subscribe("usine.voisine.service", queue="workers", cb=serve)
        await others.subscribe("usine.voisine.service", queue="workers", cb=serve)
        # A group over part of what is renamed: no job is lost to it that it does not cover.
        stray: list[str] = []

        async def take(message: Msg) -> None:
            stray.append(message.subject)

        await berlin.subscribe("plant.>", queue="workers", cb=take)
        await lyon.flush()
        await serves_every_request(berlin, "werk.service", b"WHO", served)
        assert set(served) == {"usine.voisine.service"}
        assert not stray
        # A reply to a subject that is no inbox has its names, too.
        replies = await berlin.subscribe("werk.answers")
        await berlin.flush()
        await berlin.publish("werk.service", b"by name", reply="werk.answers")
        assert (await replies.next_msg(5)).data == b"BY NAME"
    finally:
        for each in (berlin, lyon, others):
            await each.close()


async def test_mqtt_topics_and_retained_messages(named: Running) -> None:
    ports = {domain: each.head.mqtt_port or 0 for domain, each in named.launched.endpoints.items()}
    berlin, lyon = PahoClient("berlin-device"), PahoClient("lyon-device")
    try:
        await lyon.connect(ports["lyon"])
        await lyon.subscribe("usine/voisine/#", qos=1)
        await berlin.connect(ports["berlin"])

        async def arrived() -> bool:
            await berlin.publish("werk/licht", b"on", qos=1)
            return any(each.topic == "usine/voisine/licht" for each in lyon.arrived)

        await eventually(arrived, "the topic is known by its name there")
        await berlin.publish("werk/stand", b"42", qos=1, retain=True)
        late = PahoClient("late")

        async def kept() -> bool:
            return any((each.topic, each.payload) == ("usine/voisine/stand", b"42") for each in late.arrived)

        await late.connect(ports["lyon"])

        async def asked() -> bool:
            await late.subscribe("usine/voisine/stand", qos=0)
            await asyncio.sleep(0.05)
            return await kept()

        await eventually(asked, "who comes late gets the last word by its name there")
        await late.disconnect()
    finally:
        await berlin.disconnect()
        await lyon.disconnect()


async def test_the_gateway_counts_what_has_no_name(named: Running) -> None:
    status = await gateway_status(named.launched.endpoints["berlin"])
    assert status is not None
    assert not [reason for reason in status.dropped if "malformed" in reason]
