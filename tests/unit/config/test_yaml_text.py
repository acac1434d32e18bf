"""YAML that cannot be read, or stands for more than can be, is told with its place."""

from __future__ import annotations

import pytest

from mangrove.config import parse_federation
from mangrove.config.contract_text import checked_contracts, read_terms
from mangrove.config.found import found_text
from mangrove.config.yaml_text import read_yaml
from mangrove.errors import InvalidDocumentError


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: 1\nb: \x01", "line 2, column 4", "the character U+0001"),
        ("\0", "line 1, column 1", "the character U+0000"),
        ("security: 2026-13-45", "line 1, column 11", "'2026-13-45' is not a date"),
        ("a: " + "9" * 5000, "line 1, column 4", "is not a whole number that can be read"),
        ("a: 0x" + "f" * 5000, "line 1, column 4", "is not a whole number that can be read"),
        ("a: 0x_", "line 1, column 4", "'0x_' is not a whole number"),
        ("a: !!int abc", "line 1, column 4", "'abc' is not a whole number"),
        ("a: !!int ''", "line 1, column 4", "'' is not a whole number"),
        ("a: !!bool abc", "line 1, column 4", "'abc' is not true or false"),
        ("a: !!timestamp abc", "line 1, column 4", "'abc' is not a date"),
        ("a: !!map [b]", "line 1, column 4", "expected a mapping"),
        ("[" * 900, "line 1", "values in values without end"),
        ("a: &a [1, *a]", "line 1, column 11", "within what it stands for"),
    ],
)
def test_what_cannot_be_read_has_a_place(text: str, place: str, words: str) -> None:
    document, (mistake,) = read_yaml(text)
    assert document is None
    assert mistake.path.startswith(place)
    assert words in mistake.problem


def bomb(levels: int) -> str:
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


def test_aliases_stand_for_so_much_and_no_more() -> None:
    document, mistakes = read_yaml(bomb(4))
    assert mistakes == []
    assert document["l3"][8][8][8][8] == "x"
    (mistake,) = parse_federation(bomb(9) + "federation: *l8\n", "bomb.yaml").mistakes
    assert mistake.path.startswith("line 7")
    assert "more than 1,000,000 values" in mistake.problem


def test_an_alias_of_a_contract_stays_possible() -> None:
    document, mistakes = read_yaml("a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}\n")
    assert (document, mistakes) == ({"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2}}, [])


def test_what_was_found_is_told_in_few_words() -> None:
    assert found_text({"a": [1, "b"]}) == "{'a': [1, 'b']}"
    deep: object = "x"
    for _ in range(20):
        deep = [deep] * 9
    assert len(found_text(deep)) < 100_000
    given = read_terms(["paths=[" + "[1, 2, 3, 4, 5, 6, 7, 8, 9], " * 9 + "]"])
    federation = parse_federation("federation: f\ndomains: {a: {}}\nsecurity: none\n", "file").require()
    with pytest.raises(InvalidDocumentError, match=r"\.\.\.") as caught:
        checked_contracts(federation, (), {"match": "x", **given})
    assert caught.value.mistakes[0].path == "paths"
    (mistake,) = parse_federation(f"federation: {list(range(50))}\ndomains: {{a: {{}}}}\n", "f").mistakes
    assert "..." in mistake.problem
