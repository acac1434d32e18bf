"""Keeps what is published while no broker takes it, and sends it in order when one does.

Of each subject either nothing waits and messages are sent at once, or new ones wait behind those that do: so
the order of a publisher on a subject is kept. What was sent just before a broker was lost waits again, first
of all, under its ids: subscribers know what they have.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from mangrove.broker.client_connection import (
    BrokerAwayError,
    ClientConnection,
    NotAllowedError,
    NotCarriedError,
)
from mangrove.client.migration.paused_wire import PublishingWire
from mangrove.client.mirroring.mirrored_wire import MirroredWire
from mangrove.client.offline.aside import Aside
from mangrove.client.offline.backlog import Backlog
from mangrove.client.offline.flight import Flight
from mangrove.client.offline.kept import Dropped, Kept, Reason
from mangrove.client.offline.settings import Offline
from mangrove.client.offline.spool import Spool
from mangrove.client.offline.state import OfflineState, OnOffline
from mangrove.client.offline.urgency import Urgencies
from mangrove.client.publishing import Outcome, Published
from mangrove.model.congestion.terms import TopicTerms

log = logging.getLogger(__name__)

TURN_MESSAGES = 64
TURN_BYTES = 1 << 15
"""So much of one subject is sent before the most urgent one is looked for again."""
TURN_LOOKS = 256
"""Subjects that are looked at in vain before others have their turn in the event loop."""
CONFIRM_S = 0.05
"""How often brokers are asked what they have taken."""
NO_ANSWER_S = 5.0
"""A broker that confirms nothing for so long is taken for lost."""
FULL_S = 0.05
LOOK_S = 1.0
"""How often it is looked for what has waited for too long."""
CLOSE_S = 2.0
MAX_COUNTED = 1_000
"""Subjects whose drops are counted one by one."""
OTHERS = ">"


class Sender(Protocol):
    """What the keeper needs of the connection whose messages it keeps."""

    def wire_of(self, subject: str) -> PublishingWire:
        """Where a subject is published at the moment."""

    def send_kept(self, kept: Kept) -> Outcome:
        """Send a message that has waited, if limits allow it."""

    def wait_s(self, subject: str) -> float:
        """How long a subject is at its limit."""

    def too_large(self, kept: Kept) -> bool:
        """Whether the broker would not take it."""

    async def gateway_back(self, wire: ClientConnection) -> None:
        """Wait until the domain's gateway is there, too, if it is known, for as long as that makes sense."""


