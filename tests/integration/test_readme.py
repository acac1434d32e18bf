"""The README's example runs as it stands, against a running federation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.kit.running import Running

README = Path(__file__).parents[2] / "README.md"


def test_the_python_example(chain: Running) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    environment = {**os.environ, "MANGROVE_STATE_DIR": str(chain.launched.directory.parent)}
    result = subprocess.run(
        [sys.executable, "-c", example],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("alert.tsunami b'wave at 12:04' ")
