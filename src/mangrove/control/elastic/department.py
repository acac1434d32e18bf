"""Switches brokers off in low load, and on again before load asks for it (`elastic` of a domain).

A broker that is not needed for `QUIET_S` is given nothing new, its topics are moved to the others by an
ordinary session (stored, without loss), and only when nobody is left there, not even a client that cannot be
told to move, is it switched off. Edges that are added on demand are such brokers, off to begin with.
Nothing is switched off while a broker is dead, a session is open or a plan is being rolled out; and
a dead broker, like load, has one started that is off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable

import msgspec

from mangrove.control.broker_watch import BrokerWatch
from mangrove.control.clients.registrar import Registrar
from mangrove.control.clients.registry import Clients
from mangrove.control.directory.directory import Directory
from mangrove.control.elastic.rules import off_by_plan, shortage, spare, use
from mangrove.control.elastic.states import Power, Step, next_power
from mangrove.control.events.elastic_happenings import (
    BrokerJoined,
    BrokerLeaves,
    BrokerStays,
    BrokerSwitchedOff,
    BrokerSwitchedOn,
)
from mangrove.control.failures.stored import RecordWriter
from mangrove.control.instructions import Instruction, LookAtClients, SwitchBroker
from mangrove.control.sessions.coordinator import Coordinator
from mangrove.control.site import Site
from mangrove.control.stimuli import PlainClientsSeen
from mangrove.model.agents.load import BrokerLoad
from mangrove.model.agents.registration import ClientRole
from mangrove.model.events.event_log import EventId, EventLog
from mangrove.model.plans.plan import Plan
from mangrove.model.unreadable import UNREADABLE

ELASTIC_KEY = "elastic"
QUIET_S = 60.0
"""A broker must not have been needed for so long."""
REST_S = 120.0
"""Between two brokers that are switched off, and after one was started."""
STAYS_S = 600.0
"""A broker that could not be emptied is not tried again for so long."""
LEAVE_S = 60.0
"""So long it may take to empty one."""
EMPTY_S = 5.0
"""Who has a mirror there has found another by then."""
CHECK_S = 5.0
START_S = 15.0
"""A broker that does not answer so long after it was to be started is tried again, or another is."""
JOIN_S = 5.0
"""Before the next is started, the load is measured with the one that has just joined."""
STOP_S = 10.0
"""It may take so long until one that is switched off does not answer any more."""


class StoredPower(msgspec.Struct, frozen=True, kw_only=True, tag="elastic"):
    """Brokers that are off, as the store has them."""

    off: tuple[str, ...]


_decoder = msgspec.json.Decoder(StoredPower)


class _Broker(msgspec.Struct):
    power: Power = Power.ON
    since: float = -math.inf
    rests_until: float = -math.inf
    cause: EventId | None = None


class ElasticDepartment:
    """For one term of a leader; does nothing in a domain that is not elastic."""

    def __init__(
        self,
        site: Site,
        watch: BrokerWatch,
        clients: Clients,
        directory: Directory,
        registrar: Registrar,
        sessions: Coordinator,
        log: EventLog,
        *,
        number: Callable[[], int],
        set_off: Callable[[Collection[str], Collection[str]], None],
        answers: Callable[[str], bool],
        hindered: Callable[[float], bool],
        plan: Callable[[], Plan | None],
    ) -> None:
        """`set_off` takes the brokers that are off, and those that are about to be; `answers` says whether
        one that is off answers; while `hindered`, none is switched off."""
        self._site = site
        self._watch = watch
        self._clients = clients
        self._directory = directory
        self._registrar = registrar
        self._sessions = sessions
        self._log = log
        self._set_off = set_off
        self._answers = answers
        self._hindered = hindered
        self._plan = plan
        self._enabled = site.description.elastic.enabled
        self._mirrors = any(contract.mirror for contract in site.federation.topics.contracts)
        self._records = RecordWriter(ELASTIC_KEY, number)
        self._brokers = {broker: _Broker() for broker in site.edges}
        self._spare_since = math.inf
        self._switched_at = -math.inf
        self._joined_at = -math.inf

    def begin(self, records: Iterable[bytes], now: float) -> None:
        """A term begins: what is off by the store is off, and so are edges that nobody has added yet."""
        if not self._enabled:
            return
        off: Collection[str] = self._site.spares
        for value in records:
            try:
                off = _decoder.decode(value).off
            except UNREADABLE:
                continue  # somebody else's
        for broker in off:
            if broker in self._brokers:
                self._brokers[broker] = _Broker(Power.OFF, now)
        self._switched_at = self._spare_since = now
        self._tell()

    # -- time -----------------------------------------------------------------------------------------------

    def look(self, now: float) -> list[Instruction]:
        """Brokers were measured: go on with those that leave or start, and look whether others should."""
        if not self._enabled:
            return []
        told: list[Instruction] = []
        for name, broker in self._brokers.items():
            told += self._go_on(name, broker, now)
        told += self._start(now)
        told += self._release(now)
        return told + self._records.flush(now)

    def _go_on(self, name: str, broker: _Broker, now: float) -> list[Instruction]:
        waited_s = now - broker.since
        match broker.power:
            case Power.LEAVING:
                if self._shortage(now):
                    self._stay(name, broker, "load asks for it after all", now)
                elif waited_s < EMPTY_S:
                    pass
                elif not self._served_at(name) and name not in self._sessions.busy():
                    self._step(broker, Step.EMPTY, now)
                    return [LookAtClients(name)]
                elif waited_s > LEAVE_S or name not in self._sessions.busy():
                    self._stay(name, broker, "not all of its clients can move", now)
            case Power.CHECKING if waited_s > CHECK_S:
                self._stay(name, broker, "it did not say who is connected", now)
            case Power.OFF if self._answers(name) and waited_s > STOP_S:
                self._joined(name, broker, now)  # somebody has started it
            case Power.STARTING if self._answers(name):
                self._joined(name, broker, now)
            case Power.STARTING if waited_s > START_S:
                self._step(broker, Step.NOT_STARTED, now)
                broker.rests_until = now + START_S
            case _:
                pass
        return []

    def seen(self, seen: PlainClientsSeen, now: float) -> list[Instruction]:
        """Who is connected to a broker besides clients of the SDK."""
        broker = self._brokers.get(seen.broker)
        if broker is None or broker.power is not Power.CHECKING:
            return []
        if seen.clients or seen.left_out or self._served_at(seen.broker):
            count = len(seen.clients) + seen.left_out
            self._stay(seen.broker, broker, f"{count} clients are there that cannot be told to move", now)
            return []
        self._step(broker, Step.NOBODY_LEFT, now)
        self._switched_at = now
        self._log.note(BrokerSwitchedOff(broker=seen.broker), now, broker.cause)
        self._changed()
        return [SwitchBroker(seen.broker, on=False), *self._records.flush(now)]

    # -- one more, one less ---------------------------------------------------------------------------------

    def _start(self, now: float) -> list[Instruction]:
        """One that is off is started if load, or a broker that died, asks for it; one at a time."""
        powers = [broker.power for broker in self._brokers.values()]
        why = self._shortage(now)
        ready = [
            name
            for name, broker in self._brokers.items()
            if broker.power is Power.OFF and now >= broker.rests_until
        ]
        if not why or not ready or Power.STARTING in powers or now < self._joined_at + JOIN_S:
            return []
        name, broker = ready[0], self._brokers[ready[0]]
        self._step(broker, Step.NEEDED, now)
        broker.cause = self._log.note(BrokerSwitchedOn(broker=name, why=why), now)
        return [SwitchBroker(name, on=True)]

    def _release(self, now: float) -> list[Instruction]:
        """The broker that has not been needed for a while begins to leave; one at a time."""
        loads = self._on(now)
        powers = {broker.power for broker in self._brokers.values()}
        name = ""
        if not self._hindered(now) and powers <= {Power.ON, Power.OFF} and not self._sessions.busy():
            candidates = [load for load in loads if now >= self._brokers[load.broker].rests_until]
            if len(candidates) == len(loads):
                planned = off_by_plan(self._plan(), loads)
                name = spare(loads, self._site, self._mirrors, planned)
        if not name:
            self._spare_since = math.inf
            return []
        self._spare_since = min(self._spare_since, now)
        if now < self._spare_since + QUIET_S or now < self._switched_at + REST_S:
            return []
        return self._leave(name, loads, now)

    def _leave(self, name: str, loads: list[BrokerLoad], now: float) -> list[Instruction]:
        broker = self._brokers[name]
        topics = [
            topic
            for topic in self._clients.placements.topics(ClientRole.SUBSCRIBER)
            if self._clients.placements.members(ClientRole.SUBSCRIBER, topic, name)
        ]
        self._step(broker, Step.NOT_NEEDED, now)
        broker.cause = self._log.note(
            BrokerLeaves(broker=name, topics=len(topics), use=use(loads, without=name) or 0.0), now
        )
        self._spare_since = math.inf
        self._tell()
        if not topics:
            return []
        targets = {topic: self._registrar.distribute(topic, now) for topic in topics}
        return self._sessions.evacuate(name, targets, broker.cause, now)

    # -- steps ----------------------------------------------------------------------------------------------

    def _step(self, broker: _Broker, step: Step, now: float) -> None:
        broker.power = next_power(broker.power, step)
        broker.since = now

    def _stay(self, name: str, broker: _Broker, why: str, now: float) -> None:
        self._step(broker, Step.STAYS, now)
        broker.rests_until = now + STAYS_S
        self._log.note(BrokerStays(broker=name, why=why), now, broker.cause)
        self._tell()

    def _joined(self, name: str, broker: _Broker, now: float) -> None:
        self._log.note(BrokerJoined(broker=name, after_s=now - broker.since), now, broker.cause)
        self._step(broker, Step.ANSWERED, now)
        self._switched_at = self._joined_at = now
        self._changed()

    def _changed(self) -> None:
        off = self._with(Power.OFF)
        self._records.changed(msgspec.json.encode(StoredPower(off=off)))
        self._tell()

    def _tell(self) -> None:
        self._set_off(self._with(Power.OFF, Power.STARTING), self._with(Power.LEAVING, Power.CHECKING))

    # -- questions ------------------------------------------------------------------------------------------

    def _with(self, *powers: Power) -> tuple[str, ...]:
        return tuple(name for name, broker in self._brokers.items() if broker.power in powers)

    def _on(self, now: float) -> list[BrokerLoad]:
        """Brokers that are on and alive."""
        loads = self._watch.loads(now)
        return [loads[name] for name in self._with(Power.ON) if loads[name].reachable]

    def _shortage(self, now: float) -> str:
        dead = [name for name in self._with(Power.ON) if name in self._site.dead]
        if dead:
            return f"{', '.join(dead)} {'is' if len(dead) == 1 else 'are'} dead"
        return shortage(self._on(now))

    def _served_at(self, name: str) -> bool:
        """Whether anything is served at a broker, as far as is known."""
        placements = self._clients.placements
        subscribed = any(
            name in placements.brokers(ClientRole.SUBSCRIBER, topic) for topic in self._directory
        )
        return subscribed or any(self._directory.publish_at(topic) == name for topic in self._directory)

    def stored(self, write: int) -> None:
        """A write is in the store."""
        self._records.stored(write)

    def not_stored(self, write: int, now: float) -> None:
        """A write did not come about."""
        self._records.failed(write, now)

    def status(self) -> dict[str, str]:
        """Brokers that are not simply on."""
        return {
            name: broker.power.value for name, broker in self._brokers.items() if broker.power is not Power.ON
        }
