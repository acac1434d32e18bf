"""Messages for queue groups whose domain is lost, or has no member left: sorted anew, to whoever has one.

This is the exceptional case, and the only one in which a body is looked into on its way. It is done by the
shell that holds the frame, with the engine's answers, so that the engine itself needs no bodies. What was
under way may have been served already: twice is possible then, and counted as sent on.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import NamedTuple, Protocol

from mangrove.overlay.forwarding.flows import Route
from mangrove.overlay.protocol.bodies import (
    DISCARD,
    Entry,
    FanOut,
    Flow,
    Gathered,
    Message,
    Rewrite,
    WireError,
    parse_message_line,
    scan,
)


class Retargeted(NamedTuple):
    """Who serves the queue groups of a message instead."""

    home: tuple[str, ...]
    """Groups with members in this domain."""
    routes: tuple[Route, ...]
    """To other domains; also without groups, for plain subscribers that are still to get the message."""
    lost: tuple[str, ...]
    """Groups that have no member any more."""


class Chooser(Protocol):
    """Knows who has members of a group: the engine."""

    def retarget(self, subject: str, groups: tuple[str, ...], away: int, hop_limit: int) -> Retargeted:
        """Who serves `groups` if the domains `away` do not."""


class Outcome(NamedTuple):
    """What became of a body."""

    sent_on: int
    """Messages that go to another domain, or are served here."""
    lost: Counter[str]
    """Messages by subject of which a group has no member any more."""
    malformed: bool
    stays: bool = False
    """Nobody else can serve any of it: nothing was done, and the frame may wait under its own name."""


def retarget_body(body: bytes, away: int, hop_limit: int, chooser: Chooser, home: Flow) -> Outcome:
    """Sort the messages of a body anew; `home` takes those that name groups with members in this domain."""
    known: dict[bytes, Entry] = {}
    lost: set[bytes] = set()
    sent_on: set[bytes] = set()
    targets: list[Retargeted] = []

    def resolve(line: bytes) -> Entry:
        message = parse_message_line(line)
        target = chooser.retarget(message.subject, message.groups, away, hop_limit)
        flows: list[Flow] = [_named(line, message, route.groups, route.flow) for route in target.routes]
        if target.home:
            flows.append(_named(line, message, target.home, home))
        if target.lost:
            lost.add(line)
        if flows:
            sent_on.add(line)
        targets.append(target)
        entry = known[line] = Entry(message.skip, FanOut(flows) if flows else DISCARD, message.subject)
        return entry

    judged: dict[bytes, Entry] = {}

    def judge(line: bytes) -> Entry:
        entry = judged[line] = Entry(resolve(line).skip, DISCARD)
        return entry

    try:
        malformed = scan(body, judged, judge) != len(body)
    except WireError:
        malformed = True
    if not malformed and all(_stays(target, away) for target in targets):
        return Outcome(0, Counter(), malformed=False, stays=True)
    with suppress(WireError):  # what comes before the fault is sent
        scan(body, known, resolve)
    lost_topics: Counter[str] = Counter()
    for line in lost:
        lost_topics[known[line].topic] += known[line].count
    return Outcome(sum(known[line].count for line in sent_on), lost_topics, malformed)


def _stays(target: Retargeted, away: int) -> bool:
    """Whether a message has to wait for the domains that should have served it."""
    elsewhere = any(route.flow.destinations & ~away for route in target.routes)
    return not (target.home or target.lost or elsewhere)


def jobs_apart(body: bytes) -> tuple[bytes, bytes]:
    """The messages of a body that name no queue groups, with what is malformed, and those that do."""
    known: dict[bytes, Entry] = {}
    plain, jobs = Gathered(), Gathered()

    def resolve(line: bytes) -> Entry:
        message = parse_message_line(line)
        entry = known[line] = Entry(message.skip, jobs if message.groups else plain)
        return entry

    try:
        scan(body, known, resolve)
    except WireError:
        return body, b""
    rest = body[plain.size_bytes + jobs.size_bytes :]
    return b"".join([*plain.messages, rest]), b"".join(jobs.messages)


def _named(line: bytes, message: Message, groups: tuple[str, ...], flow: Flow) -> Flow:
    if groups == message.groups:
        return flow
    return Rewrite(line, message.line(message.subject, message.reply, groups), message.skip, flow)
