"""As whom somebody comes to a RabbitMQ."""

from __future__ import annotations

import msgspec

from mangrove.broker.rabbitmq.address import RabbitAddress
from mangrove.broker.rabbitmq.hosting.passwords import password_of
from mangrove.host.keys.login import BrokerLogin


def logged_in(address: RabbitAddress, login: BrokerLogin) -> RabbitAddress:
    """The same broker, for somebody who has a password there, or an NKEY from which one follows."""
    password = login.password or ("" if login.key is None else password_of(login.key.seed))
    return msgspec.structs.replace(address, user=login.user, password=password) if password else address
