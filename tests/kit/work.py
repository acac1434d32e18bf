"""How much work something is: counted, so that no clock and no other load matters."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType as PythonFrame
from typing import Any


def work_of(action: Callable[[], object]) -> tuple[int, int]:
    """Lines of our code that ran, and the most memory that was held meanwhile."""
    lines = 0

    def trace(frame: PythonFrame, event: str, _: Any) -> Any:
        nonlocal lines
        if "mangrove" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        return trace

    tracemalloc.start()
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return lines, peak_bytes


def lines_of(action: Callable[[], object]) -> int:
    """Lines of our code that ran."""
    return work_of(action)[0]
