"""The emulator of brokers' lines: a process that relays their connections within the bandwidth of each.

Run by the launcher as `python -m mangrove.testbed.broker_lines.relay SETTINGS.json`. Bandwidths are changed
while it runs over a control socket, one JSON document a line: `{"broker": "a-edge1", "bandwidth_mbps": 4.0}`,
answered by `{"ok": true}` or `{"error": "…"}`.

Connections take turns on a line, as TCP connections share one fairly. Each may have a little waiting here and
no more: beyond it nothing is read from its sender, so that what is too much waits at the broker, which in the
end cuts off who does not get it, as with a real line.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from functools import partial

import msgspec

from mangrove.host.daemon import run_daemon
from mangrove.model.address import Address
from mangrove.model.shared_names import LINES_READY
from mangrove.model.unreadable import UNREADABLE
from mangrove.testbed.broker_lines.connections import Pipe, RelayedConnection, SharedLine
from mangrove.testbed.broker_lines.line import bandwidth_problem
from mangrove.testbed.emulator_control import Answer, answer_requests
from mangrove.testbed.wan import wan_socket

log = logging.getLogger(__name__)


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """Who connects to `listen` talks to `target`, over the line of a broker.

    `outward`: the broker is the one who connects, and not the one who is connected to.
    """

    broker: str
    listen: Address
    target: Address
    outward: bool = False


class LineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the emulator is told when it starts."""

    control: Address
    doors: tuple[Door, ...]
    bandwidths: dict[str, float] = {}
    """In Mbit/s; brokers that are not named are not limited."""


class BandwidthChange(msgspec.Struct, frozen=True, kw_only=True):
    """A request on the control socket; without a bandwidth the line is not limited."""

    broker: str
    bandwidth_mbps: float | None = None


class LineRelay:
    """The lines of all emulated brokers."""

    def __init__(self, settings: LineSettings) -> None:
        self._settings = settings
        self.lines: dict[str, tuple[SharedLine, SharedLine]] = {}
        """What each broker sends, and what it receives."""
        for door in settings.doors:
            bandwidth_mbps = settings.bandwidths.get(door.broker)
            if door.broker not in self.lines:
                self.lines[door.broker] = (SharedLine(bandwidth_mbps), SharedLine(bandwidth_mbps))
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Relay until cancelled."""
        loop = asyncio.get_running_loop()
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._end)
            for door in self._settings.doors:
                listener = wan_socket(door.listen[0])
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(door.listen)
                server = await loop.create_server(partial(self._accept, door), sock=listener)
                stack.callback(server.close)
            control = await asyncio.start_server(
                partial(answer_requests, self._answer), *self._settings.control, reuse_address=True
            )
            stack.callback(control.close)
            log.info("%s: %d brokers", LINES_READY, len(self.lines))
            await asyncio.Event().wait()

    async def _end(self) -> None:
        """End all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for shared in (each for pair in self.lines.values() for each in pair):
            shared.end()
        await asyncio.sleep(0)  # sockets are closed by the loop, a step later

    def _keep(self, task: asyncio.Task[None]) -> None:
        """Look after a task until it is done."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _accept(self, door: Door) -> Pipe:
        sent, received = self.lines[door.broker]
        ways = (sent, received) if door.outward else (received, sent)
        return RelayedConnection(door.target, *ways, self._keep).accept()

    def _answer(self, line: bytes) -> Answer:
        try:
            change = msgspec.json.decode(line, type=BandwidthChange)
        except UNREADABLE as error:
            return Answer(error=f"not a request: {error}")
        lines = self.lines.get(change.broker)
        if lines is None:
            return Answer(error=f"no emulated broker {change.broker!r}; there are: {', '.join(self.lines)}")
        if problem := bandwidth_problem(change.bandwidth_mbps):
            return Answer(error=problem)
        for each in lines:
            each.change(change.bandwidth_mbps)
        log.info("%s has now %s Mbit/s", change.broker, change.bandwidth_mbps)
        return Answer(ok=True)


async def _serve(settings: LineSettings) -> None:
    await LineRelay(settings).run()


def main() -> None:
    """Run the emulator until it is told to stop."""
    run_daemon(LineSettings, _serve)


if __name__ == "__main__":
    main()
