"""The `mangrove` command in this process, told as if it had been one of its own: nothing is imported anew.

A new interpreter costs most of a second for each command, and the tests run hundreds. What a command loads,
and that it starts by its real entry point, is tested elsewhere, with new interpreters.
"""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from mangrove.cli.main import main


def mangrove(
    *arguments: str | Path,
    stdin: str = "",
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run to the end; `environment` is added to that of the tests."""
    words = ["mangrove", *map(str, arguments)]
    said, told = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    code = 0
    with pytest.MonkeyPatch.context() as patch, _signals_kept():
        patch.setattr("sys.argv", words)
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8"))
        patch.setattr("sys.stdout", said)
        patch.setattr("sys.stderr", told)
        for name, value in (environment or {}).items():
            patch.setenv(name, value)
        if cwd is not None:
            patch.chdir(cwd)
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return subprocess.CompletedProcess(words, code, _text(said), _text(told))


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
