"""What a real gateway counts, and what it does with bytes that only a real broker lets through."""

from __future__ import annotations

from collections import Counter

import msgspec
import nats
from tests.kit.bare_sockets import nats_socket
from tests.kit.running import Running
from tests.kit.waiting import eventually

from mangrove.model.topic_counts import (
    CountCursor,
    TopicCounts,
    TopicCountsRequest,
    gateway_topics_subject,
)


async def ask(chain: Running, domain: str, cursor: CountCursor | None) -> TopicCounts:
    client = await chain.as_agent(domain)
    try:
        request = msgspec.json.encode(TopicCountsRequest(cursor=cursor))
        answer = await client.request(gateway_topics_subject(domain), request, timeout=5)
    finally:
        await client.close()
    return msgspec.json.decode(answer.data, type=TopicCounts)


async def test_counts_by_topic_are_told_since_a_cursor(chain: Running) -> None:
    await chain.at_rest()
    subscriber = await nats.connect(chain.edge("orlando"))
    publisher = await nats.connect(chain.head("seattle"))
    try:
        await subscriber.subscribe("counted.>")
        await chain.knows_interest("seattle", "orlando", 1)
        for _ in range(100):
            await publisher.publish("counted.long.ago")
        await publisher.flush()

        async def carried() -> bool:
            return (await chain.gateway("orlando")).busiest_delivered.get("counted.long.ago") == 100

        await eventually(carried, "the messages should arrive")
        begin = {name: (await ask(chain, name, None)) for name in ("seattle", "orlando")}
        assert all(answer.sent.total == answer.delivered.total == 0 for answer in begin.values())
        for number in range(3):
            await publisher.publish(f"counted.{number}")
        await publisher.publish("counted.long.ago")
        await publisher.publish("counted.request", reply="inbox.x")
        await publisher.flush()

        async def counted() -> bool:
            return (await ask(chain, "orlando", begin["orlando"].cursor)).delivered.total == 5

        await eventually(counted, "the gateway should count what it delivered")
        expected = {"counted.0": 1, "counted.1": 1, "counted.2": 1, "counted.long.ago": 1}
        sent = await ask(chain, "seattle", begin["seattle"].cursor)
        assert (sent.sent.topics, sent.sent.requests, sent.sent.other) == (expected, 1, 0)
        delivered = await ask(chain, "orlando", begin["orlando"].cursor)
        assert (delivered.delivered.topics, delivered.delivered.requests) == (expected, 1)
        assert (await ask(chain, "orlando", delivered.cursor)).delivered.total == 0
    finally:
        await subscriber.close()
        await publisher.close()


async def test_bytes_that_are_no_text_cost_nobody_the_head_connection(chain: Running) -> None:
    """nats-server lets clients use any bytes in subjects; the gateway leaves them out and goes on."""
    await chain.at_rest()
    before = Counter((await chain.gateway("seattle")).dropped)
    subscriber = await nats.connect(chain.edge("orlando"))
    head = chain.launched.endpoints["seattle"].head
    _reader, writer = await nats_socket(head.client_port, headers=True)
    try:
        received = await subscriber.subscribe(">")
        await chain.knows_interest("seattle", "orlando", 1)
        writer.write(b"SUB odd.\xff\xfe 1\r\nPUB odd.\xff\xfe 1\r\nx\r\n")
        # Headers of a size that no headers have, and a subject that ends nowhere.
        writer.write(b"HPUB odd.head 4 5\r\nabcde\r\nPUB odd.a\x00b 1\r\nx\r\n")
        writer.write(b"PUB fine 4\r\ntext\r\nPING\r\n")
        message = await received.next_msg(timeout=5)
        assert (message.subject, message.data) == ("fine", b"text")
        status = await chain.gateway("seattle")
        assert status.head_connected
        assert status.dropped["the subject is not UTF-8"] == before["the subject is not UTF-8"] + 1
        malformed = "the subject or the headers are malformed"
        assert status.dropped[malformed] == before[malformed] + 2
        assert status.ignored["subscription that is not UTF-8"] >= 1
    finally:
        writer.close()
        await subscriber.close()
    await chain.at_rest()
