"""A subscription: an async iterator over messages, or a callback."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from operator import length_hint
from types import TracebackType
from typing import TYPE_CHECKING, Self

from mangrove.client.callbacks import Callbacks
from mangrove.client.message import Message, size_of
from mangrove.client.mirroring.planes import Plane, Planes
from mangrove.client.pending.gap import UNSUBSCRIBED, Gap, Gaps, SlowSubscriberError
from mangrove.client.pending.lag import LagMeter
from mangrove.client.pending.reading import Reading, slow_of, waiting_by
from mangrove.client.publishing import Published
from mangrove.client.recent_ids import RecentIds
from mangrove.client.selection import Selection
from mangrove.client.usefulness.votes import Votes
from mangrove.errors import MangroveError
from mangrove.model.agents.usefulness import Lag
from mangrove.model.congestion.terms import Slow, TopicTerms
from mangrove.model.patterns.cover import has_wildcard

if TYPE_CHECKING:  # only who asks for traces needs them
    from mangrove.client.tracing.message_spans import MessageSpans

log = logging.getLogger(__name__)

Callback = Callable[[Message], Awaitable[None]]


class Subscription:
    """Messages of one subject. Iterate over it, or give a callback; end it with `unsubscribe`.

    Messages come by `feed`, a buffer at a time, and it does not matter from where: whoever serves the
    subscription ends that in `end`. What came, second copies apart, was delivered, waits (`pending`), or was
    left out (`lost`) by the policy for slow subscribers.
    """

    def __init__(
        self,
        subject: str,
        queue: str,
        callback: Callback | None,
        callbacks: Callbacks,
        dropped: Counter[str],
        ready: Callable[[float], Awaitable[None]],
        end: Callable[[Subscription], Awaitable[None]],
        reading: Reading,
        *,
        cut_off: Callable[[Subscription], None],
        votes: Votes | None = None,
        selection: Selection | None = None,
    ) -> None:
        """`cut_off` is called when the policy ends the subscription; `votes` samples what comes.

        Of what comes, only the `selection` is read.
        """
        one_subject = not has_wildcard(subject)
        self.subject = subject
        """What was subscribed to."""
        self.queue = queue
        """The queue group, or an empty string."""
        self.slow = reading.slow
        """What is left out when the reader does not keep up."""
        self.messages = 0
        """Messages that came, second copies and those left out included."""
        self.size_bytes = 0
        """Bytes that came, on the wire."""
        self.mirrored = Published()
        """Of those, what mirrors brought."""
        self.spans: MessageSpans | None = None
        """Traces sampled messages, if that is asked for."""
        self.votes = votes
        """What is said of publishers; None if nobody asks."""
        self._selection = selection
        self._callback = callback
        self._callbacks = callbacks
        self._in_turn = False
        self._dropped = dropped
        self._ready = ready
        self._end = end
        self._cut_off = cut_off
        self._one_subject = one_subject
        self._recent = RecentIds(one_subject=one_subject)
        self._planes: Planes | None = None
        """Instead of `_recent`, of a subscription that has a mirror."""
        self._by_contract = reading.by_contract
        self._waiting = reading.waiting
        self._waiting.take_back = self._take_back
        self._judge = reading.judge
        self._on_gap = reading.on_gap
        self._gaps = Gaps(subject, one_subject=one_subject)
        self._lag = LagMeter()
        self._present: Iterator[Message] = iter(())
        """The rest of what the reader has in hand. Whoever takes it to its end takes it from the reader."""
        self._arrived = asyncio.Event()
        self._calling: asyncio.Task[None] | None = None
        self._ended = False
        """Nothing more comes."""
        self._finished = False
        """Nor is a callback called any more."""
        self._error: MangroveError | None = None

    # -- how messages come --------------------------------------------------------------------------------

    def feed(self, messages: list[Message], size_bytes: int) -> None:
        """Take what a buffer held; second copies, and what the policy leaves out, are counted."""
        if self._ended:
            return
        self.messages += len(messages)
        self.size_bytes += size_bytes
        if self._planes is None:
            fresh = self._recent.fresh(messages)
        else:
            fresh = self._planes.came(Plane.PRIMARY, messages, _now())
            size_bytes = size_bytes * len(fresh) // max(len(messages), 1)
        if fresh:
            self._take(fresh, size_bytes)

    def _take(self, fresh: list[Message], size_bytes: int) -> None:
        if self._selection is not None:
            selected = self._selection.of(fresh)
            size_bytes = size_bytes * len(selected) // len(fresh)
            fresh = selected
            if not fresh:
                return
        if self.spans is not None:
            self.spans.arrived(fresh)
        if self.votes is not None:
            self.votes.offer(fresh)
        lost = self._waiting.put(fresh, size_bytes)
        if lost:
            self._lose(lost)
        if self._callback is None:
            self._arrived.set()
        elif not self._in_turn:
            self._in_turn = True
            self._callbacks.add(self)

    def contracts_changed(self, terms: Sequence[TopicTerms]) -> None:
        """Other contracts hold: what is left out is theirs to say, unless the subscriber has said it.

        What waits, waits on, as far as the new policy lets it.
        """
        slow = slow_of(self.subject, terms)
        if not self._by_contract or slow is self.slow or self._ended:
            return
        before = self._waiting
        self.slow = slow
        self._waiting = waiting_by(slow, before.max_messages, before.max_bytes, self._judge)
        self._waiting.taken_in = before.taken_in - before.messages
        self._waiting.take_back = self._take_back
        while some := before.take():
            if lost := self._waiting.put(some, sum(map(size_of, some))):
                self._lose(lost)

    def new_group(self) -> str:
        """The queue group by which a broker is to serve it; the name says what it selects, if anything."""
        return self.queue if self._selection is None else self._selection.new_group()

    @property
    def where(self) -> str:
        """What it selects by headers; empty if everything."""
        return "" if self._selection is None else self._selection.text

    @property
    def unselected(self) -> int:
        """Messages that came and were left out, because they are not selected."""
        return 0 if self._selection is None else self._selection.left_out

    # -- how they come a second time ----------------------------------------------------------------------

    def mirror(self) -> None:
        """Messages may come by a mirror as well from now on."""
        if self._planes is None:
            self._planes = Planes(self._one_subject)
            self._planes.ids.adopt(self._recent.known())
            self._planes.ids.duplicates = self._recent.duplicates

    def feed_mirrored(self, messages: list[Message], size_bytes: int) -> None:
        """Take what a mirror brought."""
        if self._ended or self._planes is None:
            return
        self.messages += len(messages)
        self.size_bytes += size_bytes
        self.mirrored.messages += len(messages)
        self.mirrored.size_bytes += size_bytes
        fresh = self._planes.came(Plane.MIRROR, messages, _now())
        if fresh:
            self._take(fresh, size_bytes * len(fresh) // max(len(messages), 1))

    def knows(self, subject: str, identity: bytes) -> bool:
        """Whether a message came, by whichever way."""
        return self._planes is not None and self._planes.ids.knows(subject, identity)

    def plane_joins(self, plane: Plane, now: float, *, answers: bool = False) -> None:
        """A way begins, or begins again, while the other lives."""
        if self._planes is not None:
            self._planes.joins(plane, now, answers=answers)

    def plane_lost(self, plane: Plane, now: float) -> None:
        """A way is gone: what waits for it is handed over."""
        if self._planes is not None:
            self._hand_over(self._planes.lost(plane, now))

    def planes_timer(self, now: float) -> None:
        """Time has passed."""
        if self._planes is not None:
            self._hand_over(self._planes.handle_timer(now))

    def _hand_over(self, messages: list[Message]) -> None:
        if messages and not self._ended:
            self._take(messages, sum(map(size_of, messages)))

    def _lose(self, lost: list[Message]) -> None:
        for subject, count in self._gaps.note(lost, self.slow).items():
            if subject not in self._dropped:
                log.warning("this client is too slow for %s: messages are left out (%s)", subject, self.slow)
            self._dropped[subject] += count
        if self.slow is Slow.DISCONNECT:
            self._ended = True
            self._error = SlowSubscriberError(self.subject, self.pending)
            log.warning("%s", self._error.message)
            self._cut_off(self)

    def forbid(self, error: MangroveError) -> None:
        """The broker serves it no more: readers get what has come, and then the error."""
        if not self._ended:
            self._ended = True
            self._error = error
            log.warning("%s", error.message)
            self._arrived.set()
            self._cut_off(self)

    def _take_back(self) -> list[Message]:
        return list(self._present)

    def _take_up(self) -> bool:
        """Go on with the next that wait; whether there are some."""
        messages = self._waiting.take()
        self._present = iter(messages)
        return bool(messages)

    async def call(self) -> None:
        """Await the callback for one message after the other, until none is left."""
        callback = self._callback
        assert callback is not None, "only with a callback it has a turn"
        self._calling = asyncio.current_task()
        try:
            while True:
                if self._gaps.untold:
                    await self._tell_gaps()
                if self._finished or not self._take_up():
                    return
                for message in self._present:
                    try:
                        await callback(message)
                    except Exception:  # the user's code may raise anything; the next message is another
                        log.exception("the callback for %s failed", message.subject)
                    if self._finished:
                        return
        finally:
            self._calling = None
            self._in_turn = False

    # -- what did not come ----------------------------------------------------------------------------------

    @property
    def lost(self) -> Mapping[str, int]:
        """Messages that were left out, by reason."""
        return self._gaps.lost

    def gaps(self) -> list[Gap]:
        """What was left out and has not been told yet, by `take_gaps` or to `on_gap`."""
        return self._gaps.look()

    def take_gaps(self) -> list[Gap]:
        """What was left out since it was told last. After a message has been read: before the next one."""
        return self._gaps.take()

    async def _tell_gaps(self) -> None:
        """Tell what is known by now; what is left out meanwhile is told before the next message but one."""
        if self._on_gap is None:
            return
        for _ in self._gaps.look():
            gap = self._gaps.take_first()
            if gap is None:
                return
            try:
                result = self._on_gap(gap)
                if result is not None:
                    await result
            except Exception:  # the user's code may raise anything; messages go on
                log.exception("on_gap for %s failed", gap.subject)

    def lag(self, now: float) -> Lag | None:
        """How far the reader is behind; None if it keeps up. To be asked once a second."""
        return self._lag.measure(
            now,
            pending=self.pending,
            max_pending=self._waiting.max_messages,
            before_first=self._waiting.before_first - length_hint(self._present),
            taken_in=self._waiting.taken_in,
            lost=self._gaps.lost.total(),
        )

    @property
    def utility_problems(self) -> Mapping[str, int]:
        """Messages whose usefulness could not be judged as it was meant to be, by reason."""
        return self._judge.problems

    # -- how they are read --------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.unsubscribe()

    async def ready(self, timeout: float = 10.0) -> None:
        """Wait until whatever is published from now on, in any domain that can be reached, is sent here.

        Raises TimeoutError with the names of the domains that did not confirm.
        """
        await self._ready(timeout)

    async def __aiter__(self) -> AsyncIterator[Message]:
        self._no_callback()
        while True:
            for message in self._present:
                yield message
            if self._gaps.untold:
                await self._tell_gaps()
            if not self._take_up() and not await self._more():
                if self._error is not None:
                    raise self._error
                return

    async def next(self, timeout: float = 1.0) -> Message:
        """The next message, or TimeoutError."""
        self._no_callback()
        while True:
            for message in self._present:
                return message
            if self._gaps.untold:
                await self._tell_gaps()
            if not self._take_up():
                try:
                    async with asyncio.timeout(timeout):
                        more = await self._more()
                except TimeoutError:
                    raise TimeoutError(f"no message on {self.subject} within {timeout:g} s") from None
                if not more:
                    if self._error is not None:
                        raise self._error
                    raise MangroveError(f"the subscription to {self.subject} has ended")

    async def _more(self) -> bool:
        """Wait for messages; whether some have come before the end."""
        while not self._waiting.messages and not self._ended:
            self._arrived.clear()
            await self._arrived.wait()
        return bool(self._waiting.messages)

    def _no_callback(self) -> None:
        if self._callback is not None:
            raise MangroveError(f"the messages on {self.subject} go to a callback")

    @property
    def duplicates(self) -> int:
        """Second copies that were recognised by their id and left out."""
        return self._recent.duplicates if self._planes is None else self._planes.ids.duplicates

    @property
    def pending(self) -> int:
        """Messages that wait for the reader."""
        return self._waiting.messages + length_hint(self._present)

    # -- how it ends --------------------------------------------------------------------------------------

    async def unsubscribe(self) -> None:
        """End it, and what it asked for. Ending it twice, or after the connection, is no error.

        A callback that runs is cancelled, and what waits for it is left out; a reader gets what has come.
        """
        self.finish()
        await self._end(self)

    def finish(self) -> None:
        """Nothing more will come."""
        self._ended = True
        self._arrived.set()
        if self._callback is not None and not self._finished:
            left = list(self._present)
            while some := self._waiting.take():
                left += some
            if left:
                self._gaps.note(left, UNSUBSCRIBED)
        self._finished = True
        if self._calling is not None and self._calling is not asyncio.current_task():
            self._calling.cancel()


def _now() -> float:
    return asyncio.get_running_loop().time()
