"""Two linked sites, whichever is named first: one order and one name for a link, made here alone."""

from __future__ import annotations

LINK_NAME_SEPARATOR = "--"


def site_pair(first: str, second: str) -> tuple[str, str]:
    """Two sites in the order that stands for their link everywhere: by name."""
    return (first, second) if first <= second else (second, first)


def link_name(first: str, second: str) -> str:
    """The name of the link between two sites, in telemetry and in the emulator."""
    return LINK_NAME_SEPARATOR.join(site_pair(first, second))
