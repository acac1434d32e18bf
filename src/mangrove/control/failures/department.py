"""What is done about brokers that die: after a grace their topics are served by others, and clients told.

Clients that were connected have acted by themselves long before (they reconnect, or have a mirror). What is
decided here makes the directory true again: no record names a dead broker for longer than `BOUND_S` after it
has died, as long as an agent leads. A topic goes, in this order,

1. to its mirror, which has all of it;
2. where the case of the plan in force has it, for these brokers being down;
3. where a case has it that was computed for this state, when the plan has none;
4. to the broker at which its other subscribers are;
5. where the policy of distribution puts it.

A broker that returns may be used for new topics as soon as it answers steadily; nothing goes back to it by
itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from mangrove.control.clients.placements import Served
from mangrove.control.clients.registrar import Registrar
from mangrove.control.clients.registry import Clients
from mangrove.control.directory.directory import Directory
from mangrove.control.events.failure_happenings import FailoverDecided, RestartOrdered
from mangrove.control.failures.cases import CaseBook
from mangrove.control.failures.detector import MISSES, PROBE_S
from mangrove.control.failures.states import Health
from mangrove.control.failures.stored import FAILURES_KEY, RecordWriter, StoredFailure, encoded
from mangrove.control.failures.watch import FailureWatch, Turn
from mangrove.control.instructions import Instruction, ProbeBroker, RestartBroker
from mangrove.control.plans.department import PlanDepartment
from mangrove.control.sessions.states import settling_s
from mangrove.control.site import Site
from mangrove.model.agents.directory import DirectoryRecord
from mangrove.model.agents.registration import BrokerSuspected, ClientRole
from mangrove.model.events.event_log import EventId, EventLog

GRACE_S = 1.0
"""Who supervises a broker has so long to start it anew before its topics go elsewhere."""
TOGETHER_S = PROBE_S
"""Brokers whose grace ends within this time are decided about at once."""
DETECTION_S = (MISSES + 1) * PROBE_S
"""From a broker's death to the proof of it, if it falls silent; one that ends is noticed at once."""
BOUND_S = DETECTION_S + GRACE_S + 0.2
"""A dead broker is in no record of the directory for longer than that, while an agent leads."""
RESTART_AGAIN_S = 10.0
MAX_RESTARTS = 3
"""A broker that is frozen again and again is left to people."""
EXAMPLES = 8

BY_MIRROR = "their mirrors"
BY_CASE = "the case of the plan"
BY_COMPUTED = "a computed case"
BY_OTHERS = "where their other subscribers are"
BY_DISTRIBUTION = "distribution"

_FIRST = StoredFailure(failed_by="", decided_by="")


class _Tally(msgspec.Struct):
    """What one decision comes to."""

    moved: Counter[str] = msgspec.field(default_factory=Counter)
    why: Counter[str] = msgspec.field(default_factory=Counter)
    mirrors: int = 0
    examples: list[str] = msgspec.field(default_factory=list)

    def add(self, topic: str, place: str, why: str) -> None:
        self.moved[place] += 1
        self.why[why] += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(f"{topic} → {place}")


