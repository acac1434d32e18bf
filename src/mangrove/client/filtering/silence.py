"""Asks for leave to be silent on subjects that nobody listens to, and speaks at once when somebody does.

See `model.questions.audience`. Whatever is not certain is sent: a question without an answer, a subject that
was not asked about, a management broker that is away.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import secrets
from collections import Counter
from collections.abc import Iterable

import msgspec

from mangrove.client.filtering.gate import seconds
from mangrove.client.filtering.publish_filter import PublishFilter
from mangrove.client.gateway_questions import GatewayQuestions
from mangrove.client.management.link import ManagementLink
from mangrove.errors import MangroveError
from mangrove.model.patterns.trie import SubjectTrie
from mangrove.model.questions.audience import (
    LEAVE_S,
    MAX_QUESTION_BYTES,
    MAX_SUBJECTS_A_QUESTION,
    AudienceAnswer,
    AudienceRequest,
    Wanted,
    gateway_audience_subject,
    wanted_subject,
)
from mangrove.model.unreadable import UNREADABLE

log = logging.getLogger(__name__)

ASK_S = 1.0
"""Between two questions, unless somebody has come to listen."""
RENEW_S = LEAVE_S / 2
"""So long before it ends, leave is asked for again."""
END_S = 0.5
IDLE_S = 5.0
"""Leave for a subject that was not published on for so long is given up."""
MAX_PAUSE_S = 32.0
"""A subject that has listeners, or a gateway that does not answer, is asked (about) at least so often."""

_wanted = msgspec.json.Decoder(Wanted)


class Silence:
    """The leave of one connection.

    Invariant: it is silent on a subject only if its last question named it, no answer since the one that
    gave leave has left it out, and no `Wanted` and no subscription of its own has named it since.
    """

    def __init__(self, link: ManagementLink, publishing: PublishFilter) -> None:
        self._link = link
        self._questions = GatewayQuestions(link)
        self._where = gateway_audience_subject(link.domain, link.user)
        self._filter = publishing
        self._client = secrets.token_urlsafe(12)
        self._own: SubjectTrie[object] = SubjectTrie()
        self._said: dict[str, tuple[int, float]] = {}
        """How often each subject had been published on, or withheld, and when that was seen to grow."""
        self._pauses_s: dict[str, float] = {}
        """How long a subject with listeners is not asked about again, and from when on it is."""
        self._due_s: dict[str, float] = {}
        self._silent: dict[str, float] = {}
        """Subjects that are not sent, and until when."""
        self._named: set[str] = set()
        """What the last question asked about."""
        self._number = 0
        self._knows = 0
        self._pause_s = ASK_S
        self._not_before_s = -math.inf
        self._task: asyncio.Task[None] | None = None
        self._acknowledging: set[asyncio.Task[None]] = set()
        self._acknowledging_soon = False
        self.questions = 0
        """How often it has asked."""
        self.ignored: Counter[str] = Counter()
        """What was heard and not believed, by reason."""

    @property
    def subjects(self) -> frozenset[str]:
        """Those that are not sent."""
        return frozenset(self._silent)

    def begin(self) -> None:
        """Something is published; questions begin soon."""
        if self._task is None:
            self._link.listen(wanted_subject(self._link.domain, self._client, self._link.user), self._heard)
            self._link.on_lost = self._lost
            self._task = asyncio.get_running_loop().create_task(self._run(), name="ask for leave")

    async def close(self) -> None:
        """Ask no more; nobody waits for this client any longer."""
        tasks = [task for task in (self._task, *self._acknowledging) if task is not None]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._speak(list(self._silent))
        if self._named and self._link.connected:
            with contextlib.suppress(MangroveError):
                nothing = AudienceRequest(client=self._client, knows=self._knows)
                await self._questions.ask(self._where, nothing, AudienceAnswer, END_S)

    # -- who listens ----------------------------------------------------------------------------------------

    def subscribed(self, pattern: str, by: object) -> None:
        """This connection subscribes: it hears all that it says from now on."""
        self._own.add(pattern, by)
        self._speak([subject for subject in self._silent if self._own.match(subject)])

    def unsubscribed(self, pattern: str, by: object) -> None:
        """It does so no more."""
        self._own.remove(pattern, by)

    def _heard(self, data: bytes) -> None:
        try:
            wanted = _wanted.decode(data)
        except UNREADABLE:
            self.ignored["unreadable"] += 1
            return
        self._knows = wanted.number  # a gateway that has started anew counts anew
        now = seconds()
        self._speak(wanted.subjects)
        for subject in wanted.subjects:
            self._listened_to(subject, now)
        self._named.difference_update(wanted.subjects)
        self._number += 1  # answers that are on their way do not know of it
        if not self._acknowledging_soon:
            self._acknowledging_soon = True
            task = asyncio.get_running_loop().create_task(self._acknowledge(), name="say what is known")
            self._acknowledging.add(task)
            task.add_done_callback(self._acknowledging.discard)

    async def _acknowledge(self) -> None:
        """Ask at once: until then the subscription is not confirmed to be ready."""
        self._acknowledging_soon = False
        await self._ask(tuple(self._named))

    def _lost(self) -> None:
        """Nobody can tell us any more that somebody listens."""
        self._named = set()
        self._number += 1
        self._speak(list(self._silent))

    def _speak(self, subjects: Iterable[str]) -> None:
        for subject in subjects:
            self._silent.pop(subject, None)
            self._filter.speak(subject)

    # -- asking ---------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(ASK_S * random.uniform(1.0, 1.2))  # clients that began together do not ask so
            now = seconds()
            self._speak([subject for subject, until_s in self._silent.items() if until_s <= now])
            if now < self._not_before_s or not self._link.connected:
                continue
            silent, others = self._in_use(now)
            if others or min(self._silent.values(), default=math.inf) < now + RENEW_S:
                await self._ask(_fitting(silent + others))

    def _in_use(self, now: float) -> tuple[list[str], list[str]]:
        """Subjects that are published on: those that are silent, and those whose turn it is to be asked."""
        silent, others = [], []
        withheld = self._filter.withheld
        for subject, outlet in self._filter.all_outlets().items():
            counts = withheld.get(subject)
            said = outlet.messages + (0 if counts is None else counts.unwanted.messages)
            before, grown_s = self._said.get(subject, (0, now))
            if said != before:
                grown_s = now
                self._said[subject] = said, now
            if subject in self._silent:
                if now - grown_s < IDLE_S:
                    silent.append(subject)
            elif (
                said != before
                and now >= self._due_s.get(subject, -math.inf)
                and not self._filter.always_sent(subject)
                and not self._own.match(subject)
            ):
                others.append(subject)
        return silent, others

    async def _ask(self, named: tuple[str, ...]) -> None:
        """Ask about these; with all others it is over at once, for the gateway gives them up."""
        self._named = set(named)
        self._speak(self._silent.keys() - self._named)
        self._number += 1
        self.questions += 1
        number, asked_s = self._number, seconds()
        request = AudienceRequest(client=self._client, subjects=named, knows=self._knows)
        try:
            answer = await self._questions.ask(self._where, request, AudienceAnswer)
        except MangroveError:
            self.ignored["unreadable"] += 1
            answer = None
        given = answer is not None and not answer.problem and 0 < answer.lease_s < math.inf
        unwanted = set(answer.unwanted) if answer is not None and given else set()
        # What has no leave is sent, whatever came meanwhile; an answer that was lost may have taken it away.
        self._speak(set(named) - unwanted)
        if number != self._number:
            return  # another question has been asked, or the broker was lost: this answer gives nothing
        if answer is None or not given:
            self._pause_s = min(2 * self._pause_s, MAX_PAUSE_S)
            self._not_before_s = asked_s + self._pause_s
            return
        self._pause_s, self._not_before_s = ASK_S, -math.inf
        until_s = asked_s + min(answer.lease_s, LEAVE_S)
        for subject in named:
            if subject not in unwanted:
                self._listened_to(subject, asked_s)
            elif not self._own.match(subject):
                self._silent[subject] = until_s
                self._pauses_s.pop(subject, None)
                self._filter.silence(subject, until_s)

    def _listened_to(self, subject: str, now: float) -> None:
        """Ask about it later, and later each time."""
        if self._filter.outlet(subject) is None:
            return
        pause_s = self._pauses_s.get(subject, ASK_S / 2) * 2
        self._pauses_s[subject] = min(pause_s, MAX_PAUSE_S)
        self._due_s[subject] = now + pause_s


def _fitting(subjects: list[str]) -> tuple[str, ...]:
    """As many as fit into a question."""
    room_bytes = MAX_QUESTION_BYTES // 2  # there is more in it than subjects, and some characters are escaped
    fitting = []
    for subject in subjects[:MAX_SUBJECTS_A_QUESTION]:
        room_bytes -= len(subject.encode()) + 3
        if room_bytes < 0:
            break
        fitting.append(subject)
    return tuple(fitting)
