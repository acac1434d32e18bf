"""A client that knows one broker of a domain asks it where all the others are."""

from __future__ import annotations

from pathlib import Path

import msgspec
import nats
import nats.errors
import pytest
from nats.aio.msg import Msg
from tests.kit.running import Running

from mangrove.broker.nats.server import nats_server_binary
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess
from mangrove.model.agents.directions import DIRECTIONS_SUBJECT, Directions


async def ask(url: str) -> Directions:
    client = await nats.connect(url)
    try:
        answer = await client.request(DIRECTIONS_SUBJECT, timeout=10)
    finally:
        await client.close()
    return msgspec.json.decode(answer.data, type=Directions)


async def test_every_broker_of_a_domain_tells_of_all(chain: Running) -> None:
    for domain, endpoints in chain.launched.endpoints.items():
        for broker in (endpoints.head, *endpoints.edges):
            told = await ask(broker.client_url)
            assert (told.federation, told.domain, told.placement) == ("chain", domain, "lan")
            assert (told.head.name, told.head.url) == (endpoints.head.name, endpoints.head.client_url)
            assert [(edge.name, edge.url) for edge in told.edges] == [
                (edge.name, edge.client_url) for edge in endpoints.edges
            ]
            assert told.management_url == endpoints.management.client_url


async def test_the_question_does_not_leave_its_domain(chain: Running) -> None:
    """Whoever listens elsewhere hears nothing, and a question sent there on purpose is not answered."""
    heard: list[str] = []

    async def hear(message: Msg) -> None:
        heard.append(message.subject)

    far = await nats.connect(chain.edge("denver"))
    await far.subscribe("_MGR.>", cb=hear)
    await far.subscribe("_WHERE", cb=hear)
    await far.flush()
    near = await nats.connect(chain.head("seattle"))
    await near.request(DIRECTIONS_SUBJECT, timeout=10)
    await far.flush()
    assert heard == []
    inbox = near.new_inbox()
    answers = await near.subscribe(inbox)
    await near.publish(f"_MGR.denver.{DIRECTIONS_SUBJECT}", b"", reply=inbox)
    await near.publish("_MGR.denver._WHERE", b"", reply=inbox)
    with pytest.raises(nats.errors.TimeoutError):
        await answers.next_msg(timeout=0.5)
    for client in (far, near):
        await client.close()


async def test_a_plain_nats_server_has_nobody_to_answer(tmp_path: Path) -> None:
    with PortReservation() as ports:
        port = ports.take("127.0.0.1")
        server = ManagedProcess(
            "plain",
            [nats_server_binary(), "-a", "127.0.0.1", "-p", str(port)],
            log_path=tmp_path / "log",
            ready_text="Server is ready",
        )
        await server.start()
        try:
            with pytest.raises(nats.errors.NoRespondersError):
                await ask(f"nats://127.0.0.1:{port}")
        finally:
            await server.stop()
