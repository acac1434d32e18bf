"""What comes from the queues of a client's subscriptions, and to whom."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mangrove.broker.client_connection import ConnectionCounts, RawMessage
from mangrove.broker.rabbitmq.client.subscriptions import (
    NO_SUBJECT,
    ODD_ANSWER,
    QueueSubscription,
    Subscriptions,
)
from mangrove.broker.rabbitmq.messages.properties import PropertyWriter
from mangrove.broker.rabbitmq.wire.frames import Delivery


class Client:
    """One subscription, and what came by it."""

    def __init__(self, subject: str, group: str = "") -> None:
        self.counts = ConnectionCounts()
        self.subscriptions = Subscriptions(2, self.counts, lambda _denial, _subscription: None)
        self.got: list[RawMessage] = []
        self.made = QueueSubscription(7, subject, group, "sdk.1", self._take, RawMessage, None)
        self.subscriptions.add(self.made)

    def _take(self, messages: list[Any], size_bytes: int) -> None:
        self.got += messages

    def deliver(self, key: str, *, number: str = "") -> None:
        properties = PropertyWriter("").properties(correlation_id=number)
        tag = self.made.tag.encode()
        self.subscriptions.delivered([Delivery(tag, 1, False, key.encode(), properties, b"body")])


def test_a_queue_group_may_have_the_name_of_its_subject() -> None:
    client = Client("orders", "orders")
    client.deliver("orders")
    client.deliver("orders", number="4711")
    assert [message.subject for message in client.got] == ["orders", "orders"]
    assert not client.counts.errors


def test_what_somebody_sends_to_the_queue_of_a_group_itself_is_on_no_subject() -> None:
    client = Client("jobs.>", "jobs")
    client.deliver("jobs", number="jobs.1")
    client.deliver("jobs.2")
    assert [message.subject for message in client.got] == ["jobs.2"]
    assert client.counts.errors == Counter({NO_SUBJECT: 1})


def test_answers_come_to_the_queue_and_say_their_subject() -> None:
    everything, client = Client(">"), Client("answers.*")
    everything.deliver("sdk.1.7", number="answers.1")
    assert [message.subject for message in everything.got] == ["answers.1"]
    client.deliver("sdk.1.7", number="answers.1")
    client.deliver("sdk.1.7", number="other.1")
    assert [message.subject for message in client.got] == ["answers.1"]
    assert client.counts.errors == Counter({ODD_ANSWER: 1})
