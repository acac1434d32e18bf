"""A missing library of an extra becomes a line with the remedy; any other missing module stays a fault."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from mangrove.cli import main as command_line
from mangrove.cli.optional import EXTRAS, missing_library

ROOT = Path(__file__).parents[3]


def test_the_extra_is_named() -> None:
    error = missing_library(ModuleNotFoundError("no", name="pyarrow.parquet"))
    assert error is not None
    assert error.hint == "pip install 'mangrove-messaging[pipelines]'"
    assert error.exit_code == 2


def test_what_is_no_optional_library_is_a_fault_of_ours() -> None:
    assert missing_library(ModuleNotFoundError("no", name="mangrove.nothing")) is None
    assert missing_library(ModuleNotFoundError("no")) is None


def test_extras_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(EXTRAS.values()) <= project["optional-dependencies"].keys()


@pytest.mark.parametrize(("library", "code"), [("pyspark", 2), ("nothing_of_ours", None)])
def test_the_command_line_ends_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], library: str, code: int | None
) -> None:
    def command() -> None:
        raise ModuleNotFoundError(f"No module named {library!r}", name=library)

    monkeypatch.setattr(command_line, "app", command)
    if code is None:
        with pytest.raises(ModuleNotFoundError):
            command_line.main()
        return
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    assert ended.value.code == code
    assert capsys.readouterr().err.splitlines() == [
        f"error: this needs the package {library}, which is not installed",
        "hint: pip install 'mangrove-messaging[pipelines]'",
    ]
