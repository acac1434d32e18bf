"""Throws mutated input at targets and says what became of it, and of the memory of the process.

`python -m tests.kit.fuzz_run SEED COUNT` prints one JSON document.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Protocol

import msgspec
from tests.kit.frame_corpus import recorded
from tests.kit.fuzz_targets import BodyTarget, LinkTarget, PairTarget, body_corpus
from tests.kit.mutation import Mutator, load_corpus

from mangrove.overlay.pair.messages import (
    Beat,
    Ending,
    PairGoodbye,
    PairHello,
    RecordKind,
    Role,
    record,
    word_record,
)
from mangrove.overlay.protocol.control_messages import Heartbeat, HeartbeatKind

WARM_UP_SHARE = 0.2
"""Memory is compared from here on: tables fill up to their limits first."""
SHARES = {"link": 0.4, "secured link": 0.3, "pair": 0.1, "body": 0.2}
PAGE_BYTES = os.sysconf("SC_PAGESIZE")


class Target(Protocol):
    """Something that takes input."""

    outcomes: Counter[str]

    def take(self, data: bytes) -> None: ...

    def look(self) -> None: ...


class FuzzReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the inputs."""

    seed: int
    inputs: int
    seconds: float
    outcomes: dict[str, dict[str, int]]
    memory_before_mb: float
    """Resident, when the tables were warm."""
    memory_after_mb: float


def run(seed: int, count: int) -> FuzzReport:
    """Throw so many inputs. A failure prints the input that it came with."""
    targets: dict[str, tuple[Target, Mutator]] = {
        "link": (LinkTarget(), Mutator([*load_corpus(), *said_today()], seed)),
        "secured link": (LinkTarget(secured=True), Mutator([*load_corpus(), *said_today()], seed + 3)),
        "pair": (PairTarget(), Mutator(pair_corpus(), seed + 1)),
        "body": (BodyTarget(), Mutator(body_corpus(), seed + 2)),
    }
    before_level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # a line for each of them takes longer than all else
    try:
        return _measured(targets, seed, count)
    finally:
        logging.disable(before_level)


def _measured(targets: dict[str, tuple[Target, Mutator]], seed: int, count: int) -> FuzzReport:
    began = time.perf_counter()
    warm = {name: int(WARM_UP_SHARE * share * count) for name, share in SHARES.items()}
    _throw(targets, warm, seed)
    before_mb = resident_mb()
    _throw(targets, {name: int(share * count) - warm[name] for name, share in SHARES.items()}, seed)
    return FuzzReport(
        seed=seed,
        inputs=sum(int(share * count) for share in SHARES.values()),
        seconds=time.perf_counter() - began,
        outcomes={name: dict(target.outcomes) for name, (target, _) in targets.items()},
        memory_before_mb=before_mb,
        memory_after_mb=resident_mb(),
    )


def _throw(targets: dict[str, tuple[Target, Mutator]], counts: dict[str, int], seed: int) -> None:
    for name, (target, mutate) in targets.items():
        for _ in range(counts[name]):
            data = mutate()
            try:
                target.take(data)
            except BaseException:
                sys.stderr.write(f"seed {seed}, {name}: this input broke it: {data.hex()}\n")
                raise
        target.look()


def said_today() -> list[bytes]:
    """What gateways say as they are: what was kept of earlier ones may be refused at the greeting."""
    return [frame for frames in recorded().values() for frame in frames]


def pair_corpus() -> list[bytes]:
    """What the two gateways of a domain say to each other."""
    beat = Heartbeat(kind=HeartbeatKind.REGULAR, sequence=3, sent=1.0, received=0)
    return [
        word_record(PairHello(federation="test", topology="x", domain="b", number=1)),
        word_record(Beat(role=Role.ACTIVE, epoch=7, heartbeat=beat)),
        word_record(PairGoodbye(ending=Ending.STOPS)),
        record(RecordKind.NAMES, bytes(range(44))),
        record(RecordKind.INTEREST, msgspec.msgpack.encode({"origin": "a", "epoch": 1, "version": 2})),
        record(RecordKind.DIGEST, msgspec.msgpack.encode({"known": {"a": [1, 2]}})),
    ]


def resident_mb() -> float:
    """Memory of this process that is in use."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * PAGE_BYTES / (1 << 20)


if __name__ == "__main__":
    sys.stdout.write(msgspec.json.encode(run(int(sys.argv[1]), int(sys.argv[2]))).decode() + "\n")
