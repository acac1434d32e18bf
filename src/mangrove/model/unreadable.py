"""What msgspec raises of the bytes of others, however they are wrong."""

from __future__ import annotations

import msgspec

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""No document, or another one; text that is no UTF-8; values in values without end."""