class Keeper:
    """Of one connection, for as long as that is open."""

    def __init__(
        self,
        settings: Offline,
        head_form: bytes,
        terms: Iterable[TopicTerms] = (),
        on_change: OnOffline | None = None,
    ) -> None:
        """Takes the folder, if there is to be one: InputError if it cannot be had."""
        self._settings = settings
        self._head_form = head_form
        self._on_change = on_change
        self._backlog = Backlog(settings.max_bytes, settings.max_age_s, Urgencies(terms).of)
        self._aside = Aside(self._backlog, self._open)
        self._flight = Flight()
        self._spool: Spool | None = None
        self._sender: Sender | None = None
        self._next = 1
        self._kept = self._sent_later = self._said_again = self._recovered = self._unreadable = 0
        self._dropped: dict[str, dict[Reason, Published]] = {}
        self._problem = ""
        self._unwritten: dict[int, Kept] = {}
        """What the disk did not take: it is asked again, and all is well when it has everything."""
        self._told_waiting = self._told_full = False
        self._work = asyncio.Event()
        """Set when something may be sent that could not be before."""
        self._room = asyncio.Event()
        self._empty = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._settling: dict[object, asyncio.Task[None]] = {}
        """Connections whose brokers are just back."""
        self._closing = False
        if settings.directory is not None:
            self._spool = Spool(settings.directory, settings.max_bytes)
            self._recover(self._spool)

    def _recover(self, spool: Spool) -> None:
        found = spool.found
        self._unreadable = found.unreadable_bytes
        self._recovered = len(found.waiting)
        if found.unreadable_bytes:
            log.warning("%s: %d bytes could not be read", spool.directory, found.unreadable_bytes)
        if found.waiting:
            self._next = found.waiting[-1].number + 1
            self._drop(self._backlog.put_back(found.waiting))

    def begin(self, sender: Sender) -> None:
        """The connection is there."""
        self._sender = sender
        run = asyncio.get_running_loop().create_task
        self._tasks = [
            run(self._drain(), name="send what was kept"),
            run(self._confirm(), name="ask what has arrived"),
            run(self._watch(), name="look at what waits"),
        ]
        self._changed()

    def adopt(self, terms: Iterable[TopicTerms]) -> None:
        """Contracts have become known."""
        self._backlog.govern(Urgencies(terms).of)
        self._work.set()

    # -- publishing -----------------------------------------------------------------------------------------

    def holds(self, subject: str) -> bool:
        """Whether a message on a subject has to wait."""
        if subject in self._backlog or self._flight.full:
            return True
        return not self._open(self._wire(subject))

    def _open(self, wire: PublishingWire) -> bool:
        """Whether a way leads to a broker that is there, and whose others had the time to come back."""
        if not self._settling:
            return wire.connected
        primary = wire
        if isinstance(wire, MirroredWire):
            if wire.mirrored:
                return True
            primary = wire.primary
        return wire.connected and primary not in self._settling

    async def room(self) -> None:
        """Wait while brokers are behind with confirming what they got."""
        while self._flight.full and not self._closing:
            self._room.clear()
            await self._room.wait()

    def keep(self, subject: str, payload: bytes, head: bytes, reply: str, at_ns: int) -> None:
        """A message waits from now on."""
        kept = Kept(self._number(), at_ns, subject, payload, head, reply)
        self._kept += 1
        self._write(partial(self._to_disk, [kept]))
        self._drop(self._backlog.add(kept))
        self._changed()
        wire = self._wire(subject)
        if self._open(wire):
            self._look_at(subject)
        else:
            self._aside.closed(subject, wire, time.monotonic())

    def sent(
        self, subject: str, payload: bytes, first: int, at_ns: int, head: bytes = b"", reply: str = ""
    ) -> None:
        """A message was sent at once: it may have to be said again."""
        self._flight.add(Kept(self._number(), at_ns, subject, payload, head, reply, first))

    def _number(self) -> int:
        number = self._next
        self._next = number + 1
        return number

    def _wire(self, subject: str) -> PublishingWire:
        assert self._sender is not None, "the connection is there"
        return self._sender.wire_of(subject)

    # -- brokers come and go --------------------------------------------------------------------------------

    def wire_lost(self, wire: ClientConnection) -> None:
        """See `WireListener`: what the broker may have had alone waits again."""
        if self._sender is None:
            return
        # Since that was looked at last, more may have been sent than subscribers would know again.
        self._settle(asyncio.get_running_loop().time())
        self._take_back()

    def wire_back(self, wire: ClientConnection) -> None:
        """See `WireListener`: others need a moment to come back, too."""
        if self._sender is not None and wire not in self._settling:
            self._settling[wire] = asyncio.get_running_loop().create_task(
                self._settle_in(wire, self._sender), name="give others time to come back"
            )

    async def _settle_in(self, wire: ClientConnection, sender: Sender) -> None:
        try:
            await asyncio.sleep(self._settings.settle_s)
            await sender.gateway_back(wire)
        finally:
            self._settling.pop(wire, None)
            self._aside.look()
            self._work.set()

    def routed(self, subject: str) -> None:
        """A subject goes another way."""
        self._look_at(subject)

    def _look_at(self, subject: str) -> None:
        self._backlog.bring_back_subject(subject)
        self._work.set()

    def _take_back(self) -> None:
        taken = self._flight.take_back(lambda subject: not self._wire(subject).connected)
        subjects = {kept.subject for kept in taken}
        names = {subject.encode() for subject in subjects}
        for wire in {self._wire(subject) for subject in subjects}:
            wire.recall(names)  # or it would be sent before what was sent before it
        self._said_again += len(taken)
        again = [self._with_head(kept) for kept in taken]
        self._write(partial(self._to_disk, again))
        self._drop(self._backlog.put_back(again))
        self._room.set()
        self._changed()

    def _with_head(self, kept: Kept) -> Kept:
        if kept.head:
            return kept
        head = self._head_form % (kept.first, kept.at_ns)
        return Kept(kept.number, kept.at_ns, kept.subject, kept.payload, head, kept.reply, again=True)

    # -- sending what waits ---------------------------------------------------------------------------------

    async def _drain(self) -> None:
        while True:
            self._work.clear()
            full, pause_s = self._send_some()
            if full is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(FULL_S):
                        await full.drained()
                self._aside.look()
            elif pause_s <= 0:
                await asyncio.sleep(0)
            else:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._work.wait()

    def _send_some(self) -> tuple[PublishingWire | None, float]:
        """Send some messages of the most urgent subject that can be sent; set aside those that cannot.

        A connection that takes no more for now, if that is why nothing could be sent; how long to wait.
        """
        if not self._backlog.messages or self._flight.full:
            return None, LOOK_S if not self._backlog.messages else CONFIRM_S
        assert self._sender is not None
        now = time.monotonic()
        self._aside.bring_back(now)
        for _ in range(TURN_LOOKS):
            subject = next(self._backlog.by_urgency(), None)
            if subject is None:
                return self._aside.full, self._aside.pause_s(now)
            wire = self._wire(subject)
            if not self._open(wire) or wire.full:
                self._aside.closed(subject, wire, now)
                continue
            began = time.monotonic()
            if self._send_turn(subject, wire):
                self._backlog.had_its_turn(subject)
                self._changed()
                return None, 0.0
            self._aside.limited(subject, self._sender.wait_s(subject), began)
        return None, 0.0

    def _send_turn(self, subject: str, wire: PublishingWire) -> bool:
        """Whether anything of a subject was sent or dropped."""
        now_ns = time.time_ns()
        left, size_bytes = 0, 0
        while left < TURN_MESSAGES and size_bytes < TURN_BYTES:
            kept = self._backlog.first(subject)
            if kept is None or wire.full or self._flight.full:
                break
            if not self._send_one(kept, now_ns):
                break
            left += 1
            size_bytes += len(kept.payload)
        return left > 0

    def _send_one(self, kept: Kept, now_ns: int) -> bool:
        """Whether the first message of a subject is done with."""
        assert self._sender is not None
        reason = self._backlog.expiry(kept, now_ns)
        if reason is None and self._sender.too_large(kept):
            reason = Reason.TOO_LARGE
        if reason is None:
            try:
                outcome = self._sender.send_kept(kept)
            except BrokerAwayError:
                return False
            except NotAllowedError:
                reason = Reason.NOT_ALLOWED
            except NotCarriedError:
                reason = Reason.NOT_CARRIED
            except Exception:  # one message must not keep all behind it from being sent
                log.exception("a message on %s that was kept cannot be sent", kept.subject)
                reason = Reason.NOT_CARRIED
            else:
                if outcome is Outcome.LIMITED:
                    return False
                reason = Reason.UNWANTED if outcome is Outcome.UNWANTED else None
        self._backlog.take(kept.subject)
        if reason is not None:
            self._drop([Dropped(kept, reason)])
        else:
            self._sent_later += not kept.again
            self._flight.add(kept)
        return True

    # -- what has arrived -----------------------------------------------------------------------------------

    async def _confirm(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(CONFIRM_S)
            await self._ask()
            self._settle(loop.time())

    async def _ask(self) -> None:
        """Ask all brokers that something was sent to whether they have it."""
        subjects = self._flight.unconfirmed()
        if not subjects:
            return
        end, takes = self._flight.end, self._flight.takes
        wires = {self._wire(subject) for subject in subjects}
        answers = await asyncio.gather(*(wire.flush(NO_ANSWER_S) for wire in wires), return_exceptions=True)
        for wire, answer in zip(wires, answers, strict=True):
            if isinstance(answer, TimeoutError):
                wire.abandon("the broker confirms nothing")
            elif isinstance(answer, BaseException) and not isinstance(answer, BrokerAwayError):
                raise answer
        if not any(isinstance(answer, BaseException) for answer in answers):
            self._flight.confirm(end, takes, asyncio.get_running_loop().time())
            self._room.set()
            self._work.set()

    def _settle(self, now: float) -> None:
        settled = self._flight.settle(now)
        if settled:
            self._forget(settled)

    # -- what does not wait any longer ----------------------------------------------------------------------

    def _drop(self, dropped: list[Dropped]) -> None:
        if not dropped:
            return
        for kept, reason in dropped:
            subject = kept.subject
            if subject not in self._dropped and len(self._dropped) >= MAX_COUNTED:
                subject = OTHERS
            counts = self._dropped.setdefault(subject, {})
            counts.setdefault(reason, Published()).add(len(kept.payload))
        self._forget([kept for kept, _ in dropped])
        if not self._told_full and any(reason is Reason.TOO_MUCH for _, reason in dropped):
            self._told_full = True
            log.warning("too much waits for a broker: the oldest of the least urgent messages are dropped")
            self._tell()

    def _forget(self, over: list[Kept]) -> None:
        if self._spool is not None:
            for kept in over:
                self._unwritten.pop(kept.number, None)
            self._write(partial(self._spool.done, [kept.number for kept in over]))

    def _changed(self) -> None:
        """Tell when messages begin to wait, and when none does."""
        waiting = self._backlog.messages > 0
        if waiting:
            self._empty.clear()
        else:
            self._empty.set()
        if waiting != self._told_waiting:
            self._told_waiting = waiting
            self._told_full = self._told_full and waiting
            self._tell()

    def _tell(self) -> None:
        if self._on_change is not None:
            asyncio.get_running_loop().call_soon(_call, self._on_change, self.state())

    async def _watch(self) -> None:
        """Drop what has waited for too long, and have the disk take what was written."""
        pause_s = min(LOOK_S, self._settings.sync_s or LOOK_S)
        synced_s = 0.0
        while True:
            await asyncio.sleep(pause_s)
            self._drop(self._backlog.expire(time.time_ns()))
            self._changed()
            self._catch_up(self._unwritten.values())
            now = asyncio.get_running_loop().time()
            if self._spool is not None and now >= synced_s + self._settings.sync_s:
                synced_s = now
                sync = self._spool.sync_later()
                if sync is not None:
                    try:
                        await asyncio.to_thread(sync)
                    except OSError as error:
                        self._failed(error)

    # -- disk -----------------------------------------------------------------------------------------------

    def _to_disk(self, some: list[Kept]) -> None:
        if self._spool is not None:
            self._unwritten |= {kept.number: kept for kept in some}
            for kept in some:
                self._spool.keep(kept)
                del self._unwritten[kept.number]
            if not self._settings.sync_s:
                self._spool.sync()

    def _catch_up(self, unwritten: Iterable[Kept]) -> None:
        """Ask the disk again for what it did not take."""
        if self._spool is not None and self._spool.behind:
            self._write(self._spool.tell_done)
        if self._unwritten:
            self._write(partial(self._to_disk, list(unwritten)))

    def _write(self, write: Callable[[], None]) -> None:
        """A disk that fails keeps nobody from publishing: memory has it all the same."""
        if self._spool is None:
            return
        try:
            write()
        except OSError as error:
            self._failed(error)
        else:
            if not (self._unwritten or self._spool.behind):
                self._problem = ""

    def _failed(self, error: OSError) -> None:
        if not self._problem:
            log.error("%s: the disk does not take what is written: %s", self._settings.directory, error)
        self._problem = error.strerror or str(error)

    # -- what others ask ------------------------------------------------------------------------------------

    def state(self) -> OfflineState:
        """What there is to see."""
        oldest_ns = self._backlog.oldest_ns()
        return OfflineState(
            messages=self._backlog.messages,
            size_bytes=self._backlog.size_bytes,
            since=None if oldest_ns is None else oldest_ns / 1e9,
            kept=self._kept,
            sent=self._sent_later,
            said_again=self._said_again,
            recovered=self._recovered,
            unreadable_bytes=self._unreadable,
            shortened=self._flight.shortened,
            dropped={subject: dict(counts) for subject, counts in self._dropped.items()},
            problem=self._problem,
        )

    async def flush(self, timeout_s: float) -> None:
        """Wait until nothing waits any longer; TimeoutError if that takes too long."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._empty.wait()
        except TimeoutError:
            raise TimeoutError(f"{self._backlog.messages:,} messages wait for a broker") from None

    async def close(self) -> None:
        """Send what can be sent soon; the rest stays on disk, if that has it, and is lost otherwise."""
        if self._closing:
            return
        self._closing = True
        self._room.set()
        if self._tasks:
            if any(self._wire(subject).connected for subject in self._backlog.subjects()):
                with contextlib.suppress(TimeoutError):
                    await self.flush(CLOSE_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self._ask()
            tasks = [*self._tasks, *self._settling.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._settle(float("inf"))
            self._take_back()
        # The smallest first: so the disk gets as many of them as it has room for.
        self._catch_up(sorted(self._unwritten.values(), key=lambda kept: kept.size_bytes))
        self._give_up_unwritten()
        if self._spool is not None:
            self._spool.close()

    def _give_up_unwritten(self) -> None:
        """Nobody will send what is in memory alone."""
        spool = self._spool
        lost = {kept.number for kept in self._backlog if spool is None or kept.number not in spool}
        if lost:
            log.warning("%d messages that waited for a broker were not sent", len(lost))
            left = [self._backlog.take(kept.subject) for kept in list(self._backlog)]
            self._backlog.put_back(kept for kept in left if kept.number not in lost)
            self._drop([Dropped(kept, Reason.CLOSED) for kept in left if kept.number in lost])


def _call(on_change: OnOffline, state: OfflineState) -> None:
    try:
        on_change(state)
    except Exception:  # the user's code may raise anything; what waits does so all the same
        log.exception("on_offline failed")
