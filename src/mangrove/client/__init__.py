"""The SDK: publish and subscribe with contracts."""

from mangrove.broker.client_connection import NotAllowedError
from mangrove.client.asks import AskRefusedError
from mangrove.client.connecting import connect
from mangrove.client.connection import Connection
from mangrove.client.contracts import (
    ContractChange,
    ContractError,
    ContractInvalidError,
    ContractNotAllowedError,
    ContractRefusedError,
    ContractUndecidedError,
)
from mangrove.client.message import Message
from mangrove.client.offline.settings import Offline
from mangrove.client.offline.state import OfflineState
from mangrove.client.pending.gap import Gap, SlowSubscriberError
from mangrove.client.publisher import Publisher
from mangrove.client.publishing import LimitedError, Outcome
from mangrove.client.publishing_connection import LoginError, MessageTooLargeError, NotConnectedError
from mangrove.client.subscription import Subscription
from mangrove.model.congestion.rate_limit import RateLimit
from mangrove.model.selectors.words import SelectorError

__all__ = [
    "AskRefusedError",
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
    "MessageTooLargeError",
    "NotAllowedError",
    "NotConnectedError",
    "Offline",
    "OfflineState",
    "Outcome",
    "Publisher",
    "RateLimit",
    "SelectorError",
    "SlowSubscriberError",
    "Subscription",
    "connect",
]
