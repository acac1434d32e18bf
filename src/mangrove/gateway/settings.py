"""The settings file of a gateway process, as its agent writes it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mangrove.errors import InputError
from mangrove.model.gateway_settings import GatewaySettings


def read_settings(path: Path) -> GatewaySettings:
    """Read a settings file as the agent wrote it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=GatewaySettings)
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(
            f"cannot read the gateway settings {path}: {error}", hint="they are written by `mangrove up`"
        ) from None
