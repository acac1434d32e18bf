"""A gateway's attachment to a nats-server, on a transport in memory."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from tests.kit.attachments import Head

from mangrove.broker.attachment import AttachmentOwner
from mangrove.broker.nats.leaf import LeafProtocol
from mangrove.broker.nats.leaf_attachment import LeafAttachment

INFO = b'INFO {"server_name":"s","version":"2.11","headers":true,"max_payload":100}\r\n'


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.data = b""
        self.closed = False
        self.reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def write(self, data: Any) -> None:
        self.data += bytes(data)

    def close(self) -> None:
        self.closed = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def take(self) -> bytes:
        data, self.data = self.data, b""
        return data


class Attached:
    """A head connection whose attachment speaks the leaf-node protocol to a test."""

    def __init__(self) -> None:
        self.head = Head(attach=self._attach)
        self.reconnected()

    def _attach(self, owner: AttachmentOwner) -> LeafAttachment:
        self.attachment = LeafAttachment("gateway-a", ("nats-leaf://user:pass%21@host:7422",), owner)
        return self.attachment

    def reconnected(self, *, elsewhere: bool = False) -> None:
        """A new connection, perhaps to another broker, which has said nothing yet."""
        self.wire = Wire()
        url = "nats-leaf://user:pass%21@host:7422"
        self.protocol = LeafProtocol(
            "gateway-a", url, self.head.connection, self.attachment._mqtt, elsewhere=elsewhere
        )
        self.attachment._protocol = self.protocol
        self.protocol.connection_made(cast("asyncio.BaseTransport", self.wire))

    def greeted(self) -> Attached:
        self.protocol.data_received(INFO)
        self.protocol.data_received(b"PONG\r\n")
        return self
