"""Mangrove: resilient, QoS-aware, federated publish/subscribe messaging over real brokers.

import mangrove

async with mangrove.connect(domain="seattle") as connection:
    await connection.publish("alert.tsunami", b"wave at 12:04")
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mangrove.client import (
        Connection,
        ContractChange,
        ContractError,
        ContractInvalidError,
        ContractNotAllowedError,
        ContractRefusedError,
        ContractUndecidedError,
        Gap,
        LimitedError,
        LoginError,
        Message,
        NotAllowedError,
        Offline,
        OfflineState,
        Outcome,
        RateLimit,
        SelectorError,
        SlowSubscriberError,
        Subscription,
        connect,
    )

__version__ = "0.1.0"
__all__ = [
    "Connection",
    "ContractChange",
    "ContractError",
    "ContractInvalidError",
    "ContractNotAllowedError",
    "ContractRefusedError",
    "ContractUndecidedError",
    "Gap",
    "LimitedError",
    "LoginError",
    "Message",
    "NotAllowedError",
    "Offline",
    "OfflineState",
    "Outcome",
    "RateLimit",
    "SelectorError",
    "SlowSubscriberError",
    "Subscription",
    "__version__",
    "connect",
]


def __getattr__(name: str) -> object:
    """Load the SDK when it is first used: the command line must start fast."""
    if name in __all__:
        from mangrove import client

        return getattr(client, name)
    raise AttributeError(f"module 'mangrove' has no attribute {name!r}")
