"""Mutated frames, handshakes and control messages: refused or read, never a crash, nothing unbounded.

`make soak` tries ten million others (tests/attacks/test_mutation_soak.py).
"""

from __future__ import annotations

from tests.kit.frame_corpus import kind_of
from tests.kit.fuzz_run import run, said_today, shallow
from tests.kit.mutation import load_corpus

from mangrove.overlay.protocol.control_messages import ControlBody
from mangrove.overlay.protocol.frames import FrameDecoder

INPUTS = 100_000
SEED = 16


def test_a_hundred_thousand_mutated_inputs_break_nothing() -> None:
    report = run(SEED, INPUTS)
    assert report.inputs == INPUTS
    assert report.outcomes["secured link"]["LINK_STATE"] > 100
    link = report.outcomes["link"]
    assert min(link["refused"], link["not greeted"], link["greeted"], link["sent on"]) > 10, link
    assert report.outcomes["body"]["written"] > 100
    assert report.outcomes["pair"]["refused"] > 100
    assert not shallow([report])


def test_the_corpus_has_everything_that_gateways_say() -> None:
    kinds = {kind_of(frame) for encoded in said_today() for frame in FrameDecoder().feed(encoded)}
    expected = {each.__name__ for each in ControlBody.__args__}
    assert expected <= kinds, f"have tests/kit/frame_corpus.py say {sorted(expected - kinds)}, too"
    assert {"DATA", "JOBS", "PIECE", "MANAGEMENT"} <= kinds
    assert load_corpus(), "what was kept is tried as well"
