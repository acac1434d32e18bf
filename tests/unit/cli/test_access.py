"""`mangrove access`: what it says, and what it refuses to guess."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mangrove.cli.main import app
from mangrove.errors import InputError, InvalidDocumentError

FILE = """
federation: two
domains: {seattle: , denver: }
links: [{between: [seattle, denver]}]
access:
  - {who: {client: guest}, may_not: [publish], subjects: ["alert.>"]}
  - {who: {domain: seattle}, may_not: publish, subjects: ["alert.test.>"], to: denver}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "federation.yaml"
    path.write_text(FILE)
    return path


def run(*words: str) -> str:
    result = CliRunner().invoke(app, ["access", *words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_explain_names_what_decides_at_each_place(file: Path) -> None:
    said = run("explain", "seattle/guest", "alert.test.x", "--to", "denver", "--file", str(file))
    for word in ("brokers of seattle", "gateway of denver", "refused by access[0]", "refused by access[1]"):
        assert word in said
    assert max(map(len, said.splitlines())) <= 80


def test_explain_in_json(file: Path) -> None:
    said = json.loads(run("explain", "anna", "alert.x", "--domain", "denver", "--file", str(file), "--json"))
    assert (said["client"], said["domain"], said["roles"]) == ("anna", "denver", ["client"])
    assert {step["answer"] for step in said["steps"]} == {"yes"}


def test_explain_knows_the_role_that_a_key_gives(file: Path, tmp_path: Path) -> None:
    rules = FILE.replace("access:\n", "access:\n  roles: {sensor: []}\n  rules:\n").replace(
        "\n  - ", "\n    - "
    )
    file.write_text(rules + '    - {who: {role: sensor}, may_not: subscribe, subjects: ["alert.>"]}\n')
    keys = tmp_path / "keys"
    words = ("explain", "denver/buoy", "alert.x", "--file", str(file), "--keys", str(keys), "--json")
    assert json.loads(run(*words))["roles"] == ["client"], "there are no keys yet"
    assert json.loads(run(*words, "--role", "sensor"))["roles"] == ["sensor"]
    for command in (
        ("init", str(file)),
        ("issue", str(file), "buoy", "--domain", "denver", "--role", "sensor"),
    ):
        result = CliRunner().invoke(app, ["keys", *command, "--keys", str(keys)], catch_exceptions=False)
        assert result.exit_code == 0
    said = json.loads(run(*words))
    assert said["roles"] == ["sensor"]
    assert "refused by access.rules[2]" in {step["reason"] for step in said["steps"]}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("anna", "x"), "of which domain is 'anna'?"),
        (("boston/anna", "x"), "there is no domain 'boston'"),
        (("denver/anna", "x", "--domain", "seattle"), "the client is of 'denver', not of 'seattle'"),
        (("denver/anna", "x", "--to", "denver"), "'denver' is no other domain"),
        (("denver/anna", "x..y"), "'x..y' is no subject"),
        (("denver/anna", "x", "--role", "gateway"), "there is no role 'gateway'"),
    ],
)
def test_what_cannot_be_explained_is_told(file: Path, words: tuple[str, ...], problem: str) -> None:
    with pytest.raises(InputError, match=problem.replace("?", r"\?").replace("..", r"\.\.")):
        run("explain", *words, "--file", str(file))


def test_check_counts_rules_and_names_what_has_no_effect(file: Path) -> None:
    assert run("check", str(file)).startswith("2 rules, none of which contradicts another; what no rule")
    file.write_text(FILE + "  - {may: subscribe, subjects: [x]}\n")
    said = json.loads(run("check", str(file), "--json"))
    assert (said["rules"], len(said["warnings"])) == (3, 1)
    file.write_text(FILE + '  - {who: {client: guest}, may: [publish], subjects: ["alert.x"]}\n')
    with pytest.raises(
        InvalidDocumentError, match=r"access\[2\].subjects\[0\]: is allowed here and forbidden"
    ):
        run("check", str(file))
