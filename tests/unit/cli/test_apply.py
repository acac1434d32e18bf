"""What a file may not change in a federation that runs."""

from __future__ import annotations

import pytest

from mangrove.cli.versions.apply import fixed_mistakes
from mangrove.config import parse_federation

FILE = """
federation: f
domains: {a: {}, b: {}, c: {}}
links: [{between: [a, b], delay_ms: 5}, {between: [b, c]}]
security: none
topics: [{match: x}]
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("federation: f", "federation: other", "'other' is another federation"),
        ("delay_ms: 5", "delay_ms: 6", "delays of links"),
        (", {between: [b, c]}", ", {between: [a, c]}", "links cannot come or go"),
        ("c: {}}", "c: {}, d: {}}", "cannot join"),
        ("topics:", "limits: {subjects: 5}\ntopics:", "limits cannot change"),
        ("topics:", "access: {default: deny}\ntopics:", "access rules cannot change"),
    ],
)
def test_what_needs_a_restart_is_told_with_its_place(old: str, new: str, said: str) -> None:
    running = parse_federation(FILE, "file").require()
    text = FILE.replace(old, new)
    if "d: {}" in text:
        text = text.replace("[{between: [a, b]", "[{between: [c, d]}, {between: [a, b]")
    found = fixed_mistakes(running, parse_federation(text, "file").require())
    assert said in "; ".join(map(str, found))


def test_contracts_may_change() -> None:
    running = parse_federation(FILE, "file").require()
    wanted = parse_federation(FILE.replace("match: x", "match: y, paths: 2"), "file").require()
    assert fixed_mistakes(running, wanted) == []
