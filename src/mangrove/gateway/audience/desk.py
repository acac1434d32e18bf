"""Where publishers ask for leave to be silent: on the management broker, for as long as the gateway lives."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from mangrove.gateway.audience.leave_mark import LeaveMark
from mangrove.gateway.audience.leaves import BAD_REQUEST, Leaves
from mangrove.gateway.naming.site_names import SiteNames
from mangrove.model.agents.speakers import ANY_USER, speaker_of
from mangrove.model.questions.audience import (
    MAX_QUESTION_BYTES,
    MAX_SILENT_CLIENTS,
    AudienceAnswer,
    AudienceRequest,
    Wanted,
    gateway_audience_subject,
    wanted_subject,
)
from mangrove.model.status import SilenceFigures
from mangrove.model.unreadable import UNREADABLE

LOOK_EVERY_S = 0.05
"""How often it is looked whether those who are awaited have had enough time."""
REST_S = 1.0
MAX_UNREAD_QUESTIONS = 1000
MAX_UNREAD_BYTES = 16 << 20
UNREAD = "question for leave to be silent that came while too many were unread"
BROKER_AWAY = "word to a silent publisher while the management broker was away"


class AudienceDesk:
    """Answers questions, tells publishers when they are listened to, and lets others wait until they know."""

    def __init__(
        self,
        domain: str,
        leaves: Leaves,
        mark: LeaveMark,
        completeness: Callable[[], tuple[float, str]],
        *,
        users: bool = False,
        names: SiteNames | None = None,
    ) -> None:
        """`completeness` tells when the brokers were last seen to hang together, and what is wrong.

        Where `users` log in, each asks on a subject of its own, and none can speak for another. Publishers
        speak of subjects by the `names` of the domain, and all else by the federation's.
        """
        self._names = names or SiteNames()
        self._domain = domain
        self._leaves = leaves
        self._mark = mark
        self._completeness = completeness
        self._outbox: deque[tuple[str, bytes]] = deque(maxlen=MAX_SILENT_CLIENTS)
        self._filled = asyncio.Event()
        self._soon: asyncio.Handle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._unheard = f"mangrove.{domain}.gateway.unheard"
        self.subject = gateway_audience_subject(domain, ANY_USER if users else "")
        self.hold(mark.left_s())

    def hold(self, left_s: float) -> None:
        """Publishers may be silent for so long by leave of a gateway that this one took over from."""
        if left_s > 0:
            self._leaves.hold(monotonic() + left_s)
            self._look_later()

    # -- the head's side ----------------------------------------------------------------------------------

    def wanted(self, subjects: Iterable[str]) -> None:
        """Somebody wants subjects or patterns."""
        if self._leaves:
            for subject in subjects:
                self._leaves.wanted(subject)
            if self._soon is None:
                self._soon = asyncio.get_running_loop().call_soon(self._tell)

    def before_names_change(self) -> None:
        """Subjects will mean something else: all leave is taken back, told by the names of now."""
        self.wanted((">",))
        self._tell()

    def when_known(self, done: Callable[[], None]) -> None:
        """Call `done` when every publisher knows that it has no leave on what was wanted so far."""
        self._tell()
        self._leaves.when_known(done)
        self._look_later()

    def _tell(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        told = self._leaves.notices(monotonic())
        if told:
            # The oldest are lost if there are too many: whoever waits does so until the leave has run out.
            self._outbox.extend((client, msgspec.json.encode(self._local(wanted))) for client, wanted in told)
            self._filled.set()
            self._look_later()

    def _local(self, wanted: Wanted) -> Wanted:
        if self._names.plain:
            return wanted
        found = (self._names.names.entering(subject) for subject in wanted.subjects)
        return msgspec.structs.replace(wanted, subjects=tuple(each for each in found if each is not None))

    # -- time ---------------------------------------------------------------------------------------------

    def _look_later(self) -> None:
        if self._later is None and (self._leaves.clients or self._leaves.awaited):
            wait_s = LOOK_EVERY_S if self._leaves.awaited else REST_S
            self._later = asyncio.get_running_loop().call_later(wait_s, self._look)
        elif self._later is not None and self._leaves.awaited:
            loop = asyncio.get_running_loop()
            if self._later.when() > loop.time() + LOOK_EVERY_S:
                self._later.cancel()
                self._later = loop.call_later(LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        self._later = None
        self._leaves.expire(monotonic())
        self._look_later()

    def close(self) -> None:
        """Wait for nothing any more."""
        for handle in (self._soon, self._later):
            if handle is not None:
                handle.cancel()

    # -- the management broker's side ---------------------------------------------------------------------

    async def subscribe(self, connection: Client) -> None:
        """Answer from now on."""
        await connection.subscribe(
            self.subject,
            cb=self._asked,
            pending_msgs_limit=MAX_UNREAD_QUESTIONS,
            pending_bytes_limit=MAX_UNREAD_BYTES,
        )
        await connection.subscribe(
            f"{self._unheard}.>",
            cb=self._not_heard,
            pending_msgs_limit=MAX_UNREAD_QUESTIONS,
            pending_bytes_limit=MAX_UNREAD_BYTES,
        )

    async def deliver(self, connection: Client) -> None:
        """Tell publishers, for as long as a connection lasts or until cancelled."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            while self._outbox:
                client, notice = self._outbox.popleft()
                user, _, name = client.rpartition(".")
                try:
                    await connection.publish(
                        wanted_subject(self._domain, name, user), notice, reply=f"{self._unheard}.{client}"
                    )
                except (nats.errors.Error, OSError):
                    self._leaves.counts[BROKER_AWAY] += 1

    def unread(self) -> None:
        """Publishers asked more than could be read."""
        self._leaves.counts[UNREAD] += 1

    async def _asked(self, message: Msg) -> None:
        answer = self.answer(message.data, speaker_of(message.subject))
        if message.reply:  # who only gives up its leave need not wait for an answer
            await message.respond(msgspec.json.encode(answer))

    async def _not_heard(self, message: Msg) -> None:
        if (message.headers or {}).get("Status") == "503":
            self._leaves.unheard(message.subject.removeprefix(f"{self._unheard}."), monotonic())

    def answer(self, request: bytes, user: str = "") -> AudienceAnswer:
        """Answer a publisher; who cannot be understood has no leave."""
        try:
            if len(request) > MAX_QUESTION_BYTES:
                raise msgspec.DecodeError("too long")
            asked = msgspec.json.decode(request, type=AudienceRequest)
            if user:
                asked = msgspec.structs.replace(asked, client=f"{user}.{asked.client}")
        except UNREADABLE:
            self._leaves.counts[BAD_REQUEST] += 1
            return AudienceAnswer(problem=BAD_REQUEST)
        now = monotonic()
        if self._names.plain:
            answer = self._leaves.ask(asked, now, *self._completeness())
        else:
            renamed = self._by_federation_name(asked.subjects)
            asked = msgspec.structs.replace(asked, subjects=tuple(renamed))
            answer = self._leaves.ask(asked, now, *self._completeness())
            unwanted = tuple(renamed[subject] for subject in answer.unwanted)
            answer = msgspec.structs.replace(answer, unwanted=unwanted)
        if answer.unwanted:
            self._mark.note(now)
        self._look_later()
        return answer

    def figures(self) -> SilenceFigures:
        """For the gateway's account of itself."""
        leaves = self._leaves
        return SilenceFigures(
            clients=leaves.clients,
            leaves=leaves.given,
            taken_back=leaves.taken_back,
            awaited=leaves.awaited,
            refused=dict(leaves.counts),
        )

    def _by_federation_name(self, subjects: Iterable[str]) -> dict[str, str]:
        """Local names by the federation's; without those that do not pass both ways.

        Who in the domain wants the others is not known by a name of the federation, so they are always sent.
        """
        names = self._names.names
        found = {}
        for subject in subjects:
            there = names.leaving(subject)
            if there is not None and names.entering(there) == subject:
                found[there] = subject
        return found
