"""Which messages a gateway transforms, and what becomes of them.

What is to be transformed where it is received is told by the class of its frame, so a message is dealt with
by the contract under which it was sent, whatever holds meanwhile; what is transformed where it is sent, by
the contract that holds then. Everything else passes as if there were no transforms: all that it costs is one
question for each frame, or for each new line.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping

from mangrove.gateway.ledger import Ledger
from mangrove.gateway.mediation.exchange import Failure
from mangrove.gateway.mediation.job import Job, Named, dead_letter, letter_subject, split, written
from mangrove.gateway.mediation.lane import Lane
from mangrove.model.federation import Federation
from mangrove.model.mediation.figures import TransformFigures
from mangrove.model.mediation.transform import Place, Transform, TransformUse
from mangrove.model.subjects import DEAD_LETTER_PREFIX, is_internal
from mangrove.model.topics import Contract
from mangrove.model.versions.rules_in_force import Rules
from mangrove.overlay.protocol.bodies import Message

Deliver = Callable[[bytes, str], None]
"""Takes messages that came from a domain, or from nowhere but here."""


class Way:
    """The way of one class of messages: through a lane, and there by a transform or only in turn."""

    def __init__(self, lane: Lane, use: Named | None) -> None:
        self._lane = lane
        self.use = use

    @property
    def needed(self) -> bool:
        """Whether messages must go this way: without a transform, only behind those that are still on it."""
        return self.use is not None or len(self._lane) > 0

    def concerns(self, subject: str) -> bool:
        """Whether a subject is one of the topic's: not an answer's, nor that of a dead letter."""
        return not is_internal(subject) and not subject.startswith(DEAD_LETTER_PREFIX)

    def flow(self, line: bytes, message: Message, origin: Callable[[], str]) -> MediatedFlow:
        """The flow of the messages with a line, which becomes `message`."""
        return MediatedFlow(self._lane, self.use, len(line), message, origin)


class MediatedFlow:
    """The messages of one line, on their way into a lane."""

    __slots__ = ("_lane", "_line_bytes", "_message", "_origin", "_use")

    def __init__(
        self, lane: Lane, use: Named | None, line_bytes: int, message: Message, origin: Callable[[], str]
    ) -> None:
        self._lane = lane
        self._use = use
        self._line_bytes = line_bytes
        self._message = message
        self._origin = origin

    def take(self, messages: bytes) -> None:
        """A run of messages."""
        self._lane.take(split(messages, self._line_bytes, self._message, self._origin(), self._use))


class Mediation:
    """All transforms of a gateway, and the processes in which they run."""

    def __init__(self, federation: Federation, rules: Rules, ledger: Ledger) -> None:
        self._rules = rules
        self._ledger = ledger
        self._max_message_bytes = federation.max_message_bytes
        self._queue_bytes = federation.queue_bytes
        self._named = {name: Named(name, each) for name, each in federation.transforms.items()}
        self._lanes: dict[tuple[Place, str], Lane] = {}
        self._ways: dict[tuple[Place, str, str], Way] = {}
        self._ways_in: dict[int, Way | None] = {}
        self._deliver: Deliver = lambda body, origin: None
        self._send: Callable[[bytes], None] = lambda body: None
        self._groups: Callable[[str], tuple[str, ...]] = lambda subject: ()
        self._tasks: asyncio.TaskGroup | None = None
        self._unwatched: list[Lane] = []
        self._transformed: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._failed: dict[str, Counter[str]] = {}
        self._started: Counter[str] = Counter()

    def join(
        self, deliver: Deliver, send: Callable[[bytes], None], groups: Callable[[str], tuple[str, ...]]
    ) -> None:
        """`deliver` takes what is for this domain, `send` what is for others; `groups` knows the queue groups
        of this domain on a subject. Told once, before all else."""
        self._deliver, self._send, self._groups = deliver, send, groups
        self.contracts_changed()

    def transforms_changed(self, transforms: Mapping[str, Transform]) -> None:
        """Transforms are other ones, for messages that come from now on. One that is gone is kept for those
        of contracts that were withdrawn."""
        for name, each in transforms.items():
            known = self._named.get(name)
            if known is None or known.transform != each:
                self._named[name] = Named(name, each)
        self._ways = {key: way for key, way in self._ways.items() if way.use in (None, *self._named.values())}

    def contracts_changed(self) -> None:
        """Other contracts hold. Messages of a class are served as before, in one lane for each match."""
        known = self._rules.known()
        transformed = {each.match for each in known.values() if self._use(each.transform, Place.RECEIVING)}
        self._ways_in = {
            topic_class: self._way(Place.RECEIVING, each) if each.match in transformed else None
            for topic_class, each in known.items()
        }
        self._ways_in[self._rules.unmatched] = None

    async def run(self) -> None:
        """Look after processes until cancelled; then end them all."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for lane in self._unwatched:
                    self._look_after(lane)
                await asyncio.get_running_loop().create_future()
            finally:
                self._tasks = None

    # -- where messages go ----------------------------------------------------------------------------------

    def way_in(self, topic_class: int) -> Way | None:
        """How messages of a frame of this class come in; None: as they are."""
        if topic_class not in self._ways_in and topic_class in self._rules.known():
            self.contracts_changed()  # of a version that does not hold here yet
        way = self._ways_in.get(topic_class)
        return way if way is not None and way.needed else None

    def way_out(self, subject: str) -> Way | None:
        """How messages on a subject leave; None: as they are."""
        contract = self._rules.contract_of(subject)
        if contract.transform is None and (Place.SENDING, contract.match) not in self._lanes:
            return None
        way = self._way(Place.SENDING, contract)
        return way if way.needed and way.concerns(subject) else None

    def _way(self, place: Place, contract: Contract) -> Way:
        """Always the same one for the same, because lines are known by it."""
        use = self._use(contract.transform, place)
        key = place, contract.match, "" if use is None else use.name
        if key not in self._ways:
            self._ways[key] = Way(self._lane(place, contract.match), use)
        return self._ways[key]

    def _use(self, asked: TransformUse | None, place: Place) -> Named | None:
        if asked is None or asked.at is not place:
            return None
        return self._named.get(asked.use) or self._named.setdefault(asked.use, Named(asked.use, None))

    def _lane(self, place: Place, match: str) -> Lane:
        if (place, match) not in self._lanes:
            hand_on = self._deliver if place is Place.RECEIVING else (lambda body, origin: self._send(body))
            self._lanes[place, match] = Lane(
                match,
                _Sink(self, hand_on),
                max_message_bytes=self._max_message_bytes,
                queue_bytes=self._queue_bytes,
                look_after=self._look_after,
                started=self._started,
            )
        return self._lanes[place, match]

    def _look_after(self, lane: Lane) -> None:
        if self._tasks is None:
            self._unwatched.append(lane)
        else:
            self._tasks.create_task(lane.run(), name=f"transforms of {lane.match}")

    # -- what became of them --------------------------------------------------------------------------------

    def passed(self, job: Job) -> None:
        """Count a message that goes on."""
        if job.use is not None:
            self._transformed[job.use.name] += 1

    def left_out(self, job: Job) -> None:
        """Book a message that its transform does not let pass."""
        name = "" if job.use is None else job.use.name
        self._left_out[name] += 1
        self._ledger.drop(job.message.subject, f"left out by the transform {name}")

    def failed(self, job: Job, failure: Failure, detail: str) -> bytes:
        """Book a message that could not be transformed; the letter that tells of it."""
        name = "" if job.use is None else job.use.name
        reason = f"the transform {name} {failure.value}"
        self._failed.setdefault(name, Counter())[failure.value] += 1
        self._ledger.drop(job.message.subject, reason)
        subject = letter_subject(job.message.subject)
        told = f"{reason}: {detail}" if detail else reason
        return dead_letter(job, told, self._groups(subject), self._max_message_bytes)

    def dropped(self, job: Job) -> None:
        """Book a message for which there is no room."""
        name = "" if job.use is None else job.use.name
        self._ledger.drop(job.message.subject, f"too much waits for the transform {name}")

    def deliver_here(self, letters: bytes) -> None:
        """Dead letters are told in the domain of the gateway where they died."""
        self._deliver(letters, "")

    def figures(self) -> dict[str, TransformFigures]:
        """What was counted, by transform."""
        waiting: Counter[str] = Counter()
        for lane in self._lanes.values():
            waiting[lane.awaited] += len(lane)
        return {
            name: TransformFigures(
                transformed=self._transformed[name],
                left_out=self._left_out[name],
                failed=dict(self._failed.get(name, {})),
                waiting=waiting[name],
                processes=self._started[name],
            )
            for name in self._named
        }


class _Sink:
    """What comes out of a lane, gathered until there is no more for now."""

    def __init__(self, mediation: Mediation, hand_on: Deliver) -> None:
        self._mediation = mediation
        self._hand_on = hand_on
        self._out: list[bytes] = []
        self._origin = ""
        self._letters: list[bytes] = []
        self.left_out = mediation.left_out
        self.dropped = mediation.dropped

    def passed(self, job: Job, payload: bytes) -> None:
        if job.origin != self._origin:
            self._flush_out()
            self._origin = job.origin
        self._mediation.passed(job)
        self._out.append(written(job.message, job.head, payload))

    def failed(self, job: Job, failure: Failure, detail: str) -> None:
        self._letters.append(self._mediation.failed(job, failure, detail))

    def flush(self) -> None:
        self._flush_out()
        if self._letters:
            letters, self._letters = b"".join(self._letters), []
            self._mediation.deliver_here(letters)

    def _flush_out(self) -> None:
        if self._out:
            body, self._out = b"".join(self._out), []
            self._hand_on(body, self._origin)
