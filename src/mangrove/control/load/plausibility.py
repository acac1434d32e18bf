"""What no broker and no client can carry: figures beyond it are refused, whoever tells them."""

from __future__ import annotations

import math

MAX_BYTES_S = 1e11
"""800 Gb/s: more than one broker's links carry."""
MAX_MESSAGES_S = 1e9


def amount_problem(value: float, limit: float = math.inf) -> str:
    """Why a figure cannot be right, or nothing."""
    if not math.isfinite(value):
        return "not a number"
    if value < 0:
        return "negative"
    return "impossible" if value > limit else ""


def rate_problem(messages_s: float, bytes_s: float) -> str:
    """Why a pair of rates cannot be right, or nothing."""
    return amount_problem(messages_s, MAX_MESSAGES_S) or amount_problem(bytes_s, MAX_BYTES_S)
