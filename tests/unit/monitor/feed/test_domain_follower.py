"""What is shown of a domain whose processes fall silent one by one, and come back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from mangrove.config import parse_federation
from mangrove.model.agents.status import AgentStatus
from mangrove.model.stream.messages import AGENT_PART, SILENT_S, TOPICS_PART, said_subject
from mangrove.model.stream.telling import Teller
from mangrove.model.topic_counts import TopicTally, TopicTotals
from mangrove.monitor.feed import domain_follower
from mangrove.monitor.feed.domain_follower import DomainFollower
from mangrove.monitor.feed.source import Elsewhere

NOBODY = cast("Client", None)


class Heard:
    """A follower of a domain of which parts are heard when a test says so, once in a second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        clock = SimpleNamespace(monotonic=lambda: self.now, time=lambda: 1e9 + self.now)
        monkeypatch.setattr(domain_follower, "time", clock)
        runtime = Elsewhere(parse_federation("federation: f\ndomains: {a: {}}\n", "f").require()).find()
        self.changes = 0
        self.follower = DomainFollower(runtime, runtime.domains["a"], self._changed, lambda *_: None)
        self.gateway, self.agent = Teller(1), Teller(2)

    def _changed(self) -> None:
        self.changes += 1

    async def second(self, sent: int | None, agent: bool = True) -> None:
        """`sent` is what the gateway has counted so far; None: it is silent."""
        self.now += 1.0
        if sent is not None:
            tally = TopicTally(topics={"x": sent})
            totals = TopicTotals(domain="a", epoch=1, uptime_s=self.now, sent=tally)
            await self._say(TOPICS_PART, self.gateway.tell(totals, self.now))
        if agent:
            status = AgentStatus(
                domain="a", agent="a-agent", term=1, leads=True, uptime_s=self.now, brokers=()
            )
            await self._say(AGENT_PART, self.agent.tell(status, self.now))
        self.follower._judge()

    async def _say(self, part: str, data: bytes) -> None:
        await self.follower._heard(Msg(NOBODY, subject=said_subject("a", part), data=data))

    @property
    def sent(self) -> float | None:
        rate = self.follower.rates.get("x")
        return None if rate is None else rate.sent


@pytest.mark.parametrize("agent", [True, False])
async def test_a_gateway_that_is_not_heard_carries_nothing_and_returns_without_a_rate(
    monkeypatch: pytest.MonkeyPatch, agent: bool
) -> None:
    """Whether the rest of its domain is heard meanwhile or not."""
    heard = Heard(monkeypatch)
    for second in range(8):
        await heard.second(100 * second)
    assert heard.sent == pytest.approx(100.0)
    for _ in range(int(SILENT_S)):
        await heard.second(None, agent)
    assert heard.sent == pytest.approx(100.0)
    changes = heard.changes
    heard.now += 0.5
    heard.follower._judge()
    assert heard.sent is None
    assert heard.changes > changes, "a page is told so"
    for _ in range(60):
        await heard.second(None, agent)
    await heard.second(10_000)
    assert heard.sent is None
    await heard.second(10_200)
    assert heard.sent == pytest.approx(200.0)


async def test_a_domain_that_cannot_be_reached_carries_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard(monkeypatch)
    for second in range(8):
        await heard.second(100 * second)
    heard.follower._away("the connection to its management broker was lost")
    assert heard.sent is None
    assert heard.follower.topics is not None, "what it carried stays known"
