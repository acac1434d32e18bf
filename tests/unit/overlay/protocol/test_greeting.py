"""Who may be a peer, and what strangers are told."""

from __future__ import annotations

import pytest
from tests.kit.engines import engine, federation

from mangrove.overlay.protocol.control_messages import (
    Hello,
    control_frame,
)
from mangrove.overlay.protocol.frames import (
    PROTOCOL_VERSION,
    Frame,
    FrameError,
    FrameType,
)


def test_a_peer_of_the_same_federation_is_greeted() -> None:
    shape = federation(("a", "b"))
    assert engine(shape, "a").greet(engine(shape, "b").hello(), None).domain == "b"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"protocol": 99}, "protocol 99"),
        ({"federation": "other"}, "federation 'other'"),
        ({"topology": "0" * 24}, "another federation file"),
        ({"domain": "c"}, "no link between 'a' and 'c'"),
        ({"domain": "a"}, "claims to be 'a'"),
    ],
)
def test_strangers_are_refused_with_the_reason(change: dict[str, object], reason: str) -> None:
    shape = federation(("a", "b"), ("b", "c"))
    fields: dict[str, object] = {
        "protocol": PROTOCOL_VERSION,
        "federation": "test",
        "topology": shape.topology_hash(),
        "domain": "b",
        "epoch": 1,
    } | change
    with pytest.raises(FrameError, match=reason):
        engine(shape, "a").greet(control_frame(Hello(**fields)), None)  # type: ignore[arg-type]


def test_the_called_domain_must_answer() -> None:
    shape = federation(("a", "b"), ("a", "c"))
    with pytest.raises(FrameError, match="called 'b', but 'c' answered"):
        engine(shape, "a").greet(engine(shape, "c").hello(), "b")
    with pytest.raises(FrameError, match="began with a DATA frame"):
        engine(shape, "a").greet(Frame(FrameType.DATA), None)
