"""What the recorder process is told when it starts."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mangrove.errors import InputError
from mangrove.model.endpoints import DomainEndpoints
from mangrove.model.federation import Federation


class RecorderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which domains to look at, and the directory of the lake to write."""

    federation: Federation
    domains: tuple[DomainEndpoints, ...]
    lake: str


def read_settings(path: Path) -> RecorderSettings:
    """Read a settings file as `mangrove up` wrote it."""
    try:
        settings = msgspec.json.decode(path.read_bytes(), type=RecorderSettings)
    except (OSError, msgspec.DecodeError) as error:
        raise _refused(path, str(error)) from None
    unknown = [each.domain for each in settings.domains if each.domain not in settings.federation.domains]
    if unknown or not settings.domains:
        raise _refused(path, f"unknown domains: {', '.join(unknown)}" if unknown else "no domain to record")
    return settings


def _refused(path: Path, problem: str) -> InputError:
    return InputError(
        f"cannot read the recorder settings {path}: {problem}", hint="they are written by `mangrove up`"
    )
