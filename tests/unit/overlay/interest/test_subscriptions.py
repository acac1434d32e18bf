"""What a gateway asks of its head broker, for all domains together."""

from __future__ import annotations

from tests.kit.engines import engine, federation, learn

from mangrove.overlay.instructions import (
    ChangeSubscriptions,
    ForgetRoutes,
)
from mangrove.overlay.protocol.control_messages import (
    InterestUpdate,
    control_frame,
)


def test_subscriptions_are_shared_between_domains() -> None:
    shape = federation(("a", "b"), ("a", "c"))
    hub = engine(shape, "a")
    assert ChangeSubscriptions(("x",), ()) in learn(hub, "b", ["x"], "b")
    assert ForgetRoutes(("x",)) in learn(hub, "c", ["x"], "c")
    gone = InterestUpdate(origin="b", epoch=1, version=2, snapshot=False, added=[], removed=["x"])
    assert ForgetRoutes(("x",)) in hub.receive("b", control_frame(gone), 1.0)
    gone = InterestUpdate(origin="c", epoch=1, version=2, snapshot=False, added=[], removed=["x"])
    assert ChangeSubscriptions((), ("x",)) in hub.receive("c", control_frame(gone), 1.0)
    assert hub.wanted_elsewhere() == []
