"""Mutated frames, handshakes and control messages: refused or read, never a crash, nothing unbounded.

`make soak` tries ten million others (tests/attacks/test_mutation_soak.py).
"""

from __future__ import annotations

from tests.kit.frame_corpus import kind_of
from tests.kit.fuzz_run import run
from tests.kit.mutation import load_corpus

from mangrove.overlay.protocol.frames import FrameDecoder, FrameError, FrameType

INPUTS = 100_000
SEED = 16


def test_a_hundred_thousand_mutated_inputs_break_nothing() -> None:
    report = run(SEED, INPUTS)
    assert report.inputs == INPUTS
    link = report.outcomes["link"]
    assert min(link["refused"], link["not greeted"], link["greeted"], link["sent on"]) > 50, link
    for kind in FrameType:
        if kind not in (FrameType.GOODBYE, FrameType.HELLO):  # they end a link, so that they are refused
            assert link[kind.name] > 100, f"hardly any {kind.name} got through: {link}"
    assert report.outcomes["body"]["written"] > 100
    assert report.outcomes["pair"]["refused"] > 100


def test_the_corpus_has_everything_that_gateways_say() -> None:
    kinds = set()
    for encoded in load_corpus():
        try:
            kinds |= {kind_of(frame) for frame in FrameDecoder().feed(encoded)}
        except FrameError:
            continue  # one that once broke something
    assert {"DATA", "JOBS", "PIECE", "MANAGEMENT", "Hello", "Heartbeat", "LinkStateAd", "RouteSetup"} <= kinds
    assert len(kinds) > len(FrameType)
