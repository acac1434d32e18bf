"""Where a client connects to, without brokers."""

from __future__ import annotations

import pytest

from mangrove.client.broker_pool import BrokerPool, same_broker
from mangrove.errors import InputError
from mangrove.model.broker_kinds import BrokerKind

ODD = ["nats://h:99999", "nats://h:port", "nats://[h", "amqp://h:4222"]


@pytest.mark.parametrize("url", ODD[:3])
def test_what_is_no_place_is_one_by_itself(url: str) -> None:
    assert same_broker(url, url)
    assert not same_broker(url, "nats://h:4222")
    assert same_broker("h", "nats://h:4222")


@pytest.mark.parametrize("url", ODD)
async def test_a_broker_with_an_odd_url_is_not_gone_to(url: str) -> None:
    pool = BrokerPool(BrokerKind.NATS, "n", ["nats://127.0.0.1:1"], ["nats://127.0.0.1:1"])
    with pytest.raises(InputError, match="cannot connect to"):
        await pool.at(url)
    await pool.close()
