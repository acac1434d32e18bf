"""Contracts that are given one by one."""

from __future__ import annotations

import pytest

from mangrove.config import parse_federation
from mangrove.config.contract_text import checked_contracts, read_terms, terms_of
from mangrove.errors import InputError
from mangrove.model.federation import Federation
from mangrove.model.topics import Contract, SessionLimits

FILE = """
federation: f
domains: {a: {}, b: {}}
links: [{between: [a, b]}]
security: none
topics:
  - {match: "alert.fire", paths: 2}
  - {match: "alert.>", deadline_ms: 100, limits: {deadline_ms: 50}}
"""


def federation() -> Federation:
    return parse_federation(FILE, "file").require()


def test_a_contract_is_set_in_its_place_or_where_it_governs_something() -> None:
    before = federation().topics.contracts
    changed = checked_contracts(federation(), before, {"match": "alert.>", **read_terms(["deadline_ms=7"])})
    assert changed == (before[0], Contract(match="alert.>", deadline_ms=7.0))
    narrower = checked_contracts(federation(), before, {"match": "alert.flood"})
    assert [each.match for each in narrower] == ["alert.fire", "alert.flood", "alert.>"]
    other = checked_contracts(federation(), before, {"match": "other"})
    assert [each.match for each in other] == ["alert.fire", "alert.>", "other"]


def test_values_are_read_as_in_a_file() -> None:
    assert read_terms(["paths=2", "late=drop", "protected=true", "limits={deadline_ms: 5}"]) == {
        "paths": 2,
        "late": "drop",
        "protected": True,
        "limits": {"deadline_ms": 5},
    }
    assert terms_of(Contract(match="x", paths=2, limits=SessionLimits(paths=3))) == {
        "match": "x",
        "paths": 2,
        "limits": {"paths": 3},
    }


@pytest.mark.parametrize(
    ("match", "pairs", "said"),
    [
        ("a..b", [], "match"),
        ("a", ["paths=99"], "paths"),
        ("a", ["colour=red"], "colour"),
        ("a", ["nonsense"], "is not key=value"),
        ("a", ["deadline_ms=-1"], "deadline_ms"),
        ("a", ["confidential=true"], "nothing can be sealed without keys"),
        ("a", ["apart_from=[nowhere]", "separation_km=5"], "there is no region and no contract"),
        ("a", ["late={"], "late"),
    ],
)
def test_mistakes_are_told_with_their_place(match: str, pairs: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        checked_contracts(federation(), federation().topics.contracts, {"match": match, **read_terms(pairs)})
