"""Which limits of an agent a client believes."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping

import pytest

from mangrove.client.management.ordered_limits import OrderedLimits
from mangrove.model.agents.registration import MAX_WISHES
from mangrove.model.agents.usefulness import LimitsOrdered
from mangrove.model.congestion.rate_limit import RateLimit

SLOW = {"a": RateLimit(msg_s=5.0)}


class Put:
    def __init__(self) -> None:
        self.limits: list[Mapping[str, RateLimit]] = []
        self.lifted = asyncio.Event()

    def __call__(self, limits: Mapping[str, RateLimit]) -> None:
        self.limits.append(limits)
        if not limits:
            self.lifted.set()


async def test_newer_limits_replace_older_ones() -> None:
    put, ordered = Put(), OrderedLimits()
    ordered.begin(put)
    assert ordered.ordered(LimitsOrdered(term=1, epoch=4, limits=SLOW)) == ""
    assert ordered.ordered(LimitsOrdered(term=1, epoch=3)) == "older limits"
    assert ordered.ordered(LimitsOrdered(term=1, epoch=4, limits=SLOW)) == "", "said again, it holds on"
    assert ordered.ordered(LimitsOrdered(term=2, epoch=1)) == "", "another agent counts anew"
    assert ordered.ordered(LimitsOrdered(term=1, epoch=9, limits=SLOW)) == "older limits"
    assert put.limits == [SLOW, SLOW, {}]
    assert ordered.epoch == 1
    ordered.close()


@pytest.mark.parametrize(
    "order",
    [
        LimitsOrdered(term=1, epoch=1, limits={"a": RateLimit(msg_s=math.nan)}),
        LimitsOrdered(term=1, epoch=1, limits={"a": RateLimit(msg_s=-1.0)}),
        LimitsOrdered(term=1, epoch=1, limits={"a": RateLimit(bytes_s=math.inf)}),
        LimitsOrdered(term=1, epoch=0, limits=SLOW),
        LimitsOrdered(term=1, epoch=1, limits={str(n): RateLimit() for n in range(MAX_WISHES + 1)}),
    ],
)
async def test_impossible_limits_are_ignored(order: LimitsOrdered) -> None:
    put, ordered = Put(), OrderedLimits()
    ordered.begin(put)
    assert ordered.ordered(order) == "impossible figures"
    assert put.limits == []
    assert ordered.epoch == 0


async def test_limits_that_nobody_says_again_lapse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mangrove.client.management.ordered_limits.LIMITS_VALID_S", 0.01)
    put, ordered = Put(), OrderedLimits()
    ordered.begin(put)
    ordered.ordered(LimitsOrdered(term=1, epoch=1, limits=SLOW))
    await asyncio.wait_for(put.lifted.wait(), 10)
    assert put.limits == [SLOW, {}]
    assert ordered.epoch == 0
    assert ordered.ordered(LimitsOrdered(term=1, epoch=1, limits=SLOW)) == "", "the same may come again"
    ordered.close()
