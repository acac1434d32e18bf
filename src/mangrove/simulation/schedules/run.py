"""One failure schedule, played on the production engines under virtual time, and the promises checked.

Every schedule checks that no frame loops, that nothing is delivered twice, and that after everything has
healed all gateways agree, all routes stand and messages arrive. A schedule with exactly one failure checks
more: what arrives is in order, and what the contract promises is not lost. That is everything on topics with
`paths: 2` or a high `resiliency`, if two disjoint paths exist, and everything on any topic when a link fails
silently that leaves the pair connected, since frames are acknowledged hop by hop. Some schedules go on for
minutes in which nothing happens: then no routes change but to fewer or shorter paths, once.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from functools import partial

from mangrove.model.site_pair import site_pair
from mangrove.overlay.events.happenings import ContractMet, RouteRequested, StatementRefused
from mangrove.simulation.forging.beliefs import false_beliefs
from mangrove.simulation.forging.forger import FALSE_BODY, LURE, LyingGateway
from mangrove.simulation.schedules.changes import Changes
from mangrove.simulation.schedules.networks_at_rest import STEP_S, network_at_rest, settle
from mangrove.simulation.schedules.schedule import (
    NODE_FAULTS,
    REDUNDANT,
    RULES,
    Fault,
    FaultKind,
    Schedule,
    Stream,
    make_schedule,
)

TRAFFIC_S = 2.0
SETTLE_S = 30.0
LAST_S = 3.0
QUIET_S = 180.0
"""Longer than any hold before an improvement."""
QUIET_EVERY = 50
"""One schedule of so many goes on for `QUIET_S`."""
LIE_EVERY_S = 0.02
LIES_S = 2.0
"""For so long lies are told after everything has healed."""
KNOWN_S = 2.0
"""Within which everybody knows of a failure."""


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    """What came of a schedule; `problems` is empty when all promises were kept."""

    seed: int
    domains: int
    links: int
    faults: tuple[Fault, ...]
    sent: int
    delivered: int
    lost: int
    promised: int
    """Deliveries that the contract promised in spite of the fault; zero if there were several faults."""
    virtual_s: float
    dropped: dict[str, int]
    problems: tuple[str, ...]
    lying: bool = False
    """Whether a gateway lied to its neighbours."""
    changing: bool = False
    """Whether contracts changed meanwhile."""
    changes: int = 0
    """Versions that came into force."""

    @property
    def command(self) -> str:
        """Repeats this schedule."""
        mode = " --lying" if self.lying else " --changing" if self.changing else ""
        return f"mangrove evaluate schedules --seeds 1 --seed {self.seed}{mode}"

    def __str__(self) -> str:
        what = [f"seed {self.seed}: {self.domains} domains, {self.links} links"]
        what += [f"  {fault}" for fault in self.faults]
        what += [f"  PROBLEM: {problem}" for problem in self.problems]
        return "\n".join([*what, f"  repeat with: {self.command}"])


def run_schedule(seed: int) -> ScheduleResult:
    """Make the schedule of a seed, play it, and check the promises."""
    return _Run(make_schedule(seed)).play()


def run_lying_schedule(seed: int) -> ScheduleResult:
    """The same with keys, and with a gateway that lies to its neighbours all the time.

    Nobody may believe it, and all promises hold beside it. In every other schedule it also alters what it
    passes on, which is no better than silence: then the honest agree in the end, and no more is promised.
    """
    return _Run(make_schedule(seed), lying=True).play()


def run_changing_schedule(seed: int) -> ScheduleResult:
    """The same while contracts change, at any time and anywhere.

    All promises hold beside it, and what `changes` says of versions.
    """
    return _Run(make_schedule(seed), changing=True).play()


class _Run:
    def __init__(self, schedule: Schedule, *, lying: bool = False, changing: bool = False) -> None:
        self.schedule = schedule
        self.setting = schedule.setting
        self.net = network_at_rest(self.setting, with_keys=lying)
        self.liar = self._make_liar() if lying else None
        self.net.random.seed(schedule.seed)
        self.began = self.net.now
        self.problems: list[str] = []
        self.expected: dict[tuple[str, bytes], Stream] = {}
        """Deliveries that should be, of what was accepted."""
        self.sent_at: dict[bytes, float] = {}
        self.number = 0
        self.changes = Changes(self.net, schedule.seed, TRAFFIC_S) if changing else None

    def play(self) -> ScheduleResult:
        for stream in self.setting.streams:
            self._plan(stream)
        end = self.began + max(TRAFFIC_S, *(fault.end_s for fault in self.schedule.faults))
        if self.liar is not None:
            self.liar.lie(end + LIES_S, LIE_EVERY_S)
            self.net.at(end, self.liar.stop_tampering)
        for fault in self.schedule.faults:
            self.net.at(self.began + fault.start_s, partial(self._begin, fault))
            self.net.at(self.began + fault.end_s, partial(self._end, fault))
        self.net.run(end)
        if self.changes is not None:
            self.changes.restore()
        problem = settle(self.net, self.setting, SETTLE_S)
        if problem:
            self.problems.append(f"{SETTLE_S:g} s after everything healed: {problem}")
        self._last_messages()
        if self.schedule.seed % QUIET_EVERY == 0:
            self._stay_quiet()
        if self.changes is not None:
            self.problems += self.changes.check()
        self._check()
        if self.liar is not None:
            self._check_beliefs(self.liar)
        self.net.validate()
        return self._result()

    def _make_liar(self) -> LyingGateway:
        """A gateway without which the others still form one network, so that they can agree."""
        chance = random.Random(self.schedule.seed)
        names = self.setting.federation.domain_order
        others = len(names) - 1
        liars = [
            name
            for name in names
            if len(self.setting.reached(names[names[0] == name], gone=[name])) == others
        ]
        tampers = self.schedule.seed % 2 == 1
        return LyingGateway(self.net, chance.choice(liars), self.schedule.seed, tampers=tampers)

    def _plan(self, stream: Stream) -> None:
        time = stream.start_s
        while time < TRAFFIC_S:
            self.net.at(self.began + time, partial(self._publish, stream))
            time += stream.interval_s

    def _publish(self, stream: Stream) -> None:
        if stream.source not in self.net.engines:
            return
        self.number += 1
        body = f"{stream.subject} {self.number}".encode()
        self.sent_at[body] = self.net.now
        if self.net.publish(stream.source, stream.subject, body):
            for name in stream.receivers:
                self.expected[name, body] = stream
        elif self._alone and stream.source not in self.schedule.faults[0].where:
            self.problems.append(f"{stream.source} forgot who wants {stream.subject}")

    def _begin(self, fault: Fault) -> None:
        match fault.kind:
            case FaultKind.BLACK_HOLE:
                self.net.black_hole(fault.where[0], fault.where[1], True)
            case FaultKind.RESET:
                self.net.reset(*fault.where)
            case FaultKind.LOSS:
                self.net.link(*fault.where).loss_ratio = 0.3
            case FaultKind.CRASH | FaultKind.SILENT_CRASH:
                if fault.where[0] in self.net.engines:
                    self.net.crash(fault.where[0], silent=fault.kind is FaultKind.SILENT_CRASH)

    def _end(self, fault: Fault) -> None:
        match fault.kind:
            case FaultKind.BLACK_HOLE:
                self._check_known(fault)
                self.net.black_hole(fault.where[0], fault.where[1], False)
            case FaultKind.LOSS:
                self.net.link(*fault.where).loss_ratio = 0.0
            case FaultKind.CRASH | FaultKind.SILENT_CRASH if fault.where[0] not in self.net.engines:
                self._check_known(fault)
                self.net.start(fault.where[0])
            case _:
                pass

    # -- agreement ----------------------------------------------------------------------------------------

    def _check_known(self, fault: Fault) -> None:
        """A single failure that has lasted for long is known to all who can know, exactly.

        So it is if domains and links have changed meanwhile, but not just now; then some also know what they
        heard by a link that is gone.
        """
        since = self.began + fault.start_s
        if self.changes is not None:
            since = max(since, self.changes.network.changed_at)
        if not self._alone or self.net.now - since < KNOWN_S:
            return
        cut, dead = (site_pair(*fault.where), "") if len(fault.where) == 2 else (None, fault.where[0])
        for name, engine in self.net.engines.items():
            pairs = {link.pair for link in engine.federation.links}
            failed = frozenset(pair for pair in pairs if pair == cut or dead in pair)
            reached = engine.federation.reachable(name, failed)
            knowable = {pair for pair in failed if name in pair or reached.intersection(pair)}
            knowing = knowable if self.changes is None else failed
            if not knowable <= engine.failed_links <= knowing:
                self.problems.append(
                    f"{name} believes {sorted(engine.failed_links)} failed, not {sorted(knowable)}"
                )

    def _last_messages(self) -> None:
        """When all agree, messages arrive."""
        before = set(self.expected)
        for stream in self.setting.streams:
            self._publish(stream)
        last = self.expected.keys() - before
        limit = self.net.now + LAST_S
        while not last <= self.net.delivered.keys() and self.net.now < limit:
            self.net.run(self.net.now + STEP_S / 2)
        for name, body in sorted(last - self.net.delivered.keys()):
            self.problems.append(f"at rest, {body.decode()} did not arrive at {name}")

    def _stay_quiet(self) -> None:
        """While nothing happens, each set of routes is improved at most once.

        A set that misses something is mended first, which is no improvement; nor does it then miss something
        and be mended again.
        """
        for engine in self.net.engines.values():
            engine.take_events()
        self.net.run(self.net.now + QUIET_S)
        for name, engine in self.net.engines.items():
            classes = {contract.match: number for number, contract in engine.rules.numbered()}
            asked: Counter[tuple[str, str]] = Counter()
            mended: dict[tuple[str, str], float] = {}
            for event in engine.take_events():
                match event.happening:
                    case RouteRequested(topic=topic, destination=destination):
                        asked[topic, destination] += mended.get((topic, destination)) != event.at
                    case ContractMet(topic=topic, destination=destination):
                        if (topic, destination) in mended:
                            self.problems.append(f"{name} mended routes of {topic} to {destination} twice")
                        mended[topic, destination] = event.at
                        asked[topic, destination] = 0
                    case _:
                        pass
            for (topic, destination), count in asked.items():
                if count > len(engine.active_paths(classes[topic], destination)):
                    self.problems.append(
                        f"{name} asked for {count} routes of {topic} to {destination} although all was quiet"
                    )

    # -- promises -----------------------------------------------------------------------------------------

    @property
    def _alone(self) -> bool:
        """Whether there is one fault and nothing else, so that everything is promised."""
        died = 0 if self.changes is None else self.changes.network.crashed
        return len(self.schedule.faults) == 1 and (self.liar is None or not self.liar.tampered) and not died

    def _check_beliefs(self, liar: LyingGateway) -> None:
        """Nobody believes a liar, and it is named."""
        self.problems += false_beliefs(self.net)
        for name, engine in self.net.engines.items():
            refused = [
                each.happening
                for each in engine.recent_events()
                if isinstance(each.happening, StatementRefused)
            ]
            for each in refused:
                if each.peer != liar.domain and name != liar.domain:
                    self.problems.append(f"{name} blames {each.peer}, which is honest: {each.sentence()}")
            if LURE in engine.wanted_elsewhere():
                self.problems.append(f"{name} acts upon interest that nobody has")
        if any(body == FALSE_BODY for _, body in self.net.delivered):
            self.problems.append("a message was delivered that its origin never sent")

    def _check(self) -> None:
        tampered = self.liar is not None and self.liar.tampered
        if (loops := self.net.dropped["hop limit reached"]) and not tampered:
            self.problems.append(f"{loops} frames reached the hop limit")
        for (name, body), count in self.net.duplicates.items():
            self.problems.append(f"{body.decode()} was delivered to {name} {1 + count} times")
        for name, body in self.net.delivered:
            if (name, body) not in self.expected:
                self.problems.append(f"{body.decode()} was delivered to {name}, which does not want it")
        lost = Counter(
            (stream.source, stream.subject, name)
            for (name, body), stream in self.expected.items()
            if not self.net.delivered[name, body] and self._promised(stream, name)
        )
        for (source, subject, name), count in sorted(lost.items()):
            self.problems.append(f"{count} messages of {subject} lost from {source} to {name}")
        for (stream, name), count in self._out_of_order().items():
            where = f"from {stream.source} to {name}"
            if self._alone:
                self.problems.append(f"{count} messages of {stream.subject} out of order {where}")

    def _out_of_order(self) -> Counter[tuple[Stream, str]]:
        """How many messages of a stream came to a receiver after one that was sent later.

        A deadline is stronger than order: others do not wait until they are late, so what comes after its
        deadline may come out of turn.
        """
        latest: dict[tuple[Stream, str], int] = {}
        found: Counter[tuple[Stream, str]] = Counter()
        for name, body in self.net.delivered:
            stream = self.expected.get((name, body))
            if stream is None:
                continue
            number = int(body.split()[1])
            overtaken = number < latest.get((stream, name), 0)
            found[stream, name] += overtaken and not self._late(stream, name, body)
            latest[stream, name] = max(number, latest.get((stream, name), 0))
        return +found

    def _late(self, stream: Stream, receiver: str, body: bytes) -> bool:
        deadline_ms = RULES.contract_of(stream.subject).deadline_ms
        took_ms = 1000 * (self.net.delivered_at[receiver, body] - self.sent_at[body])
        return deadline_ms is not None and took_ms > deadline_ms

    def _promised(self, stream: Stream, receiver: str) -> bool:
        """Whether the contract promises that the only fault costs nothing between two domains."""
        if not self._alone:
            return False
        fault = self.schedule.faults[0]
        if fault.kind in NODE_FAULTS:
            if fault.where[0] in (stream.source, receiver):
                return False
            return stream.topic in REDUNDANT and self.setting.disjoint(stream.source, receiver)
        if fault.kind is FaultKind.LOSS:
            return True
        return receiver in self.setting.reached(stream.source, without=[self.net.link(*fault.where).ends])

    def _result(self) -> ScheduleResult:
        promised = sum(self._promised(stream, name) for (name, _), stream in self.expected.items())
        delivered = sum(1 for key in self.expected if self.net.delivered[key])
        return ScheduleResult(
            seed=self.schedule.seed,
            domains=len(self.setting.federation.domains),
            links=len(self.net.links),
            faults=self.schedule.faults,
            sent=len(self.expected),
            delivered=delivered,
            lost=len(self.expected) - delivered,
            promised=promised,
            virtual_s=self.net.now - self.began,
            dropped=dict(self.net.dropped),
            problems=tuple(self.problems),
            lying=self.liar is not None,
            changing=self.changes is not None,
            changes=max(engine.document.version for engine in self.net.engines.values()) - 1,
        )
