"""The SDK: publish and subscribe with contracts."""

from mangrove.client.connection import Connection, MessageTooLargeError, NotConnectedError, connect
from mangrove.client.message import Message
from mangrove.client.subscription import Subscription

__all__ = ["Connection", "Message", "MessageTooLargeError", "NotConnectedError", "Subscription", "connect"]
