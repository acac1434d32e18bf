"""Daemons are loaded without a look for garbage, which is looked for afterwards."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from mangrove.host.daemon_start import daemon_command

DAEMON = """
import gc, sys
enabled_while_loaded = gc.isenabled()

def main():
    print(__name__, enabled_while_loaded, gc.isenabled(), gc.get_freeze_count() > 1000, sys.argv[1:])
"""


def test_a_daemon_is_loaded_and_run_with_its_settings(tmp_path: Path) -> None:
    tmp_path.joinpath("some_daemon.py").write_text(DAEMON)
    settings = tmp_path / "settings.json"
    ended = subprocess.run(
        daemon_command("some_daemon", settings),
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.strip() == f"some_daemon False True True ['{settings}']"
