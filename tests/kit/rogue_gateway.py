"""Somebody at a gateway's port who speaks the protocol of links, with any key or none, and says anything."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from types import TracebackType
from typing import Self

from mangrove.model.address import Address
from mangrove.overlay.protocol.control_messages import (
    ControlBody,
    Goodbye,
    Heartbeat,
    HeartbeatKind,
    control_body,
    control_frame,
)
from mangrove.overlay.protocol.frames import Frame, FrameDecoder, FrameError, FrameType

WITHIN_S = 6.0


class RogueGateway:
    """One connection. It answers link tests, so that a link that is let in counts as usable."""

    def __init__(self, address: Address, context: ssl.SSLContext | None = None) -> None:
        self._address = address
        self._context = context
        self._decoder = FrameDecoder()
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self.heard: list[Frame] = []
        self.closed = asyncio.Event()
        self.problem = ""
        """Why there is no connection (any more)."""

    async def __aenter__(self) -> Self:
        try:
            async with asyncio.timeout(WITHIN_S):
                self._reader, self._writer = await asyncio.open_connection(
                    *self._address, ssl=self._context, server_hostname="" if self._context else None
                )
        except (OSError, TimeoutError) as error:  # an SSLError is one, too
            self.problem = str(error) or type(error).__name__
            self.closed.set()
            return self
        self._listening = asyncio.create_task(self._listen(self._reader))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        if self._writer is not None:
            self._writer.transport.abort()

    def say(self, *said: Frame | ControlBody | bytes) -> None:
        """Frames, control messages or any bytes."""
        if self._writer is None or self._writer.is_closing():
            return
        for each in said:
            if isinstance(each, bytes):
                self._writer.write(each)
            else:
                self._writer.write((each if isinstance(each, Frame) else control_frame(each)).encode())

    async def drain(self) -> None:
        """Wait until the socket can take more, or is closed."""
        if self._writer is not None:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(WITHIN_S):
                    await self._writer.drain()

    async def until_closed(self, within_s: float = WITHIN_S) -> bool:
        """Whether the other side closes in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self.closed.wait()
        return self.closed.is_set()

    async def until_heard(self, kind: FrameType, within_s: float = WITHIN_S) -> Frame | None:
        """The first frame of a kind, if one comes in time before the other side closes."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while loop.time() < deadline:
            found = next((frame for frame in self.heard if frame.type is kind), None)
            if found is not None or self.closed.is_set():
                return found
            await asyncio.sleep(0.01)
        return None

    @property
    def goodbye(self) -> str:
        """What the other side said when it closed."""
        for frame in self.heard:
            if frame.type is FrameType.GOODBYE:
                body = control_body(frame)
                return body.reason if isinstance(body, Goodbye) else ""
        return ""

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while data := await reader.read(1 << 16):
                for frame in self._decoder.feed(data):
                    self.heard.append(frame)
                    self._answer_test(frame)
        except (OSError, FrameError) as error:
            self.problem = str(error)
        finally:
            self.closed.set()

    def _answer_test(self, frame: Frame) -> None:
        if frame.type is not FrameType.HEARTBEAT:
            return
        beat = control_body(frame)
        if isinstance(beat, Heartbeat) and beat.kind is not HeartbeatKind.TEST_ACK:
            kind = HeartbeatKind.TEST_ACK if beat.kind is HeartbeatKind.TEST else HeartbeatKind.REGULAR
            self.say(Heartbeat(kind=kind, sequence=beat.sequence, sent=beat.sent, received=0, echo=beat.sent))
