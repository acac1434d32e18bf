"""Samples that an agent was told late: rates are over the time in which they were counted."""

from __future__ import annotations

from mangrove.control.load.rates import RateMeter
from mangrove.model.agents.load import BrokerSample


def sample(messages: int, taken_at: float | None) -> BrokerSample:
    return BrokerSample(
        broker="b",
        started="x",
        messages_in=messages,
        messages_out=messages,
        bytes_in=messages,
        bytes_out=messages,
        taken_at=taken_at,
    )


def test_an_agent_without_time_sees_no_surge() -> None:
    meter = RateMeter(1.0)
    meter.take(sample(0, 10.0), 11.2)  # told when the agent had time again
    rates = meter.take(sample(200, 12.0), 12.0).rates
    assert rates is not None
    assert rates.messages_in == 100.0
    rates = meter.take(sample(300, None), 13.0).rates
    assert rates is not None
    assert rates.messages_in == 100.0


def test_the_future_is_not_believed() -> None:
    meter = RateMeter(1.0)
    meter.take(sample(0, 99.0), 10.0)
    rates = meter.take(sample(100, 99.0), 11.0).rates
    assert rates is not None
    assert rates.messages_in == 100.0
