"""Leave to be silent: a publisher asks its gateway on which of its subjects nobody in the federation listens.

The gateway knows what the brokers of its domain and all other domains want. Who has leave may withhold
messages until `lease_s` after it *asked*. When somebody comes to want the subject, the gateway takes the
leave back (`Wanted`), and does not confirm that subscription to be ready before the publisher has said that
it knows (by asking again without the subject, or by `AudienceRequest.knows`), or its leave has run out.
"""

from __future__ import annotations

import msgspec

LEAVE_S = 3.0
MAX_SUBJECTS_A_QUESTION = 2_000
MAX_SILENT_CLIENTS = 20_000


class AudienceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for leave on these subjects; those not named are given up."""

    client: str
    """A random name of this connection."""
    subjects: tuple[str, ...] = ()
    knows: int = 0
    """The highest number of a `Wanted` that has been heard and obeyed."""


class AudienceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Those of the subjects that nobody wants."""

    unwanted: tuple[str, ...] = ()
    lease_s: float = LEAVE_S
    problem: str = ""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Said to one client: these are wanted now. It answers with a request whose `knows` is `number`."""

    number: int
    subjects: tuple[str, ...]


def gateway_audience_subject(domain: str) -> str:
    """Requests on the management broker: `AudienceRequest` → `AudienceAnswer`."""
    return f"mangrove.{domain}.gateway.audience"


def wanted_subject(domain: str, client: str) -> str:
    """Where a silent client hears `Wanted`."""
    return f"mangrove.{domain}.wanted.{client}"
