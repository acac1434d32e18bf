"""What a job says of its results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_summary(directory: Path) -> dict[str, Any]:
    """What the job says of itself; nothing if it says nothing."""
    path = directory / "summary.json"
    summary = json.loads(path.read_text()) if path.is_file() else {}
    return summary if isinstance(summary, dict) else {}
