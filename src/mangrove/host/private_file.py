"""Files with secrets in them."""

from __future__ import annotations

import os
from pathlib import Path

OWNER_ALONE = 0o600


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read; at no moment can others, also if there was one before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ALONE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.rename(path)
