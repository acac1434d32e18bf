"""`mangrove spool`: what waits on disk is shown, and given up when that is wished."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mangrove.cli.main import app
from mangrove.client.offline.kept import Kept
from mangrove.client.offline.spool import Spool
from mangrove.errors import InputError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    spool = Spool(tmp_path / "kept", 1 << 20)
    for number in range(1, 6):
        spool.keep(Kept(number, number * 1_000_000_000, f"sensor.{number % 2}", bytes(100)))
    spool.close()
    return tmp_path / "kept"


def told(*arguments: str, given: str = "") -> tuple[int, str]:
    result = CliRunner().invoke(app, ["spool", *arguments], input=given)
    if isinstance(result.exception, InputError):
        raise result.exception
    return result.exit_code, result.stdout


def test_what_waits_is_shown_by_subject(folder: Path) -> None:
    code, out = told("show", str(folder), "--json")
    document = json.loads(out)
    assert code == 0
    assert (document["messages"], document["payload_bytes"], document["in_use"]) == (5, 500, False)
    assert document["subjects"]["sensor.1"] == {
        "messages": 3,
        "payload_bytes": 300,
        "oldest": 1.0,
        "newest": 5.0,
    }
    code, out = told("show", str(folder))
    assert "5 messages" in out
    assert "sensor.0" in out


def test_some_or_all_are_given_up_after_a_question(folder: Path) -> None:
    assert told("drop", str(folder), given="n\n")[0] == 1
    assert json.loads(told("show", str(folder), "--json")[1])["messages"] == 5
    code, out = told("drop", str(folder), "--subject", "sensor.1", "--force", "--json")
    assert (code, json.loads(out)) == (0, {"dropped": 3, "left": 2})
    assert told("drop", str(folder), given="y\n")[0] == 0
    assert json.loads(told("show", str(folder), "--json")[1])["messages"] == 0


def test_a_folder_in_use_or_not_there_is_said(folder: Path, tmp_path: Path) -> None:
    spool = Spool(folder, 1 << 20)
    try:
        assert json.loads(told("show", str(folder), "--json")[1])["in_use"] is True
        with pytest.raises(InputError, match="in use"):
            told("drop", str(folder), "--force")
    finally:
        spool.close()
    for command in ("show", "drop"):
        with pytest.raises(InputError, match="nowhere"):
            told(command, str(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(InputError, match="no subject"):
        told("show", str(folder), "--subject", "a..b")
