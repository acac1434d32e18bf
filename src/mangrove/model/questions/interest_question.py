"""Does everybody know what a subscriber wants? Asked of the own domain's gateway on the management broker.

The first answer names the version of the domain's interest that holds the subject; asked again with it, the
gateway tells which domains that can be reached have not yet subscribed to that version at their head brokers.
"""

from __future__ import annotations

import msgspec

Stamp = tuple[int, int]
"""A version of a domain's interest: epoch of its gateway, and number."""


class InterestRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for a subject or pattern, wanted plainly or by a queue group."""

    subject: str
    group: str = ""
    stamp: Stamp | None = None


class InterestAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Without a stamp the gateway has not heard of the subject yet."""

    stamp: Stamp | None
    missing: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether what is published anywhere from now on will be sent here."""
        return self.stamp is not None and not self.missing
