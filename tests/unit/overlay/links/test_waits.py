"""How long frames wait for a link."""

from __future__ import annotations

import pytest

from mangrove.overlay.links.waits import Waits


def test_waits_follow_time_not_the_number_of_frames() -> None:
    few, many = Waits(), Waits()
    for _ in range(40):
        few.note(0, 0.2)
        for _ in range(50):
            many.note(0, 0.2)
        few.settle()
        many.settle()
    assert few.noticeable_ms() == many.noticeable_ms()
    assert few.noticeable_ms()[0] == pytest.approx(200, rel=0.01)
    for _ in range(60):
        few.settle()
    assert few.noticeable_ms() == {}, "nothing waits any more"
