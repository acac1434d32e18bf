"""How much of the time a link was up."""

from __future__ import annotations

import pytest

from mangrove.overlay.links.availability import Availability


def test_availability_forgets_slowly() -> None:
    link = Availability()
    link.change(up=False, now=0.0)
    assert link.share(100.0) == 1.0, "a link that was never up has no history"
    link.change(up=True, now=100.0)
    link.change(up=False, now=200.0)
    link.change(up=True, now=236.0)
    assert link.share(236.0) == pytest.approx(0.99, abs=1e-3), "a hundredth of an hour"
    assert link.share(236.0 + 5 * 3600) == pytest.approx(1.0, abs=1e-3)
