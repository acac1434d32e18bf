"""Times that count: whole windows within the peak periods."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Periods:
    """Sorted, disjoint periods of whole windows, in seconds since 1970. Windows begin at multiples of their
    length, so a window is the same one whatever period it is in."""

    starts_s: tuple[int, ...]
    ends_s: tuple[int, ...]
    window_s: int = 1

    @property
    def windows(self) -> int:
        """How many windows there are."""
        seconds = sum(end - start for start, end in zip(self.starts_s, self.ends_s, strict=True))
        return seconds // self.window_s
