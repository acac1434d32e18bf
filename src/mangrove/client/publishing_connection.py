"""The half of a connection that publishes: every message is sent, or its publisher is told why not."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mangrove.broker.client_connection import (
    BrokerAwayError,
    ClientConnection,
    NoResponderError,
    NotAllowedError,
)
from mangrove.broker.message_heads import encode_head
from mangrove.client.filtering.denials import PublishingDenials
from mangrove.client.filtering.publish_filter import PublishFilter
from mangrove.client.filtering.silence import Silence
from mangrove.client.management.link import ManagementLink
from mangrove.client.message import HEAD_BYTES, Message, MessageIds, stamped
from mangrove.client.migration.paused_wire import PublishingWire
from mangrove.client.offline.kept import Kept
from mangrove.client.offline.state import OfflineState
from mangrove.client.publishing import Outcome, Published, Withheld
from mangrove.client.usefulness.headers import usefulness_headers
from mangrove.errors import InputError, MangroveError
from mangrove.host.tracing.tracer import tracing_asked_for
from mangrove.model.congestion.rate_limit import RateLimit
from mangrove.model.subjects import is_internal, subject_problem

if TYPE_CHECKING:  # it loads what makes keys, which only clients of a domain with a name need
    from mangrove.client.management.managed import Managed
    from mangrove.client.offline.keeper import Keeper
    from mangrove.client.tracing.message_spans import MessageSpans

log = logging.getLogger(__name__)

MAX_OUTLETS = 1 << 14
"""Subjects whose lines are kept, and that are counted one by one."""
WITHHELD_A_TURN = 256
"""Who publishes in vain so often in a row lets others have their turn."""
CATCHING_UP = 0.25
"""What waited for a broker keeps to four fifths of a limit: at the very limit, messages that come to the
gateway in lumps would be dropped there."""
SENT = Outcome.SENT


class NotConnectedError(MangroveError):
    """No broker could be reached."""


class LoginError(NotConnectedError):
    """The brokers do not let this client in, or are not to be believed themselves."""


class MessageTooLargeError(MangroveError):
    """A message above the federation's limit; it was not sent."""

    def __init__(self, subject: str, size_bytes: int, limit_bytes: int) -> None:
        self.subject = subject
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        super().__init__(
            f"the message of {size_bytes} bytes on {subject} is larger than the limit of {limit_bytes} bytes",
            hint="send less, or raise max_message_bytes in the federation file",
        )


Keeping = Callable[[bytes], "Keeper"]
"""Makes a keeper of a connection whose usual heads have this form."""


