"""Groups of topics."""

from __future__ import annotations

import pytest

from mangrove.errors import InvalidDocumentError
from mangrove.pipelines.rates.items import read_groups


def test_bad_groups_are_refused_all_at_once() -> None:
    with pytest.raises(InvalidDocumentError, match="2 mistakes"):
        read_groups({"a": [], "b": ["x..y"], "c": ["fine.>"]}, "groups.json")
