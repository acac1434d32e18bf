"""Settings for all tests: hypothesis prints what is needed to repeat a failure; no process is left behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from tests.kit.leftovers import leftovers

settings.register_profile("mangrove", deadline=None, print_blob=True)
settings.load_profile("mangrove")


@pytest.fixture(autouse=True, scope="module")
def nothing_left_behind() -> Iterator[None]:
    """After each module none of our processes runs below this one."""
    yield
    assert not (left := leftovers()), f"still running: {left}"
