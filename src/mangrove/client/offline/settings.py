"""How much is kept while no broker can be reached, for how long, and where: as the user asks for it."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from mangrove.errors import InputError

MIN_BYTES = 1 << 16
DEFAULT_BYTES = 64 << 20
MAX_BYTES = 1 << 34
DEFAULT_AGE_S = 3_600.0


class Offline(msgspec.Struct, frozen=True, kw_only=True):
    """Keep what is published while no broker can be reached: `mangrove.connect(offline=Offline())`.

    At most `max_bytes` wait, for `max_age_s` at most. In a `directory`, which is one client's own, what waits
    outlives the program; it is forced to disk every `sync_s` seconds, or before `publish` returns if that
    is 0. A broker that is back gets nothing for `settle_s` seconds: gateway, edges and subscribers come back
    to it as well, and what is sent to it before they do is sent to nobody.
    """

    max_bytes: int = DEFAULT_BYTES
    max_age_s: float = DEFAULT_AGE_S
    directory: Path | None = None
    sync_s: float = 1.0
    settle_s: float = 1.0


def checked(offline: Offline | bool | None) -> Offline | None:
    """What the user asked for; InputError if it makes no sense."""
    if offline is None or offline is False:
        return None
    asked = Offline() if offline is True else offline
    if not isinstance(asked, Offline):
        raise InputError(
            f"offline is {type(offline).__name__}", hint="give True, or mangrove.Offline(max_bytes=…, …)"
        )
    if not (isinstance(asked.max_bytes, int) and MIN_BYTES <= asked.max_bytes <= MAX_BYTES):
        raise InputError(
            f"offline: max_bytes is {asked.max_bytes}", hint=f"give a number from {MIN_BYTES} to {MAX_BYTES}"
        )
    if not (_is_number(asked.max_age_s) and asked.max_age_s > 0):
        raise InputError(f"offline: max_age_s is {asked.max_age_s}", hint="give seconds above 0")
    if not (_is_number(asked.sync_s) and asked.sync_s >= 0):
        raise InputError(f"offline: sync_s is {asked.sync_s}", hint="give seconds, or 0 for every message")
    if not (_is_number(asked.settle_s) and asked.settle_s >= 0):
        raise InputError(f"offline: settle_s is {asked.settle_s}", hint="give seconds, or 0")
    directory = None if asked.directory is None else Path(asked.directory)
    return msgspec.structs.replace(asked, directory=directory)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
