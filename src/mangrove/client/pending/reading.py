"""How one subscription is read: what may wait, what is left out, how useful messages are, who is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mangrove.client.pending.gap import OnGap
from mangrove.client.pending.latest import LatestOnly
from mangrove.client.pending.least_useful import DropLeastUseful
from mangrove.client.pending.oldest import CutOff, DropOldest
from mangrove.client.pending.waiting import MAX_PENDING_BYTES, MAX_PENDING_MESSAGES, Waiting
from mangrove.client.usefulness.judge import Judge, UtilityOfKeywords
from mangrove.client.usefulness.user_function import UserFunction, UtilityFunction, UtilityThread
from mangrove.errors import InputError
from mangrove.model.congestion.keywords import checked_keywords
from mangrove.model.congestion.terms import Slow, TopicTerms
from mangrove.model.subjects import covers
from mangrove.model.topics import overlaps

if TYPE_CHECKING:
    from mangrove.model.congestion.word_vectors import WordVectors


class Reading(NamedTuple):
    """What `Connection.subscribe` was asked for, checked."""

    slow: Slow
    waiting: Waiting
    judge: Judge
    on_gap: OnGap | None = None
    by_contract: bool = False
    """Whether `slow` is what the contract says, and changes with it."""


def reading_of(
    subject: str,
    thread: UtilityThread,
    terms: Sequence[TopicTerms] = (),
    *,
    slow: str | None = None,
    max_pending: int | None = None,
    max_pending_bytes: int | None = None,
    keywords: Iterable[str] | None = None,
    semantic: WordVectors | Path | str | None = None,
    utility: UtilityFunction | None = None,
    on_gap: OnGap | None = None,
) -> Reading:
    """Check what a user asks for; what is not said follows from the contract, or is the default."""
    if on_gap is not None and not callable(on_gap):
        raise InputError(f"on_gap must be callable, not {type(on_gap).__name__}")
    interests = frozenset() if keywords is None else checked_keywords(keywords)
    judge = Judge(
        subject,
        interests,
        None if utility is None else UserFunction(subject, utility, thread),
        None if semantic is None else _semantic_utility(semantic, interests),
    )
    policy = slow_of(subject, terms) if slow is None else _checked_slow(slow)
    max_messages = _checked("max_pending", max_pending, MAX_PENDING_MESSAGES)
    max_bytes = _checked("max_pending_bytes", max_pending_bytes, MAX_PENDING_BYTES)
    waiting = waiting_by(policy, max_messages, max_bytes, judge)
    return Reading(policy, waiting, judge, on_gap, by_contract=slow is None)


def waiting_by(policy: Slow, max_messages: int, max_bytes: int, judge: Judge) -> Waiting:
    """Where messages wait under a policy."""
    match policy:
        case Slow.DROP_OLDEST:
            return DropOldest(max_messages, max_bytes)
        case Slow.DROP_LEAST_USEFUL:
            return DropLeastUseful(max_messages, max_bytes, judge)
        case Slow.LATEST_ONLY:
            return LatestOnly(max_messages, max_bytes)
        case Slow.DISCONNECT:
            return CutOff(max_messages, max_bytes)


def _semantic_utility(semantic: WordVectors | Path | str, interests: frozenset[str]) -> UtilityOfKeywords:
    """Compares keywords by what they mean; NumPy is loaded only for those who ask for this."""
    from mangrove.lake.vector_file import read_vectors
    from mangrove.model.congestion.word_vectors import SemanticUtility, WordVectors

    if not interests:
        raise InputError("`semantic` compares keywords, and there are none", hint="give `keywords` too")
    if not isinstance(semantic, WordVectors | Path | str):
        raise InputError(
            f"`semantic` must be a table of word vectors or its file, not {type(semantic).__name__}"
        )
    return SemanticUtility(
        semantic if isinstance(semantic, WordVectors) else read_vectors(semantic), interests
    )


def slow_of(pattern: str, terms: Sequence[TopicTerms]) -> Slow:
    """The policy of the first contract for all of a pattern; without one, of the first for part of it."""
    governing = next((each for each in terms if covers(each.match, pattern)), None) or next(
        (each for each in terms if overlaps(each.match, pattern)), None
    )
    return Slow.DROP_OLDEST if governing is None else governing.slow


def _checked_slow(slow: str) -> Slow:
    try:
        return Slow(slow)
    except ValueError:
        raise InputError(
            f"there is no policy {slow!r} for slow subscribers", hint=f"choose one of: {', '.join(Slow)}"
        ) from None


def _checked(name: str, value: int | None, default: int) -> int:
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name} must be a whole number above 0, not {value!r}")
    return value
