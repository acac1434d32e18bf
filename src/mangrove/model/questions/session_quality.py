"""More than a topic's contract: what one publisher or subscriber asks its domain's gateway for.

An ask is a lease. Who asked repeats it while the session lives and ends it at the end; when a process dies,
nobody repeats it, and it runs out. Questions and answers travel as JSON on the management broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import msgspec

from mangrove.model.topics import Contract, SessionLimits

LEASE_S = 6.0
RENEW_S = 2.0
MAX_SESSION_LENGTH = 64
MAX_SUBJECT_LENGTH = 1024


class Quality(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A shorter deadline, more paths, a higher resiliency; None is what the contract says."""

    deadline_ms: Annotated[float, msgspec.Meta(gt=0, le=1e9)] | None = None
    paths: Annotated[int, msgspec.Meta(ge=1, le=64)] | None = None
    resiliency: Annotated[float, msgspec.Meta(gt=0, lt=1)] | None = None

    def __bool__(self) -> bool:
        return self != NOTHING_MORE

    def __str__(self) -> str:
        told = msgspec.structs.asdict(self).items()
        return ", ".join(f"{key}: {value:g}" for key, value in told if value is not None) or "nothing"


NOTHING_MORE = Quality()


class Role(StrEnum):
    """Who asks: it concerns what this domain sends, or what is sent to it."""

    PUBLISHER = "publisher"
    SUBSCRIBER = "subscriber"


class AskRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for a quality on a subject or pattern until the lease runs out, or ends the ask of a session."""

    session: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_SESSION_LENGTH)]
    """Unique for each publisher and subscription."""
    role: Role = Role.SUBSCRIBER
    subject: Annotated[str, msgspec.Meta(max_length=MAX_SUBJECT_LENGTH)] = ""
    quality: Quality = NOTHING_MORE
    end: bool = False


class AskAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the ask is in force; if not, why, and what is possible."""

    refused: str = ""
    hint: str = ""


def strictest(asked: Iterable[Quality]) -> Quality:
    """One quality that is as good as each of several."""
    several = list(asked)
    return Quality(
        deadline_ms=min((q.deadline_ms for q in several if q.deadline_ms is not None), default=None),
        paths=max((q.paths for q in several if q.paths is not None), default=None),
        resiliency=max((q.resiliency for q in several if q.resiliency is not None), default=None),
    )


def allowed(quality: Quality, limits: SessionLimits) -> Quality:
    """As much of a quality as the limits of a contract allow for; without a limit, nothing of it."""
    deadline_ms = paths = resiliency = None
    if quality.deadline_ms is not None and limits.deadline_ms is not None:
        deadline_ms = max(quality.deadline_ms, limits.deadline_ms)
    if quality.paths is not None and limits.paths is not None:
        paths = min(quality.paths, limits.paths)
    if quality.resiliency is not None and limits.resiliency is not None:
        resiliency = min(quality.resiliency, limits.resiliency)
    return Quality(deadline_ms=deadline_ms, paths=paths, resiliency=resiliency)


def raised(contract: Contract, quality: Quality) -> Contract:
    """A contract that owes what it owed and what was asked for."""
    if not quality:
        return contract
    own = Quality(deadline_ms=contract.deadline_ms, paths=contract.paths, resiliency=contract.resiliency)
    both = strictest((own, quality))
    paths = both.paths or contract.paths
    return msgspec.structs.replace(
        contract,
        deadline_ms=both.deadline_ms,
        paths=paths,
        resiliency=both.resiliency,
        max_paths=max(paths, contract.max_paths),
    )
