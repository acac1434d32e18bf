"""One schedule of bursts and faults, played on the production brain in virtual time; promises are checked.

In every schedule, at every second: no session lasts longer than its time-outs allow, exactly the brokers of
open sessions are BUSY, no broker is in two sessions and no topic has two targets. For every decision: the
acceptor ends below the threshold, the topic does not go back to a broker that it left in this burst, and no
topic goes while a less urgent one of the same size stays (methods that go by urgency). When all has healed:
no session is stored that has ended, and the directory, here and in the store, says where clients are. Of
limits: see `limits_check`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from mangrove.control.congestion.domain.stored import CAPACITIES_KEY, LIMITS_KEY
from mangrove.control.events.session_happenings import MoveDecided, SessionEnded, TopicMoved
from mangrove.control.failures.cases import CASES_KEY
from mangrove.control.failures.stored import FAILURES_KEY
from mangrove.control.offloading.registry import method_named
from mangrove.control.offloading.trigger import StartedBy
from mangrove.control.sessions.admissions import ADMITTED
from mangrove.control.sessions.coordinator import MOVED_KEY
from mangrove.control.sessions.moved_topics import QUIET_S
from mangrove.control.sessions.states import SessionState, timeout_s
from mangrove.model.agents.directory import DirectoryQuestion
from mangrove.model.agents.load import LoadState
from mangrove.model.agents.registration import ClientRole
from mangrove.model.events.event_log import Event
from mangrove.simulation.agents.limits_check import LimitsCheck
from mangrove.simulation.agents.schedule import END_S, Cut, Fault, Schedule, make_schedule
from mangrove.simulation.agents.virtual.domain import VirtualDomain
from mangrove.simulation.agents.virtual.federation import VirtualFederation

STEADY_S = 5.0
"""Loads and reports that have not changed for so long are known to the agent."""
SLACK_S = 1.5
OF_NO_SESSION = {MOVED_KEY, CAPACITIES_KEY, LIMITS_KEY, FAILURES_KEY, CASES_KEY}
BY_URGENCY = ("drd", "peer-drd")


@dataclass(frozen=True, slots=True)
class SessionsResult:
    """What came of a schedule; `problems` is empty when all promises were kept."""

    seed: int
    method: str
    domains: int
    clients: int
    faults: tuple[Fault, ...]
    cuts: tuple[Cut, ...]
    sessions: int
    moved: int
    """Clients that moved."""
    between_domains: int
    """Topics that were decided to move to another domain."""
    deaths: int
    """Of agents."""
    resumed: int
    """Sessions that a successor took up."""
    stale: int
    """Orders of earlier terms that clients left alone."""
    limited: int
    """Seconds in which publishers were limited, over all domains."""
    relieved: int
    """Looks at a broker that had lost capacity, and had to be below the threshold."""
    problems: tuple[str, ...]

    @property
    def command(self) -> str:
        """Repeats this schedule."""
        return f"mangrove evaluate sessions --seeds 1 --seed {self.seed}"

    def __str__(self) -> str:
        what = [f"seed {self.seed}: {self.method}, {self.domains} domains, {self.clients} clients"]
        what += [f"  {fault}" for fault in (*self.faults, *self.cuts)]
        what += [f"  PROBLEM: {problem}" for problem in self.problems]
        return "\n".join([*what, f"  repeat with: {self.command}"])


def run_schedule(seed: int) -> SessionsResult:
    """Make the schedule of a seed, play it, and check the promises."""
    return _Run(make_schedule(seed)).play()


class _Run:
    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.balancing = schedule.federation.balancing
        self.virtual = VirtualFederation(schedule)
        self.world = self.virtual.world
        self.traffic = self.virtual.traffic
        self.problems: list[str] = []
        self.decided: dict[str, list[tuple[float, MoveDecided]]] = defaultdict(list)
        """Decisions by session."""
        self.left: dict[str, dict[str, float]] = defaultdict(dict)
        """Topic → broker that it left, and when."""
        self.just_ended: set[str] = set()
        """Sessions whose end may not be in the store yet when all is over."""
        self.moved_once: set[str] = set()
        """Topics that may be kept where they are because they have moved."""
        self.not_low_at: dict[str, float] = {}
        self.longest_s = SLACK_S + sum(
            timeout_s(state, self.balancing) for state in SessionState if state is not SessionState.ENDED
        )
        self.limits = LimitsCheck(schedule, self.virtual, self._problem)
        for domain in self.virtual.domains.values():
            domain.on_events = self._happened

    def play(self) -> SessionsResult:
        self.virtual.start()
        while self.world.now < END_S:
            self.world.run(self.world.now + 1.0)
            for domain in self.virtual.domains.values():
                self._look(domain)
        for domain in self.virtual.domains.values():
            self._look_at_the_end(domain)
            self.limits.look_at_the_end(domain)
        return self._result()

    def _problem(self, text: str) -> None:
        if len(self.problems) < 20:
            self.problems.append(f"{self.world.now:.2f} s: {text}")

    # -- at every second ------------------------------------------------------------------------------------

    def _look(self, domain: VirtualDomain) -> None:
        self.limits.look(domain)
        if domain.brain is None:
            return
        for problem in domain.brain.problems():
            self._problem(f"{domain.name}: {problem}")
        status = domain.brain.status(self.world.now)
        for load in status.brokers:
            if load.measured is not LoadState.LOW or not load.reachable:
                self.not_low_at[load.broker] = self.world.now
        for brokers in self.left.values():
            for broker in [broker for broker, at in brokers.items() if self._quiet_s(broker, at) >= QUIET_S]:
                del brokers[broker]
        for session in status.sessions:
            if not session.outcome and session.since_s > self.longest_s:
                self._problem(f"{session.id} is {session.state} after {session.since_s:.1f} s")

    # -- at every decision ----------------------------------------------------------------------------------

    def _happened(self, domain: VirtualDomain, events: list[Event]) -> None:
        fresh: list[MoveDecided] = []
        for event in events:
            match event.happening:
                case MoveDecided() as decided:
                    fresh.append(decided)
                    self.decided[decided.session].append((event.at, decided))
                    self._check_way_back(decided)
                case TopicMoved() as moved:
                    for decided_at, decision in self.decided[moved.session]:
                        if decision.topic == moved.topic:
                            self.left[moved.topic][decision.source] = decided_at
                            self.moved_once.add(moved.topic)
                case SessionEnded() as ended:
                    if event.at > END_S - SLACK_S:
                        self.just_ended.add(ended.session)
                    if ended.topics:
                        self._check_acceptors(ended.session)
                case _:
                    pass
        if self.balancing.method in BY_URGENCY:
            for decided in fresh:
                self._check_urgency(decided, {each.topic for each in fresh})

    def _check_way_back(self, decided: MoveDecided) -> None:
        left_at = self.left.get(decided.topic, {}).get(decided.to)
        if left_at is None:
            return
        if self._quiet_s(decided.to, left_at) < QUIET_S:
            self._problem(f"{decided.topic} goes back to {decided.to}, which it left {left_at:.1f} s in")

    def _quiet_s(self, broker: str, left_at: float) -> float:
        """For how long a broker has been LOW since a topic left it; looks are a second apart."""
        return self.world.now - max(left_at, self.not_low_at.get(broker, 0.0)) + 1.0

    def _check_acceptors(self, session: str) -> None:
        for decided_at, decided in self.decided[session]:
            changed_at = max(self.traffic.changed_at, self.traffic.joined_at.get(decided.to, 0.0))
            if changed_at > decided_at - STEADY_S:
                continue
            share = self.traffic.brokers[decided.to].utilisation
            if share >= self.balancing.high:
                self._problem(f"{decided.to} ends at {share:.2%} after {session}")

    def _check_urgency(self, decided: MoveDecided, moving: set[str]) -> None:
        """No topic of the same size, later deadline and same place stays while this one goes."""
        if decided.domain or decided.publishers or not decided.whole:
            return
        if decided.topic in self.moved_once:
            return
        size = self._size(decided.topic, decided.source)
        for topic in self.schedule.topics:
            other = topic.name
            if other in moving or other in self.moved_once or self._size(other, decided.source) != size:
                continue
            if size and self._deadline_ms(other) > self._deadline_ms(decided.topic):
                self._problem(f"{decided.topic} goes and the less urgent {other} stays at {decided.source}")

    def _deadline_ms(self, topic: str) -> float:
        return self.schedule.federation.topics.contract_of(topic).deadline_ms or 0.0

    def _size(self, topic: str, broker: str) -> tuple[float, int] | None:
        """Rate and subscribers of a topic that is at one broker alone, well known to the agent.

        None also if nobody publishes it here any more: then it is of another class; or if it is limited.
        """
        domain = self.virtual.domains[self.traffic.brokers[broker].domain]
        since = [self.traffic.topic_changed_at.get(topic, 0.0), self._published_since(topic, domain)]
        count = 0
        for client in self.virtual.clients.values():
            held = client.held.get(f"s/{topic}")
            if held is None or not client.alive:
                continue
            if held.broker != broker or held.moving:
                return None
            since += [held.since, client.known_to.get((domain.name, domain.store.term), math.inf)]
            count += 1
        if not count or max(since) > self.world.now - STEADY_S:
            return None
        if self.traffic.rates[topic] != self.traffic.offered[topic]:
            return None
        return self.traffic.rates[topic], count

    def _published_since(self, topic: str, domain: VirtualDomain) -> float:
        """Since when the agent knows of a publisher in its domain."""
        return min(
            (
                client.known_to.get((domain.name, domain.store.term), math.inf)
                for client in self.virtual.clients.values()
                if client.alive
                and (held := client.held.get(f"p/{topic}")) is not None
                and held.domain == domain.name
            ),
            default=math.inf,
        )

    # -- at the end -----------------------------------------------------------------------------------------

    def _look_at_the_end(self, domain: VirtualDomain) -> None:
        if domain.brain is None:
            self._problem(f"{domain.name} has no agent")
            return
        if method_named(self.balancing.method).started_by is not StartedBy.OVERLOAD:
            return
        status = domain.brain.status(self.world.now)
        still = {session.id for session in status.sessions if not session.outcome}
        stored = {key.removeprefix(ADMITTED) for key in domain.store.values["sessions"]} - self.just_ended
        if ended := stored - OF_NO_SESSION - self._open_sessions():
            self._problem(f"{sorted(ended)} are stored although they have ended")
        if not still:
            self._compare_directory(domain)

    def _open_sessions(self) -> set[str]:
        """Of all domains."""
        brains = [domain.brain for domain in self.virtual.domains.values() if domain.brain is not None]
        return {
            session.id
            for brain in brains
            for session in brain.status(self.world.now).sessions
            if not session.outcome
        }

    def _compare_directory(self, domain: VirtualDomain) -> None:
        assert domain.brain is not None
        served: dict[str, set[str]] = defaultdict(set)
        for client in self.virtual.clients.values():
            for held in client.held.values():
                if client.alive and held.domain == domain.name and held.role is ClientRole.SUBSCRIBER:
                    served[held.topic].add(held.broker)
        page = domain.brain.directory_page(DirectoryQuestion(), self.world.now)
        known = {
            each.topic: set(each.record.edges)
            for each in page.topics
            if each.record is not None and each.record.edges
        }
        stored = {record.topic: set(record.edges) for record in domain.store.directory()}
        for name, said in (("the directory", known), ("the store", stored)):
            for topic in sorted(served.keys() | said.keys()):
                if served.get(topic, set()) != said.get(topic, set()):
                    self._problem(
                        f"{name} has {topic} at {sorted(said.get(topic, ()))}, "
                        f"clients are at {sorted(served.get(topic, ()))}"
                    )

    def _result(self) -> SessionsResult:
        events = [event for domain in self.virtual.domains.values() for event in domain.events]
        kinds = [event.kind for event in events]
        for client in self.virtual.clients.values():
            for domain in self.virtual.domains:
                terms = [term for name, term in client.obeyed if name == domain]
                if terms != sorted(terms):
                    self._problem(f"{client.name} obeyed an earlier term")
        return SessionsResult(
            seed=self.schedule.seed,
            method=self.balancing.method,
            domains=len(self.virtual.domains),
            clients=len(self.virtual.clients),
            faults=self.schedule.faults,
            cuts=self.schedule.cuts,
            sessions=kinds.count("SessionOpened"),
            moved=sum(event.happening.moved for event in events if isinstance(event.happening, TopicMoved)),
            between_domains=sum(
                isinstance(event.happening, MoveDecided) and bool(event.happening.domain) for event in events
            ),
            deaths=sum(domain.deaths for domain in self.virtual.domains.values()),
            resumed=kinds.count("SessionResumed"),
            stale=sum(client.stale for client in self.virtual.clients.values()),
            limited=self.limits.limited,
            relieved=self.limits.relieved,
            problems=tuple(self.problems),
        )
