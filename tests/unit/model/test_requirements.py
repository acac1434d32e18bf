"""What a contract asks and does not get, in words."""

from __future__ import annotations

import math

from mangrove.model.status import Requirement


def test_a_deadline_that_no_way_meets_is_told_without_a_delay() -> None:
    late = Requirement(name="deadline_ms", asked=500.0, achieved=620.0, inside_ms={"tokyo": 90.0})
    assert (
        late.sentence()
        == "best achievable delay is 620.0 ms, the deadline 500 ms, 90.0 ms of it inside tokyo"
    )
    nowhere = Requirement(name="deadline_ms", asked=500.0, achieved=math.inf, inside_ms={"tokyo": 90.0})
    assert nowhere.sentence() == "no way meets the deadline of 500 ms"
    assert not nowhere.met
