"""What a site was told to take over while it runs: a file in its run directory, read by its processes."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from mangrove.model.federation import Federation
from mangrove.model.unreadable import UNREADABLE

log = logging.getLogger(__name__)

_decoder = msgspec.json.Decoder(Federation)


class ReloadedFile:
    """Readers see the old file or the new one, never a part. There is none before the first reload."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def stamp(self) -> int:
        """Another number whenever it was replaced; 0 if there is none."""
        try:
            return self._path.stat().st_mtime_ns
        except OSError:
            return 0

    def read(self, file: Federation) -> Federation:
        """What was taken over; what the site was started with, if that is nothing."""
        try:
            return _decoder.decode(self._path.read_bytes())
        except FileNotFoundError:
            return file
        except (OSError, *UNREADABLE) as error:
            log.warning("settings that were reloaded cannot be read: %s", error)
            return file

    def write(self, federation: Federation) -> None:
        """Have the processes of the site take it over."""
        temporary = self._path.with_suffix(".tmp")
        temporary.write_bytes(msgspec.json.encode(federation))
        temporary.replace(self._path)

    def forget(self) -> None:
        """The site starts: what it is given now holds."""
        self._path.unlink(missing_ok=True)
