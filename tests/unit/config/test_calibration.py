"""A broker model from a file beside the federation file, and what may be wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mangrove.config import read_federation


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("9" * 5000, "is not JSON"),
        (json.dumps({"t_rcv": 10**400, "t_fltr": 0, "t_tx": 0}), "is not a broker model"),
    ],
)
def test_a_file_that_is_no_model_is_a_mistake(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "model.json").write_text(text)
    path = tmp_path / "one.yaml"
    path.write_text("federation: one\ncalibration: model.json\ndomains: {a: {}}\n")
    (only,) = read_federation(path).mistakes
    assert only.path == "calibration"
    assert words in only.problem