class FailureDepartment:
    """For one term of a leader."""

    def __init__(
        self,
        site: Site,
        watch: FailureWatch,
        clients: Clients,
        directory: Directory,
        registrar: Registrar,
        log: EventLog,
        *,
        number: Callable[[], int],
        found: dict[str, StoredFailure],
        plans: Callable[[], PlanDepartment],
        cases: CaseBook,
        paused: Callable[[], bool],
        clock_shift_s: float,
    ) -> None:
        """`found` is what an earlier leader has decided; while `paused`, nothing is."""
        self._site = site
        self._watch = watch
        self._clients = clients
        self._directory = directory
        self._registrar = registrar
        self._log = log
        self._plans = plans
        self._cases = cases
        self._paused = paused
        self._clock_shift_s = clock_shift_s
        self._records = RecordWriter(FAILURES_KEY, number)
        self._dropped = {broker: each for broker, each in found.items() if site.has(broker)}
        self._decided = set(self._dropped)
        """Those of them that have not returned for a moment and died again since."""
        self._decided_at = -math.inf
        self._relocated: list[Served] = []

    # -- life -----------------------------------------------------------------------------------------------

    def begin(self, records: Iterable[bytes], now: float) -> list[Instruction]:
        """A term begins: what an earlier leader decided stands, and what it did not get to is decided."""
        self._cases.begin(records, now)
        # A decision may have been stored without all of its records.
        self._decided -= self._named()
        known = {broker: each.failed_by for broker, each in self._dropped.items() if each.failed_by}
        self._watch.note_standing(known, now)
        return self.handle_timer(now)

    # -- evidence -------------------------------------------------------------------------------------------

    def turned(self, turn: Turn, now: float) -> list[Instruction]:
        """A broker's health has changed."""
        told: list[Instruction] = []
        if turn.after is Health.FAILED:
            self._decided.discard(turn.broker)
            told += self._cases.want(self._watch.failed_by(turn.broker), now)
        elif turn.after is Health.ALIVE and turn.before is Health.RETURNING:
            known = self._dropped.pop(turn.broker, None)
            self._decided.discard(turn.broker)
            self._watch.note_returned(turn.broker, turn.failed_since, now, replaced=known is not None)
            if known is not None:
                self._records.changed(encoded(self._dropped))
        return told + self.handle_timer(now)

    def suspected(self, message: BrokerSuspected, now: float) -> list[Instruction]:
        """A client takes a broker for dead."""
        if self._watch.reported(message.broker, message.client, message.evidence, now):
            return [ProbeBroker(message.broker)]
        return []

    # -- time -----------------------------------------------------------------------------------------------

    def timer(self) -> float:
        """When to be called again."""
        due = [self._records.timer()]
        if not self._paused():
            due += [self._due(broker) for broker in self._undecided()]
            due += [self._restart_at(broker) for broker in self._frozen()]
        return min(due)

    def handle_timer(self, now: float) -> list[Instruction]:
        """Decide about brokers whose grace is over, and have frozen ones started anew."""
        told: list[Instruction] = []
        if not self._paused():
            if any(now >= self._due(broker) for broker in self._undecided()):
                self._drop([each for each in self._undecided() if now >= self._due(each) - TOGETHER_S], now)
            frozen = [broker for broker in self._frozen() if now >= self._restart_at(broker)]
            told += [self._restart(broker, now) for broker in frozen]
        return told + self._records.flush(now)

    def _undecided(self) -> list[str]:
        """Dead brokers that records may name; while nothing lives there is nothing else to name."""
        if self._site.down.issuperset(self._site.brokers):
            return []
        return [broker for broker in self._watch.failed if broker not in self._decided]

    def _due(self, broker: str) -> float:
        return self._watch.failed_since(broker) + GRACE_S

    def _frozen(self) -> list[str]:
        return [
            broker
            for broker, known in self._dropped.items()
            if known.restarts < MAX_RESTARTS and self._watch.frozen(broker)
        ]

    def _restart_at(self, broker: str) -> float:
        known = self._dropped[broker]
        if not known.restarts:
            return -math.inf
        return known.restarted_at - self._clock_shift_s + RESTART_AGAIN_S

    def _restart(self, broker: str, now: float) -> Instruction:
        known = self._dropped[broker]
        self._log.note(
            RestartOrdered(broker=broker, attempt=known.restarts + 1), now, known.failed_by or None
        )
        self._dropped[broker] = msgspec.structs.replace(
            known, restarts=known.restarts + 1, restarted_at=now + self._clock_shift_s
        )
        self._records.changed(encoded(self._dropped))
        return RestartBroker(broker)

    # -- decisions ------------------------------------------------------------------------------------------

    def _drop(self, brokers: list[str], now: float) -> None:
        """These brokers are in no record any more."""
        dead = frozenset(brokers)
        self._decided_at = now
        # Everything is decided before the event is noted, and recorded after it: records name their reason.
        places: dict[str, str] = {}
        tally = _Tally()
        for topic in list(self._directory):
            record = self._directory.get(topic)
            if record is None:
                continue
            if dead.intersection(record.edges):
                places[topic], why = self._place(topic, record, now)
                tally.add(topic, places[topic], why)
            elif record.publish_at in dead or record.mirror in dead:
                places[topic] = ""
                tally.mirrors += record.mirror in dead
        cause = self._watch.failed_by(brokers[0])
        decided: EventId = ""
        if places:
            decided = self._log.note(
                FailoverDecided(
                    failed=self._watch.failed,
                    case=self._case_name(now),
                    head=self._site.acting_head,
                    moved=dict(tally.moved),
                    why=dict(tally.why),
                    mirrors=tally.mirrors,
                    examples=tuple(tally.examples),
                ),
                now,
                cause,
            )
        for topic, place in places.items():
            self._relocated += self._registrar.abandon(topic, dead, place, now, decided)
        self._relocated += self._registrar.abandon_publishers(dead)
        for broker in brokers:
            self._decided.add(broker)
            self._dropped[broker] = msgspec.structs.replace(
                self._dropped.get(broker, _FIRST),
                failed_by=self._watch.failed_by(broker) or "",
                decided_by=decided,
            )
        self._records.changed(encoded(self._dropped))

    def _case_name(self, now: float) -> str:
        plan = self._plans().in_force
        if plan is not None and self._cases.prepared():
            return f"plan {plan.version} has a case for it"
        foreseen = "no plan is in force" if plan is None else f"plan {plan.version} has no case for it"
        return foreseen + ("" if self._cases.kept(now) is None else ", one was computed")

    def _named(self) -> set[str]:
        """Brokers that records name."""
        found = map(self._directory.get, self._directory)
        return {
            broker
            for record in found
            if record is not None
            for broker in (*record.edges, record.publish_at, record.mirror)
        }

    def _place(self, topic: str, record: DirectoryRecord, now: float) -> tuple[str, str]:
        """Where a topic goes whose broker is dead, and why there."""
        down = self._site.down
        living = [edge for edge in record.edges if edge not in down]
        if record.mirror and record.mirror not in down:
            return record.mirror, BY_MIRROR
        if not self._cases.prepared():
            computed = self._cases.place(topic, now)
            if computed and computed not in down:
                return computed, BY_COMPUTED
        planned = self._plans().planned(topic)
        if planned is not None and planned.primary not in down:
            return planned.primary, BY_CASE
        if living:
            return max(living, key=self._subscribers_of(topic)), BY_OTHERS
        return self._registrar.distribute(topic, now), BY_DISTRIBUTION

    def _subscribers_of(self, topic: str) -> Callable[[str], int]:
        counts = self._clients.placements.brokers(ClientRole.SUBSCRIBER, topic)
        return lambda broker: counts.get(broker, 0)

    def take_relocated(self) -> list[Served]:
        """Wishes that are served elsewhere since the last call, as far as is known."""
        relocated, self._relocated = self._relocated, []
        return relocated

    # -- the store ------------------------------------------------------------------------------------------

    def stored(self, write: int) -> None:
        """A write is in the store."""
        self._records.stored(write)

    def not_stored(self, write: int, now: float) -> None:
        """A write did not come about."""
        self._records.failed(write, now)

    # -- questions ------------------------------------------------------------------------------------------

    @property
    def dropped(self) -> Iterable[str]:
        """Brokers that the directory does without."""
        return tuple(self._dropped)

    def unsettled(self, now: float) -> bool:
        """Whether loads tell nothing yet of what is to come: a broker has just died, or been replaced."""
        return bool(self._undecided()) or now < self._decided_at + settling_s(self._site.balancing)

    def problems(self) -> list[str]:
        """Records that name a broker which was dropped; for tests."""
        gone = {broker for broker in self._decided if self._watch.health(broker) is Health.FAILED}
        return [
            f"the directory has {topic} at {broker}, which is dead"
            for topic in self._directory
            for broker in self._directory.edges(topic)
            if broker in gone
        ]
