"""`mangrove audit`: what was done and by whom, and whether the log is whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mangrove.cli.main import app
from mangrove.host.audit.audit_file import AuditFile
from mangrove.host.audit.operator_audit import OPERATOR, run_of_keys
from mangrove.host.audit.reading import read_chain
from mangrove.host.run_directory import RunDirectory
from mangrove.model.audit.entry import AuditKind

FILE = """
federation: ring
domains: {a: {}, b: {}}
links: [{between: [a, b]}]
security: keys
"""


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """The log of a gateway that refused somebody three times."""
    made = RunDirectory(tmp_path / "ring")
    with AuditFile(made.audit_of("a-gateway"), "a-gateway") as file:
        file.write(AuditKind.LINK_OPENED, {"peer": "b"})
        file.write(AuditKind.CONNECTION_REFUSED, {"who": "10.0.0.9", "reason": "no TLS"}, times=3)
    return made


def told(run: RunDirectory, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["audit", *arguments, "--run-dir", str(run.path)])
    return result.exit_code, result.stdout


def test_show_tells_what_happened_and_how_often(run: RunDirectory) -> None:
    code, text = told(run, "show")
    assert code == 0
    assert "3 times" in text
    assert "10.0.0.9" in text
    code, text = told(run, "show", "--kind", "link opened", "--json")
    assert [entry["facts"] for entry in json.loads(text)] == [{"peer": "b"}]


def test_what_is_not_there_is_said(run: RunDirectory) -> None:
    result = CliRunner().invoke(app, ["audit", "show", "--kind", "x", "--run-dir", str(run.path)])
    assert "no kind of entry" in str(result.exception)
    result = CliRunner().invoke(app, ["audit", "show", "--run-dir", str(run.path / "nowhere")])
    assert "no audit log" in str(result.exception)


def test_verify_says_whole_or_broken_by_its_exit_code(run: RunDirectory, tmp_path: Path) -> None:
    assert told(run, "verify")[0] == 0
    code, text = told(run, "heads", "--json")
    assert code == 0
    heads = tmp_path / "heads.json"
    heads.write_text(text)
    log = run.audit_of("a-gateway")
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(lines[0])
    assert told(run, "verify")[0] == 0, "a cut end shows by heads alone"
    code, text = told(run, "verify", "--against", str(heads))
    assert code == 1
    assert "shortened" in text
    log.write_bytes(lines[0].replace(b'"b"', b'"c"') + lines[1])
    code, text = told(run, "verify", "--json")
    assert code == 1
    assert json.loads(text)["whole"] is False


def test_what_is_done_with_keys_is_written_down_without_a_secret(tmp_path: Path) -> None:
    file, keys = tmp_path / "ring.yaml", tmp_path / "keys"
    file.write_text(FILE)
    commands = [
        ["init", str(file)],
        ["issue", str(file), "sensor", "--domain", "a"],
        ["rotate", str(file), "--domain", "b"],
        ["export", str(file), "--domain", "a", "--to", str(tmp_path / "a.tar")],
        ["revoke", str(file), "--domain", "a", "--client", "sensor"],
    ]
    for command in commands:
        result = CliRunner().invoke(app, ["keys", *command, "--keys", str(keys)])
        assert result.exit_code == 0, result.output
    entries = read_chain(run_of_keys(keys), OPERATOR)
    assert [entry.kind for entry in entries] == [
        AuditKind.KEYS_MADE,
        AuditKind.KEY_ISSUED,
        AuditKind.KEY_ROTATED,
        AuditKind.KEYS_EXPORTED,
        AuditKind.KEY_REVOKED,
    ]
    assert all(entry.facts["by"] for entry in entries)
    written = run_of_keys(keys).audit_of(OPERATOR).read_bytes()
    for path in keys.rglob("*"):
        if path.suffix in (".nk", ".key") or path.name in ("key.pem", "password"):
            assert not any(line in written for line in path.read_bytes().split() if len(line) > 20)
