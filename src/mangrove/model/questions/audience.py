"""Leave to be silent: a publisher asks its gateway on which of its subjects nobody in the federation listens.

The gateway knows what the brokers of its domain and all other domains want. Who has leave may withhold
messages until `lease_s` after it *asked* (the gateway counts from when it answered, so it is never the first
to think that a leave is over). When somebody comes to want the subject, the gateway takes the leave back
(`Wanted`), and does not confirm that subscription to be ready before every publisher that had leave has said
that it knows, or its leave has run out.

What a publisher has to keep to:

- It subscribes to `wanted_subject` before it asks, and asks again well before its leave runs out.
- Each answer takes the place of the one before: what is not in it has no leave.
- `Wanted` takes leave at once. The publisher answers with a request at once, whose `knows` is the highest
  number that it has obeyed; only then do those who wait for it go on. A `Wanted` with a higher number than
  `AudienceAnswer.number` is newer than that answer, in whatever order the two are heard: it takes leave from
  that answer too. A `Wanted` names again what earlier ones named that were not answered, so that one that
  gets lost does no harm.
- Who loses the management broker has no leave from that moment on. A `Wanted` that nobody hears there counts
  as known `UNHEARD_S` later.
- Only messages that ask for no reply may be withheld.
- Who ends says so by a request without subjects.

Leave is a courtesy: whoever does not get it publishes. It is refused (`problem`) while the gateway does not
know all subscribers, and when publishers do not answer to `Wanted`.
"""

from __future__ import annotations

import re

import msgspec

from mangrove.model.agents.speakers import said_by, told_to

LEAVE_S = 3.0
UNHEARD_S = 0.25
"""So long after the management broker has ended its connection, every publisher has noticed."""
MAX_SUBJECTS_A_QUESTION = 2_000
MAX_SILENT_CLIENTS = 20_000
MAX_LEAVES = 100_000
"""Subjects of all clients together on which a gateway gives leave."""
MAX_QUESTION_BYTES = 512 << 10

_NAME = re.compile(r"[A-Za-z0-9_-]{8,64}")


class AudienceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for leave on these literal subjects; those not named are given up."""

    client: str
    """A random name of this connection, see `client_name_problem`."""
    subjects: tuple[str, ...] = ()
    knows: int = 0
    """The highest number of a `Wanted` that has been heard and obeyed."""


class AudienceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Those of the subjects that nobody wants."""

    unwanted: tuple[str, ...] = ()
    number: int = 0
    """The highest number of a `Wanted` that was said to this client before; the answer has regard to it."""
    lease_s: float = LEAVE_S
    problem: str = ""
    """Why no leave is given, on any of the subjects; empty if some could have been."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Said to one client: these are wanted now. It answers with a request whose `knows` is `number`."""

    number: int
    """Rises with each that is said to this client, and goes on from what it `knows`."""
    subjects: tuple[str, ...]


def client_name_problem(name: str) -> str:
    """Why a client cannot have this name, or an empty string."""
    return "" if _NAME.fullmatch(name) else "a name has 8 to 64 letters, digits, hyphens or underscores"


def gateway_audience_subject(domain: str, user: str = "") -> str:
    """Requests on the management broker: `AudienceRequest` → `AudienceAnswer`."""
    return said_by(user, domain, "gateway.audience")


def wanted_subject(domain: str, client: str, user: str = "") -> str:
    """Where a silent client hears `Wanted`."""
    return told_to(user, domain, f"wanted.{client}")
