"""Lanes with real processes: what hangs, raises, grows or dies costs one message."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.kit.odd_functions import importable
from tests.kit.waiting import eventually

from mangrove.gateway.mediation.exchange import Failure
from mangrove.gateway.mediation.job import Job, Named
from mangrove.gateway.mediation.lane import Lane
from mangrove.model.mediation.transform import Format, Transform
from mangrove.overlay.protocol.bodies import Message

LARGEST = 1 << 16


class Notebook:
    """Writes down what comes out of a lane."""

    def __init__(self) -> None:
        self.out: list[bytes] = []
        self.failures: dict[bytes, Failure] = {}
        self.details: dict[bytes, str] = {}
        self.omitted: list[bytes] = []
        self.lost: list[bytes] = []

    def passed(self, job: Job, payload: bytes) -> None:
        self.out.append(payload)

    def left_out(self, job: Job) -> None:
        self.omitted.append(job.payload)

    def failed(self, job: Job, failure: Failure, detail: str) -> None:
        self.failures[job.payload] = failure
        self.details[job.payload] = detail

    def dropped(self, job: Job) -> None:
        self.lost.append(job.payload)

    def flush(self) -> None:
        pass

    @property
    def settled(self) -> int:
        return len(self.out) + len(self.failures) + len(self.omitted) + len(self.lost)

    async def expect(self, count: int) -> None:
        async def reached() -> bool:
            return self.settled >= count

        await eventually(reached, f"{count} messages should have come to an end, not {self.settled}")
        assert self.settled == count


class Bench:
    """A lane, its notebook, and what it started."""

    def __init__(self, queue_bytes: int = 1 << 20) -> None:
        self.notes = Notebook()
        self.started: Counter[str] = Counter()
        self.task: asyncio.Task[None] | None = None
        self.lane = Lane(
            "t.>",
            self.notes,
            max_message_bytes=LARGEST,
            queue_bytes=queue_bytes,
            look_after=self._look_after,
            started=self.started,
        )

    def _look_after(self, lane: Lane) -> None:
        self.task = asyncio.create_task(lane.run())

    def take(self, use: Named | None, *payloads: bytes, head: bytes = b"") -> None:
        header_bytes = len(head) if head else -1
        self.lane.take(
            [
                Job(Message("t.x", "", header_bytes, len(head) + len(each)), "a", head, each, use)
                for each in payloads
            ]
        )


@asynccontextmanager
async def bench(queue_bytes: int = 1 << 20) -> AsyncIterator[Bench]:
    made = Bench(queue_bytes)
    try:
        yield made
    finally:
        if made.task is not None:
            made.task.cancel()
            await asyncio.gather(made.task, return_exceptions=True)


@pytest.fixture(scope="module", autouse=True)
def module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with importable(Path(tmp_path_factory.mktemp("functions"))) as name:
        yield name


def obedient(module: str, *, time_ms: float = 1000.0, memory_mb: int = 64) -> Named:
    return Named("obedient", Transform(function=f"{module}:obedient", time_ms=time_ms, memory_mb=memory_mb))


async def test_messages_come_out_in_their_order(module: str) -> None:
    async with bench() as made:
        sent = [b"%d" % number for number in range(2000)]
        for start in range(0, 2000, 100):
            made.take(obedient_once := made_use(module), *sent[start : start + 100])
            await asyncio.sleep(0)
        await made.notes.expect(2000)
        assert made.notes.out == [b"did " + each for each in sent]
        assert made.started == {obedient_once.name: 1}


_USES: dict[str, Named] = {}


def made_use(module: str) -> Named:
    """Always the same one, as a gateway has it."""
    return _USES.setdefault(module, obedient(module))


async def test_bad_messages_cost_themselves_alone(module: str) -> None:
    """Those around each are transformed, in their order; each bad one is known for what it did."""
    bad = {
        b"raise": Failure.RAISED,
        b"garbage": Failure.RAISED,
        b"quit": Failure.RAISED,
        b"large": Failure.NO_MEMORY,
        b"grow": Failure.NO_MEMORY,
        b"exit": Failure.DIED,
        b"hang": Failure.TOO_LONG,
        b"spin": Failure.TOO_LONG,
    }
    payloads = [each for word in bad for each in (b"before " + word, word, b"after " + word)]
    async with bench() as made:
        made.take(made_use(module), *payloads, b"leave")
        await made.notes.expect(len(payloads) + 1)
        assert made.notes.failures == bad
        assert made.notes.omitted == [b"leave"]
        assert made.notes.out == [b"did " + each for each in payloads if each not in bad]
        assert made.notes.details[b"raise"] == "ValueError: so it was asked"
        assert "returned int, not bytes" in made.notes.details[b"garbage"]


@pytest.mark.parametrize(
    ("word", "bad"), [(b"half", {b"half": Failure.RAISED}), (b"kind", {})], ids=["half a character", "a kind"]
)
async def test_what_cannot_be_sent_as_it_is_costs_no_other_message(
    module: str, word: bytes, bad: dict[bytes, Failure]
) -> None:
    """Words that are no text, and bytes of a kind of their own: one process makes do with both."""
    payloads = [b"first", word, b"next", b"last"]
    async with bench() as made:
        made.take(made_use(module), *payloads)
        await made.notes.expect(len(payloads))
        assert made.notes.failures == bad
        assert made.notes.out == [b"did " + each for each in payloads if each not in bad]
        assert made.started == {"obedient": 1}


def test_a_gateway_that_may_have_less_memory_than_its_transform_can_use_it_all_the_same() -> None:
    """As by `ulimit -v`, or systemd's LimitAS: the lower of both limits holds."""
    code = """
import asyncio, resource
from mangrove.gateway.mediation.exchange import Given
from mangrove.gateway.mediation.trial import tried
from mangrove.model.mediation.transform import Transform

resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
use = Transform(function="mangrove.mediation.functions:unchanged", memory_mb=65_536, time_ms=10_000)
print(asyncio.run(tried(use, Given("t", b"", b"as it was"), 1000)).result.payload)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert found.stdout == "b'as it was'\n", found.stderr


async def test_what_is_too_large_is_refused(module: str) -> None:
    use = Named("large", Transform(function=f"{module}:doubled", max_bytes=10))
    async with bench() as made:
        made.take(use, b"12345", b"123456")
        await made.notes.expect(2)
        assert (made.notes.out, made.notes.failures) == ([b"1234512345"], {b"123456": Failure.TOO_LARGE})
        assert made.notes.details[b"123456"] == "12 bytes, and 10 are allowed"


async def test_large_results_come_one_by_one(module: str) -> None:
    """Hundreds of them are more than one frame may have."""
    use = Named("large", Transform(function=f"{module}:doubled"))
    async with bench(queue_bytes=64 << 20) as made:
        made.take(use, *([b"x" * 30_000] * 500))
        await made.notes.expect(500)
        assert {len(each) for each in made.notes.out} == {60_000}


async def test_headers_count_towards_the_size_of_a_message(module: str) -> None:
    use = Named("large", Transform(function=f"{module}:doubled"))
    head = b"NATS/1.0\r\nA: b\r\n\r\n"
    async with bench() as made:
        made.take(use, b"x" * (LARGEST // 2 - 9), head=head)
        made.take(use, b"x" * (LARGEST // 2 - 8), head=head)
        await made.notes.expect(2)
        assert (len(made.notes.out), len(made.notes.failures)) == (1, 1)


async def test_functions_see_headers(module: str) -> None:
    async with bench() as made:
        made.take(made_use(module), b"headers", head=b"NATS/1.0\r\nA: b\r\n\r\n")
        await made.notes.expect(1)
        assert made.notes.out == [b"[('A', 'b')]"]


async def test_a_transform_that_cannot_be_had(module: str) -> None:
    async with bench() as made:
        made.take(Named("none", Transform(function="no_such_module_at_all:f")), b"1", b"2")
        await made.notes.expect(2)
        assert set(made.notes.failures.values()) == {Failure.NOT_STARTED}
        assert "no_such_module_at_all cannot be imported" in made.notes.details[b"1"]
        made.take(Named("unknown", None), b"3")
        await made.notes.expect(3)
        assert "no transform of this name" in made.notes.details[b"3"]


async def test_too_much_is_dropped_the_oldest_first(module: str) -> None:
    async with bench(queue_bytes=10 * (256 + 100)) as made:
        made.take(made_use(module), *(b"%d" % number * 100 for number in range(10)))
        made.take(made_use(module), b"x" * 100, b"y" * 100)
        await made.notes.expect(12)
        assert made.notes.lost == [b"0" * 100, b"1" * 100]


async def test_another_transform_takes_its_turn(module: str) -> None:
    """A contract is changed while messages wait: each is served by its own, and none overtakes another."""
    second = Named("second", Transform(decode=Format.JSON, encode=Format.MSGPACK))
    async with bench() as made:
        made.take(made_use(module), b"1", b"2")
        made.take(None, b"as it is")
        made.take(second, b"3", b"4")
        made.take(None, b"last")
        await made.notes.expect(6)
        assert made.notes.out == [b"did 1", b"did 2", b"as it is", b"\x03", b"\x04", b"last"]
        made.take(None, b"at once")
        assert made.notes.out[-1] == b"at once"