class PublishingConnection:
    """Publishes at one connection, and some subjects at others; holds back what is not to be sent."""

    def __init__(
        self,
        publisher: ClientConnection,
        publishing: PublishFilter,
        link: ManagementLink | None,
        managed: Managed | None,
        keeping: Keeping | None = None,
    ) -> None:
        """With `keeping`, what no broker takes at the moment is kept."""
        self._publisher = publisher
        self._elsewhere: dict[str, PublishingWire] = {}
        """Of subjects that are not published at the head."""
        self._ids = MessageIds()
        self._filter = publishing
        self._outlets = publishing.outlets
        self._gates = publishing.gates
        self._silence: Silence | None = None
        self._managed: Managed | None = None
        self._manage(link, managed)
        self._denials = PublishingDenials(publishing)
        self._in_vain = 0
        self._spans = self._begin_traces() if tracing_asked_for() else None
        self.refused: Counter[str] = Counter()
        """Messages that were too large to be sent, by subject."""
        self.published_elsewhere = Published()
        """What was published on subjects that are not counted one by one: replies, and beyond a limit."""
        self._keeper: Keeper | None = None
        if keeping is not None:
            self._keeper = keeping(self._ids.head_form)
            # What is sent may have to be said again: nothing takes the short way.
            self._outlets, self._gates = {}, {}
            vars(self).update(_publish=self._publish_or_keep)

    def _manage(self, link: ManagementLink | None, managed: Managed | None) -> None:
        """The domain's management broker is known, or not."""
        if link is not None:
            self._silence = Silence(link, self._filter)
        self._managed = managed

    def _begin_traces(self) -> MessageSpans | None:
        """Trace some of what is published from now on; who does not ask for it has no step more."""
        from mangrove.client.tracing.message_spans import MessageSpans

        spans = MessageSpans.from_environment()
        if spans is None:
            return None
        publish, publish_nowait = self.publish, self.publish_nowait

        async def traced(
            subject: str, data: bytes = b"", *, headers: Mapping[str, str] | None = None, **more: Any
        ) -> Outcome:
            sample, start_ns = spans.sample(headers), time.time_ns()
            if sample is None:
                return await publish(subject, data, headers=headers, **more)
            outcome = await publish(subject, data, headers=sample.headers(headers), **more)
            spans.published(sample, subject, start_ns, outcome)
            return outcome

        def traced_nowait(
            subject: str, data: bytes = b"", *, headers: Mapping[str, str] | None = None, **more: Any
        ) -> Outcome:
            sample, start_ns = spans.sample(headers), time.time_ns()
            if sample is None:
                return publish_nowait(subject, data, headers=headers, **more)
            outcome = publish_nowait(subject, data, headers=sample.headers(headers), **more)
            spans.published(sample, subject, start_ns, outcome)
            return outcome

        vars(self).update(publish=traced, publish_nowait=traced_nowait)
        return spans

    async def publish(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        reply: str = "",
        keywords: Iterable[str] | None = None,
        utility: float | None = None,
    ) -> Outcome:
        """Publish a message with a unique id and the present time in its headers, unless it is held back.

        `Outcome.LIMITED` says that a limit is reached, `Outcome.UNWANTED` that nobody in the federation
        subscribes; only `Outcome.SENT` is true. `connect(when_limited=…)` makes it wait or raise instead.

        `keywords` say what the message is about, `utility` how useful it is to anybody, from 0 to 1: by them
        subscribers judge it whose own function does not.

        Waits while the broker takes no more. What is published while the broker is away waits for its return,
        up to a limit; then NotConnectedError. With `connect(offline=…)` it is kept within bounds that you
        set, and `Outcome.KEPT` says so. NotAllowedError if a broker has refused the subject, by the
        rules of the federation; of the message that it refused first, `flush` tells.
        """
        if keywords is not None or utility is not None:
            headers = usefulness_headers(headers, keywords, utility)
        wire = self._elsewhere.get(subject, self._publisher) if self._elsewhere else self._publisher
        while wire.full:
            await wire.drained()
            wire = self._elsewhere.get(subject, self._publisher)
        if not headers and not reply and len(data) <= wire.max_payload - HEAD_BYTES:
            # As in publish_nowait, without the way there: most messages go here.
            outlet = self._outlets.get(subject)
            if outlet is None:
                gate = self._gates.get(subject)
                if gate is not None and gate.outlet.messages < gate.until and len(data) <= gate.most_bytes:
                    outlet = gate.outlet
            if outlet is not None:
                try:
                    outlet.publish(data, self._ids.count(), time.time_ns())
                except BrokerAwayError as error:
                    raise NotConnectedError(f"could not publish on {subject}: {error.message}") from None
                return SENT
        return await self._publish_or_withhold(subject, data, headers, reply, awaited=bool(reply))

    async def _publish_or_withhold(
        self, subject: str, data: bytes, headers: Mapping[str, str] | None, reply: str, *, awaited: bool
    ) -> Outcome:
        if self._keeper is not None:
            await self._keeper.room()
        outcome = self._publish(subject, data, headers, reply, awaited=awaited)
        if outcome is Outcome.LIMITED and self._filter.waits:
            self._filter.delay(subject, len(data))
            while outcome is Outcome.LIMITED:
                await self._filter.room(subject)
                outcome = self._publish(subject, data, headers, reply, awaited=awaited)
        if outcome is SENT:
            return SENT
        self._in_vain += 1
        if not self._in_vain % WITHHELD_A_TURN:
            await asyncio.sleep(0)
        return self._filter.withhold(subject, outcome, len(data))

    def publish_nowait(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        reply: str = "",
        keywords: Iterable[str] | None = None,
        utility: float | None = None,
    ) -> Outcome:
        """Publish from code that cannot wait: NotConnectedError if the broker takes no more for now."""
        if keywords is not None or utility is not None:
            headers = usefulness_headers(headers, keywords, utility)
        outcome = self._publish(subject, data, headers, reply, awaited=bool(reply))
        return SENT if outcome is SENT else self._filter.withhold(subject, outcome, len(data))

    def _publish(
        self, subject: str, data: bytes, headers: Mapping[str, str] | None, reply: str, *, awaited: bool
    ) -> Outcome:
        """Publish, if nothing holds it back; what somebody waits for, or answers, is never unwanted."""
        bare = not headers and not reply
        self._denials.check(subject)
        outlet = self._outlets.get(subject)
        if outlet is None and subject not in self._gates:
            self._new_outlet(subject)
            outlet = self._outlets.get(subject)
        self._check_size(subject, len(data) + HEAD_BYTES if bare else len(data))
        if outlet is None:
            outcome = self._filter.judge(subject, len(data), awaited=awaited)
            if outcome is not SENT:
                return outcome
            outlet = self._filter.outlet(subject)
        try:
            if outlet is not None and bare:
                outlet.publish(data, self._ids.count(), time.time_ns())
                return SENT
            head = encode_head(stamped(headers, self._ids))
            self._check_size(subject, len(head) + len(data))
            self._elsewhere.get(subject, self._publisher).publish(subject, data, reply=reply, head=head)
        except BrokerAwayError as error:
            raise NotConnectedError(f"could not publish on {subject}: {error.message}") from None
        self._count(subject, len(data))
        return SENT

    def _count(self, subject: str, size_bytes: int) -> None:
        counted = self._filter.outlet(subject) or self.published_elsewhere
        counted.messages += 1
        counted.size_bytes += size_bytes

    # -- while no broker is there ---------------------------------------------------------------------------

    def _publish_or_keep(
        self, subject: str, data: bytes, headers: Mapping[str, str] | None, reply: str, *, awaited: bool
    ) -> Outcome:
        """As `_publish`; what cannot be sent now, or not before something else, is kept.

        Answers, and what else has a subject of ours, are for who waits for them now: they are not kept.
        """
        if is_internal(subject):
            return PublishingConnection._publish(self, subject, data, headers, reply, awaited=awaited)
        keeper = self._keeper
        assert keeper is not None
        self._denials.check(subject)
        if self._filter.outlet(subject) is None:
            self._new_outlet(subject)
        bare = not headers and not reply
        self._check_size(subject, len(data) + HEAD_BYTES if bare else len(data))
        holds = keeper.holds(subject)
        if not holds:
            outcome = self._filter.judge(subject, len(data), awaited=awaited)
            if outcome is not SENT:
                return outcome
        outlet = self._filter.outlet(subject)
        if bare:
            head, count = b"", self._ids.count()
        else:
            head, count = encode_head(stamped(headers, self._ids)), 0
            self._check_size(subject, len(head) + len(data))
        at_ns = time.time_ns()
        if not holds:
            try:
                if outlet is not None and bare:
                    outlet.publish(data, count, at_ns)
                else:
                    head = head or self._ids.head_form % (count, at_ns)
                    self.wire_of(subject).publish(subject, data, reply=reply, head=head)
                    self._count(subject, len(data))
                keeper.sent(subject, data, count, at_ns, head, reply)
                return SENT
            except BrokerAwayError:
                log.debug("a message on %s is kept", subject)
        keeper.keep(subject, data, head or self._ids.head_form % (count, at_ns), reply, at_ns)
        return Outcome.KEPT

    def wire_of(self, subject: str) -> PublishingWire:
        """See `Sender`."""
        return self._elsewhere.get(subject, self._publisher)

    def wait_s(self, subject: str) -> float:
        """See `Sender`."""
        return self._filter.wait_s(subject)

    def too_large(self, kept: Kept) -> bool:
        """See `Sender`."""
        return len(kept.head) + len(kept.payload) > self._publisher.max_payload

    def send_kept(self, kept: Kept) -> Outcome:
        """See `Sender`. What was sent before has been paid for and counted."""
        subject = kept.subject
        self._denials.check(subject)
        if self._filter.outlet(subject) is None:
            self._new_outlet(subject)
        if not kept.again:
            outcome = self._filter.judge(subject, len(kept.payload), awaited=bool(kept.reply))
            if outcome is not SENT:
                return outcome
            self._filter.charge(subject, CATCHING_UP, len(kept.payload))
        self.wire_of(subject).publish(subject, kept.payload, reply=kept.reply, head=kept.head)
        if not kept.again:
            self._count(subject, len(kept.payload))
        return SENT

    @property
    def offline(self) -> OfflineState:
        """What waits for a broker, since when, what was given up: nothing without `connect(offline=…)`."""
        return OfflineState() if self._keeper is None else self._keeper.state()

    # -- ways -----------------------------------------------------------------------------------------------

    def _new_outlet(self, subject: str) -> None:
        """An outlet for a subject that is published on for the first time, if it is worth one."""
        check_subject(subject, wildcards=False)
        if is_internal(subject) or len(self._outlets) + len(self._gates) >= MAX_OUTLETS:
            return
        self._filter.add(subject, self._publisher.outlet(subject, self._ids.head_form))
        if self._managed is not None:
            self._managed.published(subject)
        if self._silence is not None:
            self._silence.begin()

    def _route(self, subject: str, wire: PublishingWire) -> None:
        """Publish a subject at another connection from now on, and at its mirrors if it has some."""
        if self._managed is not None:
            wire = self._managed.mirroring.publishers.routed(subject, wire)
        if wire is self._publisher:
            self._elsewhere.pop(subject, None)
        else:
            self._elsewhere[subject] = wire
        before = self._filter.outlet(subject)
        if before is not None:
            outlet = wire.outlet(subject, self._ids.head_form)
            outlet.messages, outlet.size_bytes = before.messages, before.size_bytes
            self._filter.replace(subject, outlet)
        if self._keeper is not None:
            self._keeper.routed(subject)

    @property
    def origin(self) -> str:
        """How the ids of this connection's messages begin; subscribers tell publishers apart by it."""
        return self._ids.prefix

    @property
    def denied(self) -> Mapping[str, int]:
        """How often brokers refused to take or to send something by the rules of the federation, by what."""
        return dict(self._denials.counts)

    @property
    def limits(self) -> Mapping[str, RateLimit]:
        """Limits in force on subjects that were published on; `>` is what all may have together."""
        return dict(self._filter.limits)

    @property
    def withheld(self) -> Mapping[str, Withheld]:
        """What was not sent, or not at once, because of a limit or because nobody subscribed, by subject."""
        return {subject: counts for subject, counts in self._filter.withheld.items() if counts}

    def published(self) -> dict[str, Published]:
        """What was published so far, by subject."""
        return {
            subject: Published(outlet.messages, outlet.size_bytes)
            for subject, outlet in self._filter.all_outlets().items()
        }

    async def request(
        self,
        subject: str,
        data: bytes = b"",
        *,
        timeout: float = 2.0,
        headers: Mapping[str, str] | None = None,
    ) -> Message:
        """Send a request and wait for the first answer, from whichever domain.

        It counts as a message of its subject: beyond a limit LimitedError is raised, or it waits if
        `connect(when_limited="wait")` says so. Its `timeout` begins when it is sent.
        """
        check_subject(subject, wildcards=False)
        await self._admit(subject, len(data))
        head = encode_head(stamped(headers, self._ids))
        self._check_size(subject, len(head) + len(data))
        wire = self._publisher
        while wire.full:
            await wire.drained()
        try:
            answer: Message = await wire.request(
                subject, data, timeout_s=timeout, head=head, form=Message, origin=self._respond
            )
        except NotAllowedError:
            self._denials.told(subject)
            raise
        except NoResponderError:
            raise MangroveError(
                f"nobody in the federation answers on {subject}", hint="start the service, or wait for it"
            ) from None
        except TimeoutError:
            raise TimeoutError(f"no answer on {subject} within {timeout:g} s") from None
        except BrokerAwayError as error:
            raise NotConnectedError(f"could not send a request on {subject}: {error.message}") from None
        return answer

    async def _admit(self, subject: str, size_bytes: int) -> None:
        """Hold a request back while it is beyond a limit."""
        if self._filter.outlet(subject) is None and self._filter.limited(subject):
            self._new_outlet(subject)
        if self._filter.judge(subject, size_bytes, awaited=True, counted=False):
            return
        if not self._filter.waits:
            self._filter.withhold(subject, Outcome.LIMITED, size_bytes)
            raise self._filter.error(subject)
        self._filter.delay(subject, size_bytes)
        while not self._filter.judge(subject, size_bytes, awaited=True, counted=False):
            await self._filter.room(subject)

    async def flush(self, timeout: float = 5) -> None:
        """Wait until the broker has taken everything that was published.

        NotAllowedError if it refused something by the rules of the federation. What is kept for a broker's
        return is waited for, too.
        """
        try:
            if self._keeper is not None:
                await self._keeper.flush(timeout)
            for wire in {*self._elsewhere.values()}:
                await wire.flush(timeout)
            # What goes elsewhere, or to a mirror as well, does not depend on the head.
            at_head = self._filter.all_outlets().keys() - self._elsewhere.keys()
            if at_head or not self._elsewhere or self.published_elsewhere.messages:
                await self._publisher.flush(timeout)
        except (BrokerAwayError, TimeoutError) as error:
            raise NotConnectedError(f"the broker did not confirm: {error}") from None
        self._denials.tell()

    async def _respond(self, reply: str, data: bytes, headers: Mapping[str, str] | None) -> Outcome:
        wire = self._elsewhere.get(reply, self._publisher)
        while wire.full:
            await wire.drained()
        return await self._publish_or_withhold(reply, data, headers, "", awaited=True)

    def _check_size(self, subject: str, size_bytes: int) -> None:
        if size_bytes > self._publisher.max_payload:
            self.refused[subject] += 1
            error = MessageTooLargeError(subject, size_bytes, self._publisher.max_payload)
            log.error("%s", error.message)
            raise error


def check_subject(subject: str, *, wildcards: bool) -> None:
    """InputError if nobody can publish on it, or subscribe to it if `wildcards`."""
    problem = subject_problem(subject, wildcards=wildcards)
    if problem:
        raise InputError(f"{subject!r} is not a valid subject: {problem}")
