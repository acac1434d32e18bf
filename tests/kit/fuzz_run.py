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
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec
from tests.kit.frame_corpus import recorded
from tests.kit.fuzz_doors import GreetingTarget, HandshakeTarget, SealedTarget
from tests.kit.fuzz_targets import BodyTarget, LinkTarget, PairTarget, body_corpus
from tests.kit.mutation import Mutator, Wrap, load_corpus
from tests.kit.mutation_with_keys import KeyedMutator

from mangrove.overlay.pair.messages import (
    Beat,
    Ending,
    PairGoodbye,
    PairHello,
    RecordKind,
    RecordReader,
    Role,
    record,
    word_record,
)
from mangrove.overlay.protocol.control_messages import Heartbeat, HeartbeatKind
from mangrove.overlay.protocol.frames import FrameType

WARM_UP_SHARE = 0.2
"""Memory is compared from here on: tables fill up to their limits first."""
SHARES = {
    "link": 0.3,
    "secured link": 0.36,
    "greeting": 0.08,
    "handshake": 0.01,
    "pair": 0.08,
    "body": 0.11,
    "sealed": 0.06,
}
KINDS = [
    kind.name for kind in FrameType if kind not in (FrameType.GOODBYE, FrameType.HELLO, FrameType.RENEWAL)
]
"""Of frames that the engine hears on a link that goes on."""
DEPTH = {
    "link": [*KINDS, "delivered", "sent on", "no frame", "no sense in it"],
    "secured link": [
        *KINDS,
        "delivered",
        "sent on",
        *(f"{what} {how}" for what in ("signature", "tag") for how in ("good", "wrong")),
    ],
    "greeting": ["a frame", "greeted", "refused"],
    "handshake": ["HANDSHAKE", "NO_TLS", "answered", "waits for more"],
    "pair": ["HELLO", "BEAT", "NAMES", "INTEREST", "DIGEST", "GOODBYE", "refused"],
    "body": ["written"],
    "sealed": ["opened", "BROKEN", "MALFORMED", "NOT_FOR_US", "ORIGIN_KEY_UNKNOWN", "OWN_KEY_UNKNOWN"],
}
"""Outcomes that must come about, by target."""
MIN_SHARE = 0.0005
PAGE_BYTES = os.sysconf("SC_PAGESIZE")


class Target(Protocol):
    """Something that takes input."""

    outcomes: Counter[str]

    def take(self, data: bytes) -> None: ...

    def look(self) -> None: ...

    def fill(self) -> None: ...


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
    frames = [*load_corpus(), *said_today()]
    secured, greeting, handshake = LinkTarget(secured=True), GreetingTarget(), HandshakeTarget()
    sealed = SealedTarget(seed)
    keyed = KeyedMutator(frames, seed + 3, secured.authority, secured.engine.federation.name)
    targets: dict[str, tuple[Target, Mutator]] = {
        "link": (LinkTarget(), Mutator(frames, seed)),
        "secured link": (secured, keyed),
        "greeting": (greeting, Mutator(greeting.corpus(), seed + 4)),
        "handshake": (handshake, Mutator(handshake.corpus(), seed + 5)),
        "pair": (PairTarget(), Mutator(pair_corpus(), seed + 1, pair_bodies())),
        "body": (BodyTarget(), Mutator(body_corpus(), seed + 2)),
        "sealed": (sealed, Mutator(sealed.corpus(), seed + 6)),
    }
    before_level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # a line for each of them takes longer than all else
    try:
        return _measured(targets, seed, count)
    finally:
        logging.disable(before_level)


def _measured(targets: dict[str, tuple[Target, Mutator]], seed: int, count: int) -> FuzzReport:
    began = time.perf_counter()
    counts = counts_of(count)
    warm = {name: int(WARM_UP_SHARE * number) for name, number in counts.items()}
    for target, _ in targets.values():
        target.fill()
    _throw(targets, warm, seed)
    before_mb = resident_mb()
    _throw(targets, {name: number - warm[name] for name, number in counts.items()}, seed)
    return FuzzReport(
        seed=seed,
        inputs=sum(counts_of(count).values()),
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


def counts_of(count: int) -> dict[str, int]:
    """How many inputs each target gets of so many."""
    counts = {name: round(share * count) for name, share in SHARES.items()}
    counts["link"] += count - sum(counts.values())
    return counts


def reached(reports: Sequence[FuzzReport]) -> dict[str, Counter[str]]:
    """How often each outcome was, by target, in all runs."""
    found: dict[str, Counter[str]] = {}
    for report in reports:
        for name, outcomes in report.outcomes.items():
            found.setdefault(name, Counter()).update(outcomes)
    return found


def depth(reports: Sequence[FuzzReport]) -> str:
    """How deep inputs got: for each target how many of them had which outcome."""
    inputs = counts_of(sum(report.inputs for report in reports))
    lines = []
    for name, outcomes in reached(reports).items():
        shares = [f"{what} {100 * times / inputs[name]:.2f} %" for what, times in outcomes.most_common()]
        lines.append(f"{name} ({inputs[name]:,} inputs): {', '.join(shares)}")
    return "\n".join(lines)


def shallow(reports: Sequence[FuzzReport]) -> list[str]:
    """What was hardly reached, of all that a gateway reads: each kind, and beyond each check."""
    share = {name: SHARES[name] * sum(report.inputs for report in reports) for name in SHARES}
    found = reached(reports)
    return [
        f"{name}: {what} ({found[name][what]} times)"
        for name, expected in DEPTH.items()
        for what in expected
        if found[name][what] < MIN_SHARE * share[name]
    ]


def said_today() -> list[bytes]:
    """What gateways say as they are: what was kept of earlier ones may be refused at the greeting."""
    return [frame for frames in recorded().values() for frame in frames]


def pair_corpus() -> list[bytes]:
    """What the two gateways of a domain say to each other."""
    beat = Heartbeat(kind=HeartbeatKind.REGULAR, sequence=3, sent=1.0, received=0)
    update = {"origin": "a", "epoch": 1, "version": 2, "snapshot": True, "added": ["x.>"]}
    return [
        word_record(PairHello(federation="test", topology="x", domain="b", number=1)),
        word_record(Beat(role=Role.ACTIVE, epoch=7, heartbeat=beat)),
        word_record(PairGoodbye(ending=Ending.STOPS)),
        record(RecordKind.NAMES, bytes(range(44))),
        record(RecordKind.INTEREST, msgspec.msgpack.encode(update)),
        record(RecordKind.DIGEST, msgspec.msgpack.encode({"known": {"a": [1, 2]}})),
    ]


def pair_bodies() -> list[tuple[Wrap, object]]:
    """The same, as values that are put into records again."""
    found: list[tuple[Wrap, object]] = []
    for each in pair_corpus():
        ((kind, body),) = RecordReader().feed(each)
        if kind is not RecordKind.NAMES:
            found.append((partial(record, kind), msgspec.msgpack.decode(body)))
    return found


def resident_mb() -> float:
    """Memory of this process that is in use."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * PAGE_BYTES / (1 << 20)


if __name__ == "__main__":
    sys.stdout.write(msgspec.json.encode(run(int(sys.argv[1]), int(sys.argv[2]))).decode() + "\n")
