"""What the user may choose of a profile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from mangrove.errors import InputError
from mangrove.lake.files import LakeFile, partition_value
from mangrove.pipelines.rates.blocks import EPOCH
from mangrove.pipelines.rates.peaks import Span
from mangrove.pipelines.reading.days import DAY_S, days_between


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    """Options of the job; `window_s` is the length of a window."""

    peak: tuple[Span, ...] | None = None
    """None: found"""
    window_s: int = 1
    domains: frozenset[str] | None = None
    shrinkage: float | None = None
    """None: estimated for short histories"""
    groups: Mapping[str, Sequence[str]] | None = None
    cluster: bool = False
    since_s: int | None = None
    until_s: int | None = None
    """Only whole days from and before these midnights (UTC), in seconds since 1970."""
    days: int | None = None
    """Only so many days, up to the last one that the lake has."""

    def concerns(self, path: str) -> bool:
        """Whether a file is of a day and a domain in question, or tells neither."""
        domain = partition_value(path, "domain")
        if self.domains is not None and domain is not None and domain not in self.domains:
            return False
        return days_between(self.since_s, self.until_s).concern(path)

    def counted_back(self, files: Iterable[LakeFile]) -> ProfileSettings:
        """With the days counted back from the last one that the files have, if that was asked for."""
        if self.days is None:
            return self
        dates = [file.date for file in files if file.date is not None and self.concerns(file.path)]
        if not dates:
            raise InputError(
                "--days needs a lake with directories of days", hint="--since and --until do not"
            )
        until_s = ((date.fromisoformat(max(dates)) - EPOCH).days + 1) * DAY_S
        return replace(self, since_s=until_s - self.days * DAY_S, until_s=until_s, days=None)
