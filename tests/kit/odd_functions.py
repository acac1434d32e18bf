"""Functions for transforms, good and bad, as a user might write them, where gateways can import them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

MODULE = "odd_functions_of_a_user"
SOURCE = '''
"""Each payload says what to do."""

import os
import time

kept = []


class Kind(bytes):
    """Bytes all the same, as those of libraries are."""


def obedient(payload, subject, headers):
    match payload.split(b" ")[0]:
        case b"hang":
            while True:
                time.sleep(1)
        case b"raise":
            raise ValueError("so it was asked")
        case b"grow":
            while True:
                kept.append(bytearray(1 << 20))
        case b"garbage":
            return 42
        case b"large":
            return b"x" * 100_000_000
        case b"leave":
            return None
        case b"exit":
            os._exit(0)
        case b"quit":
            raise SystemExit(3)
        case b"spin":
            while True:
                pass
        case b"half":
            raise ValueError("no unit: \\ud800")
        case b"kind":
            return Kind(b"did " + payload)
        case b"headers":
            return repr(sorted(headers.items())).encode()
    return b"did " + payload


def doubled(payload, subject, headers):
    return payload * 2
'''


@contextmanager
def importable(directory: Path) -> Iterator[str]:
    """Make the functions importable for this process and those that it starts; gives the module's name."""
    (directory / f"{MODULE}.py").write_text(SOURCE)
    path = os.pathsep.join(filter(None, [str(directory), os.environ.get("PYTHONPATH", "")]))
    with patch.dict(os.environ, PYTHONPATH=path), patch.object(sys, "path", [str(directory), *sys.path]):
        yield MODULE
