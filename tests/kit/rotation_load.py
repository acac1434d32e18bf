"""Every key of a running federation is replaced under load, and what was lost or came twice is counted.

`python -m tests.kit.rotation_load --runs 10 --rate 1000` prints a line for each run.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.agent.management import ManagementConnection
from mangrove.config import parse_federation
from mangrove.host.audit.reading import read_chain
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.files.about import read_about
from mangrove.host.keys.rotation import change_authority, finish, introduce_authority, rotate
from mangrove.host.run_directory import RunDirectory
from mangrove.model.audit.entry import AuditKind
from mangrove.testbed.local_federation import LocalFederation

TWO = """
federation: two
domains:
  here:  {edges: 2}
  there: {edges: 2}
links:
  - {between: [here, there]}
topics:
  - {match: "twice", mirror: true}
"""
SUBJECTS = ("once", "twice")
WAIT_S = 60.0


class Stream:
    """Numbered messages on a plain and a mirrored subject, heard in both domains."""

    def __init__(self, rate: float, publisher: mangrove.Connection, **hearers: mangrove.Connection) -> None:
        self._pause_s = 1 / rate
        self._publisher = publisher
        self._hearers = hearers
        self.connections = (publisher, *hearers.values())
        self.sent = 0
        self.phase = ""
        """What is going on, noted with every message."""
        self._phases: list[str] = []
        self._going = True
        self.received: dict[tuple[str, str], list[int]] = {
            (name, subject): [] for name in hearers for subject in SUBJECTS
        }
        self._sending: asyncio.Task[None] | None = None

    async def start(self) -> None:
        for name, hearer in self._hearers.items():
            for subject in SUBJECTS:
                taken = self.received[name, subject]

                async def take(message: mangrove.Message, taken: list[int] = taken) -> None:
                    taken.append(int(message.data))

                await (await hearer.subscribe(subject, callback=take)).ready()
        self._sending = asyncio.create_task(self._send())

    async def stop(self) -> None:
        """Stop, and wait for what is under way."""
        assert self._sending is not None
        self._going = False
        await self._sending

        async def arrived() -> bool:
            return all(self.sent - 1 in numbers for numbers in self.received.values())

        try:
            await eventually(arrived, "the last message is there")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self._standing()}") from None

    def _standing(self) -> str:
        """Who has heard what up to now."""
        told = [
            f"{hearer} {subject} has {len(set(numbers))}, {numbers[-3:]} last"
            for (hearer, subject), numbers in self.received.items()
        ]
        wires = [f"{wire.counts}" for connection in self.connections for wire in connection._pool]
        return "; ".join([f"{self.sent} sent", *told, *wires])

    def lost(self, hearer: str, subject: str) -> Counter[str]:
        """How many messages did not come, by what was going on when they were published."""
        missing = set(range(self.sent)) - set(self.received[hearer, subject])
        return Counter(self._phases[number] for number in missing)

    def twice(self, hearer: str, subject: str) -> int:
        numbers = self.received[hearer, subject]
        return len(numbers) - len(set(numbers))

    def out_of_order(self, hearer: str, subject: str) -> int:
        numbers = self.received[hearer, subject]
        return sum(one > other for one, other in itertools.pairwise(numbers))

    async def _send(self) -> None:
        due = time.monotonic()
        while self._going:
            now = time.monotonic()
            while due <= now:
                due += self._pause_s
                number, self.sent = self.sent, self.sent + 1
                self._phases.append(self.phase)
                for subject in SUBJECTS:
                    await self._publisher.publish(subject, str(number).encode())
            await asyncio.sleep(max(due - now, 0))


@contextlib.asynccontextmanager
async def two_sites(directory: Path) -> AsyncIterator[Running]:
    """Two linked sites with keys."""
    federation = parse_federation(TWO, "two").require()
    async with LocalFederation(federation, directory, ephemeral=True, secured=True) as launched:
        running = Running(launched)
        await running.links_up()
        yield running


@contextlib.asynccontextmanager
async def streaming(two: Running, rate: float) -> AsyncIterator[Stream]:
    """A stream from `here` to both sites, by clients that do nothing else."""
    run_dir = two.launched.directory
    async with (
        mangrove.connect(run_dir=run_dir, domain="here") as publisher,
        mangrove.connect(run_dir=run_dir, domain="here") as here,
        mangrove.connect(run_dir=run_dir, domain="there") as there,
    ):
        stream = Stream(rate, publisher, here=here, there=there)
        await stream.start()
        yield stream
        await stream.stop()


async def taken_over(two: Running) -> None:
    """Wait until brokers and gateways have the keys as they are now, and clients are logged in by theirs."""
    assert two.launched.keys is not None
    generation = read_about(KeyDirectory(two.launched.keys)).generation
    run = RunDirectory(two.launched.directory)

    def has_them(process: str) -> bool:
        entries = read_chain(run, process)
        told = (each.facts.get("generation") for each in entries if each.kind is AuditKind.KEYS_TAKEN_OVER)
        return any(isinstance(each, int) and each >= generation for each in told)

    async def all_have() -> bool:
        return all(
            has_them(f"{name}-{process}")
            for name in two.launched.endpoints
            for process in ("brokers", "gateway")
        )

    async def nobody_left() -> bool:
        for endpoints in two.launched.endpoints.values():
            async with ManagementConnection(endpoints) as management:
                answers = await management.hosts(1, old_keys=True)
            if not answers or any(each.old_logins for each in answers):
                return False
        return True

    await eventually(all_have, "all should have the new keys", WAIT_S)
    await eventually(nobody_left, "all should have logged in anew", WAIT_S)


async def _run(rate: float, pause_s: float, keep: Path | None, number: int) -> str:
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary) if keep is None else keep / str(number)
        async with two_sites(directory / "two") as two:
            keys = two.launched.keys
            assert keys is not None
            async with streaming(two, rate) as stream:
                await asyncio.sleep(1)
                for phase, step in (
                    ("introduce", introduce_authority),
                    ("change", change_authority),
                    ("rotate", rotate),
                    ("finish", finish),
                ):
                    stream.phase = phase
                    await asyncio.to_thread(step, keys)
                    await taken_over(two)
                    await asyncio.sleep(pause_s)
            here, there = await two.gateway("here"), await two.gateway("there")
            between = f"between gateways {here.sent} sent, {there.delivered} delivered"
            dropped = {**here.dropped, **there.dropped}
    told = [f"{stream.sent} sent", between, f"dropped {dropped or 'none'}"]
    for hearer, subject in stream.received:
        lost, twice = stream.lost(hearer, subject), stream.twice(hearer, subject)
        disorder = stream.out_of_order(hearer, subject)
        told.append(
            f"{hearer} {subject}: {sum(lost.values())} lost {dict(lost) or ''} {twice} twice {disorder} back"
        )
    return "; ".join(told)


def main() -> None:
    """Run it as often as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--pause", type=float, default=2.0, help="seconds after each step")
    parser.add_argument("--keep", type=Path, help="a folder for what each run leaves")
    given = parser.parse_args()
    for number in range(1, given.runs + 1):
        told = asyncio.run(_run(given.rate, given.pause, given.keep, number))
        sys.stdout.write(f"{number}: {told}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
