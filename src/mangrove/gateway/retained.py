"""Retained messages in every domain: each gateway tells what its own clients retain, and keeps the others'.

A change is told at once to every domain that can be reached. Besides, each gateway tells a summary of what
its own clients have retained, from time to time and to a domain that has just come into reach; who has other
figures asks for all of it. So a domain that was away, or that lost a letter, catches up. Of two words on one
subject from different domains the later one counts, by the clocks of their gateways.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from hashlib import blake2b
from time import time_ns

import msgspec

from mangrove.broker.retained import RetainedMessage, RetainedStore, RetainedStoreOwner, StoreError
from mangrove.gateway.access.border_book import BorderBook
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.letters import (
    Ask,
    Letter,
    Listing,
    Retained,
    Summary,
    read_letters,
    sender_of,
    write_letter,
)
from mangrove.gateway.retained_states import RetainedStates, State
from mangrove.model.access.refusals import Crossing
from mangrove.model.subjects import is_internal, subject_problem
from mangrove.model.topics import Scope
from mangrove.model.versions.rules_in_force import Rules
from mangrove.overlay.forwarding.border import Border

log = logging.getLogger(__name__)

LOOK_S = 0.5
SUMMARY_S = 10.0
MAX_JOBS = 10_000
LISTED = 500
MAX_SESSIONS = 10_000
MAX_REFUSED = 10_000

SESSION_KEPT = "what other domains publish while the client of a kept MQTT session is away"
UNREADABLE = "unreadable letter from another gateway"
TOO_MANY = "more retained messages than one domain may have here"
BUSY = "too many retained messages at once"
ODD_SUBJECT = "a retained message on a subject that is too long or malformed for other domains"
NOT_ALLOWED = "a retained message on a subject that stays in its domain"
FOREIGN = "a letter in the name of another domain than sent it"


class _Reload(msgspec.Struct, frozen=True):
    """The store may hold anything: read it."""


class RetainedMirror:
    """Keeps the retained messages of one domain in step with those of the others."""

    def __init__(
        self,
        domain: str,
        rules: Rules,
        ledger: Ledger,
        *,
        max_message_bytes: int,
        store: Callable[[RetainedStoreOwner], RetainedStore],
        send: Callable[[str, bytes], None],
        reachable: Callable[[], frozenset[str]],
        border: Border | None = None,
        border_book: BorderBook | None = None,
    ) -> None:
        """`send` takes a message to another domain; `reachable` says which ones it can reach now.

        What may not pass the `border` is entered in the `border_book`.
        """
        self._domain = domain
        self._rules = rules
        self._ledger = ledger
        self._max_message_bytes = max_message_bytes
        self._store = store(self)
        self._send = send
        self._reachable = reachable
        self.border = border
        """What may pass between the domains; None: everything."""
        self._border_book = border_book or BorderBook()
        self._states = RetainedStates(self._may_travel)
        self._counted_by: tuple[object, object] = (None, None)
        """The contracts and the border by which figures were added up."""
        self._overfull: set[str] = set()
        """Domains that have more than is kept here: their figures differ, and they are not asked again."""
        self._jobs: asyncio.Queue[Letter | _Reload] = asyncio.Queue(MAX_JOBS)
        self._told_anything = False
        self._sessions: set[str] = set()
        self._refused: dict[tuple[str, str], int] = {}
        """By origin and subject, what other domains retain and may not bring here: its digest."""

    async def run(self) -> None:
        """Keep in step until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._store.run(), name="retained store")
            tasks.create_task(self._work(), name="retained messages")
            tasks.create_task(self._summarise(), name="summaries")

    # -- the own domain -----------------------------------------------------------------------------------

    def store_attached(self) -> None:
        """Learn what is there."""
        self._enqueue(_Reload())

    def names_changed(self) -> None:
        """The same messages are of other subjects now."""
        self._enqueue(_Reload())

    def retained(self, message: RetainedMessage) -> None:
        """A client of this domain has published: tell everybody."""
        if not self._may_travel(message.subject):
            if not is_internal(message.subject) and subject_problem(message.subject, wildcards=False):
                self._ledger.drop_unnamed(ODD_SUBJECT, 1)
            return
        before = self._states.get(message.subject)
        version = max(message.version, before.version + 1 if before else 0)
        if self._too_large(message):
            reason = f"larger than the federation's limit of {self._max_message_bytes} bytes"
            self._ledger.drop(message.subject, reason)
            # No word at all is better than one that is out of date.
            message = msgspec.structs.replace(message, payload=b"")
        message = msgspec.structs.replace(message, origin=self._domain, version=version)
        self._states.put(message.subject, State(self._domain, version, _digest(message)))
        self._tell(message, self._reachable())

    def _too_large(self, message: RetainedMessage) -> bool:
        return len(message.payload) > self._max_message_bytes

    def session_kept(self, name: str) -> None:
        """Warn, once for each session, of what is not kept for it."""
        if name not in self._sessions and len(self._sessions) < MAX_SESSIONS:
            self._sessions.add(name)
            self._ledger.ignore(SESSION_KEPT)

    def _tell(self, message: RetainedMessage, domains: frozenset[str]) -> None:
        self._told_anything = True
        letter = write_letter(Retained(message))
        for domain in domains:
            if self._passes(Crossing.LEAVE, domain, message.subject):
                self._send(domain, letter)

    def _passes(self, crossing: Crossing, other: str, subject: str) -> bool:
        """Whether a subject may pass to or from another domain; what may not is booked."""
        if self.border is None:
            return True
        judge = self.border.leaving_for if crossing is Crossing.LEAVE else self.border.entering
        decision = judge(other, subject)
        if not decision:
            self._border_book.refuse(crossing, other, subject, decision, 1)
        return decision.allowed

    def _may_travel(self, subject: str, to: str = "") -> bool:
        if is_internal(subject) or subject_problem(subject, wildcards=False):
            return False
        contract = self._rules.contract_of(subject)
        return (
            contract.scope is not Scope.DOMAIN
            and contract.transform is None
            and (not to or self.border is None or self.border.leaving_for(to, subject).allowed)
        )

    # -- other domains ------------------------------------------------------------------------------------

    def take_from(self, origin: str, messages: bytes) -> None:
        """Letters came in a frame of a domain, which may speak for itself alone."""
        letters, unreadable = read_letters(messages)
        if unreadable:
            self._ledger.drop_unnamed(UNREADABLE, unreadable)
        for letter in letters:
            if sender_of(letter) == origin:
                self._enqueue(letter)
            else:
                self._ledger.drop_unnamed(FOREIGN, 1)

    def _enqueue(self, job: Letter | _Reload) -> None:
        try:
            self._jobs.put_nowait(job)
        except asyncio.QueueFull:
            # The next summary will not fit, and all is asked for again.
            self._ledger.drop_unnamed(BUSY, 1)

    async def _work(self) -> None:
        while True:
            job = await self._jobs.get()
            try:
                match job:
                    case _Reload():
                        await self._learn()
                    case Retained(message):
                        await self._keep(message)
                    case Summary(origin, messages, digest):
                        others = (messages, digest) != self._figures(origin)
                        if others and origin not in self._overfull:
                            self._send(origin, write_letter(Ask(self._domain)))
                    case Ask(asker):
                        await self._resend(asker)
                    case Listing():
                        await self._clear(job)
            except StoreError as error:
                self._ledger.drop_unnamed(error.message, 1)

    async def _learn(self) -> None:
        try:
            await self._reload()
        except StoreError as error:
            # Nothing is lost by that: a broker without a store has no retained messages.
            self._ledger.ignore(error.message)

    async def _reload(self) -> None:
        self._states.clear()
        self._overfull.clear()
        async for message in self._store.read():
            if self._too_large(message):
                continue
            origin = message.origin or self._domain
            # What was published meanwhile is known already, and newer.
            if self._states.get(message.subject) is None:
                self._states.put(message.subject, State(origin, message.version, _digest(message)))
        await self._summarise_to(self._reachable())

    async def _keep(self, message: RetainedMessage) -> None:
        if not self._may_travel(message.subject) or message.origin == self._domain:
            self._ledger.drop_unnamed(NOT_ALLOWED, 1)
            return
        if not self._passes(Crossing.ENTER, message.origin, message.subject):
            self._note_refused(message)
            return
        state = State(message.origin, message.version, _digest(message))
        known = self._states.get(message.subject)
        if known is not None:
            same = known.origin == state.origin
            if same and known.digest == state.digest:
                return
            if not same and (known.version, known.origin) > (state.version, state.origin):
                return
        elif not message.payload:
            return  # there was nothing to be taken back
        elif not self._states.room_for(message.origin):
            self._overfull.add(message.origin)
            self._ledger.drop(message.subject, TOO_MANY)
            return
        await self._store.write(message)
        self._states.put(message.subject, state)

    async def _resend(self, asker: str) -> None:
        """Send all that clients of this domain have retained, and which subjects that are."""
        only = frozenset({asker})
        own = []
        async for message in self._store.read():
            own_word = not message.origin and message.payload and not self._too_large(message)
            if own_word and self._may_travel(message.subject, asker):
                own.append(message.subject)
                self._tell(msgspec.structs.replace(message, origin=self._domain), only)
        own.sort()
        after = ""
        for start in range(0, len(own) or 1, LISTED):
            subjects = own[start : start + LISTED]
            up_to = subjects[-1] if start + LISTED < len(own) else ""
            self._send(asker, write_letter(Listing(self._domain, after, up_to, subjects)))
            after = up_to

    def _note_refused(self, message: RetainedMessage) -> None:
        """Remember what was refused, so that it is not taken for something that got lost."""
        key = (message.origin, message.subject)
        if not message.payload:
            self._refused.pop(key, None)
        elif len(self._refused) < MAX_REFUSED:
            self._refused[key] = _digest(message)

    async def _clear(self, listing: Listing) -> None:
        """Take back what the origin no longer has."""
        listed = frozenset(listing.subjects)

        def taken_back(subject: str) -> bool:
            in_range = listing.after < subject and (not listing.up_to or subject <= listing.up_to)
            return in_range and subject not in listed

        for key in list(self._refused):
            if key[0] == listing.origin and taken_back(key[1]):
                del self._refused[key]
        for subject in filter(taken_back, self._states.there_from(listing.origin)):
            await self._keep(
                RetainedMessage(subject=subject, payload=b"", origin=listing.origin, version=time_ns())
            )

    # -- summaries ----------------------------------------------------------------------------------------

    async def _summarise(self) -> None:
        loop = asyncio.get_running_loop()
        before: frozenset[str] = frozenset()
        due = loop.time() + SUMMARY_S
        while True:
            await asyncio.sleep(LOOK_S)
            now_reachable = self._reachable()
            if loop.time() >= due:
                due += SUMMARY_S
                await self._summarise_to(now_reachable)
            elif now_reachable - before:
                await self._summarise_to(now_reachable - before)
            before = now_reachable

    async def _summarise_to(self, domains: frozenset[str]) -> None:
        for domain in domains:
            figures = self._figures(self._domain, "" if self.border is None else domain)
            if figures[0] or self._told_anything:
                self._send(domain, write_letter(Summary(self._domain, *figures)))
            await asyncio.sleep(0)  # to add them up anew, under other rules, takes a while for each

    def _figures(self, origin: str, to: str = "") -> tuple[int, int]:
        """How many subjects a domain has a message for that may go to another, and a digest of them all."""
        counted_by = (self._rules.contracts, self.border)
        if any(one is not other for one, other in zip(counted_by, self._counted_by, strict=True)):
            self._counted_by = counted_by
            self._states.count_anew()
        count, digest = self._states.figures(origin, to)
        for (refused_from, _), refused in self._refused.items():
            if refused_from == origin:
                count += 1
                digest ^= refused
        return count, digest


def _digest(message: RetainedMessage) -> int:
    """Tells messages apart, with their subject; 0 for one that takes another back."""
    if not message.payload:
        return 0
    text = f"{message.subject} {message.qos} ".encode() + message.payload
    return int.from_bytes(blake2b(text, digest_size=7).digest(), "big") or 1
