"""Figures that a control message may not carry."""

from __future__ import annotations

import math

import msgspec
import pytest

from mangrove.overlay.protocol.control_messages import (
    control_body,
)
from mangrove.overlay.protocol.frames import Frame, FrameError, FrameType


@pytest.mark.parametrize(
    "wrong", [{"delay_ms": -1.0}, {"delay_ms": math.nan}, {"waits_ms": {0: math.inf}}, {"availability": 2.0}]
)
def test_impossible_figures_are_refused(wrong: dict[str, object]) -> None:
    told = {"up": True, "delay_ms": 1.0, **wrong}
    body = {"type": "ad", "origin": "b", "epoch": 1, "sequence": 1, "links": {"a": told}}
    with pytest.raises(FrameError, match="malformed"):
        control_body(Frame(FrameType.LINK_STATE, msgspec.msgpack.encode(body)))


@pytest.mark.parametrize(
    "asks",
    [
        {0: {"deadline_ms": 0.0}},
        {0: {"deadline_ms": math.nan}},
        {0: {"paths": 0}},
        {0: {"paths": 65}},
        {0: {"resiliency": 1.0}},
        {0: {"resiliency": math.nan}},
        {"x": {"paths": 2}},
        {key: {"paths": 2} for key in range(1025)},
    ],
)
def test_impossible_asks_are_refused(asks: dict[object, object]) -> None:
    body = {"type": "ad", "origin": "b", "epoch": 1, "sequence": 1, "links": {}, "asks": asks}
    with pytest.raises(FrameError, match="malformed"):
        control_body(Frame(FrameType.LINK_STATE, msgspec.msgpack.encode(body)))
