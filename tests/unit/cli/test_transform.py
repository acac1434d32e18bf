"""`mangrove transform test`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FILE = """
federation: f
domains: {a: {}, b: {}}
links: [{between: [a, b]}]
transforms:
  severe: {keep: "severity >= `3`", rename: {severity: level}}
"""


def tried(tmp_path: Path, payload: bytes, *more: str) -> subprocess.CompletedProcess[bytes]:
    file = tmp_path / "f.yaml"
    file.write_text(FILE)
    command = [sys.executable, "-m", "mangrove.cli.main", "transform", "test", str(file), *more]
    return subprocess.run(command, input=payload, capture_output=True, check=False)


@pytest.mark.parametrize(
    ("payload", "code", "out", "error"),
    [
        (b'{"severity": 3}', 0, b'{"level":3}', b""),
        (b'{"severity": 2}', 0, b"", b"left out"),
        (b"nothing", 1, b"", b"a dead letter: the transform severe failed: the payload is not json"),
    ],
)
def test_a_payload_from_standard_input(
    tmp_path: Path, payload: bytes, code: int, out: bytes, error: bytes
) -> None:
    ended = tried(tmp_path, payload, "severe")
    assert (ended.returncode, ended.stdout) == (code, out)
    assert error in ended.stderr


def test_as_json_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "payload").write_bytes(b'{"severity": 7}')
    ended = tried(tmp_path, b"", "severe", "--input", str(tmp_path / "payload"), "--json")
    document = json.loads(ended.stdout)
    assert (document["outcome"], document["text"]) == ("transformed", '{"level":7}')


def test_what_there_is_not(tmp_path: Path) -> None:
    ended = tried(tmp_path, b"", "other")
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"there is no transform 'other'" in ended.stderr
    assert b"hint: one of: severe" in ended.stderr
