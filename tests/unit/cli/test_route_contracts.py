"""`mangrove route contracts`: promises that the network cannot keep are known before anything starts."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from mangrove.cli.main import app

FEDERATION = """
federation: square
domains: {a: {}, b: {}, c: {}, d: {}}
links:
  - {between: [a, b], delay_ms: 5, failure_probability: 0.01}
  - {between: [b, c], delay_ms: 5, failure_probability: 0.01}
  - {between: [c, d], delay_ms: 5, failure_probability: 0.01}
  - {between: [d, a], delay_ms: 5, failure_probability: 0.01}
topics:
  - {match: sure, resiliency: %s}
  - {match: home, paths: 2, scope: domain}
"""


def run(tmp_path: Path, resiliency: str, *options: str) -> tuple[int, str]:
    file = tmp_path / "square.yaml"
    file.write_text(FEDERATION % resiliency)
    result = CliRunner().invoke(app, ["route", "contracts", str(file), *options])
    return result.exit_code, result.stdout


def test_what_can_be_given_is_told_with_its_paths(tmp_path: Path) -> None:
    code, text = run(tmp_path, "0.999", "--json")
    document = json.loads(text)
    assert (code, document["unmet"], len(document["contracts"])) == (0, 0, 12)
    first = document["contracts"][0]
    assert (first["topic"], first["from"], first["to"]) == ("sure", "a", "b")
    assert first["paths"] == [["a", "b"], ["a", "d", "c", "b"]]
    (promise,) = first["requirements"]
    assert promise["asked"] == 0.999
    assert promise["met"]
    assert 0.9995 < promise["achieved"] < 0.9998


def test_what_cannot_be_given_is_told_with_the_best_there_is(tmp_path: Path) -> None:
    code, text = run(tmp_path, "0.9999")
    assert code == 1
    assert "Cannot be met" in text
    words = " ".join(text.replace("│", " ").split())
    assert "0.9999 is promised" in words
