"""Everything that an agent knows and decides with while it leads: made anew with every term."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

import msgspec

from mangrove.control.advertising import Advertising
from mangrove.control.broker_watch import BrokerWatch
from mangrove.control.clients.plain_clients import PlainClientMoves
from mangrove.control.clients.registrar import Registrar
from mangrove.control.clients.registry import Clients
from mangrove.control.congestion.domain.department import CongestionDepartment
from mangrove.control.congestion.domain.stored import found_in
from mangrove.control.directory.directory import Directory
from mangrove.control.directory.pages import DirectoryPages
from mangrove.control.directory.publish_places import PublishPlaces
from mangrove.control.distribution import Distributor
from mangrove.control.domain_view import DomainView
from mangrove.control.elastic.department import ElasticDepartment
from mangrove.control.failures.cases import CaseBook
from mangrove.control.failures.department import FailureDepartment
from mangrove.control.failures.stored import failures_in
from mangrove.control.failures.watch import FailureWatch
from mangrove.control.mirrors.mirrors import Mirrors
from mangrove.control.neighbours import Neighbours
from mangrove.control.pause import Pause
from mangrove.control.plans.department import PlanDepartment
from mangrove.control.plans.surroundings import DomainPlans
from mangrove.control.policies.colleagues import Colleagues
from mangrove.control.policies.replication import Replication
from mangrove.control.policies.stored import found_policies
from mangrove.control.profile.profile import LoadProfile
from mangrove.control.sessions.admissions import Admissions
from mangrove.control.sessions.coordinator import Coordinator
from mangrove.control.site import Site
from mangrove.control.steering.department import Steering
from mangrove.control.stimuli import (
    LeadershipTaken,
)
from mangrove.control.store_writes import StoreWrites
from mangrove.model.agents.load import LoadState
from mangrove.model.agents.registration import (
    ClientRole,
)
from mangrove.model.agents.status import AgentStatus
from mangrove.model.events.event_log import EventLog


class Departments:
    """The parts of one term, each told of the others what it needs."""

    def __init__(
        self,
        site: Site,
        watch: BrokerWatch,
        failures: FailureWatch,
        log: EventLog,
        taken: LeadershipTaken,
        colleagues: Colleagues,
        now: float,
        *,
        seed: int,
        clock_shift_s: float,
        set_off: Callable[[Collection[str], Collection[str]], None],
    ) -> None:
        """`set_off` takes brokers that are switched off, and those that are about to be."""
        self.site = site
        self.watch = watch
        self.failure_watch = failures
        self.clients = Clients(site.brokers)
        self.mirrors = Mirrors(
            site,
            watch.loads,
            published=lambda topic: self.clients.placements.count(ClientRole.PUBLISHER, topic) > 0,
            planned=lambda topic: self.plans.mirror(topic),
            clock_shift_s=clock_shift_s,
        )
        self.directory = Directory(site.domain, self.mirrors)
        self.store = StoreWrites(self.directory, log)
        self.replication = Replication(
            colleagues.membership,
            colleagues.holdings,
            log,
            term=taken.term,
            number=self.store.number,
            found=found_policies(taken.sessions),
        )
        self.pause = Pause(taken.sessions, log, number=self.store.number, clock_shift_s=clock_shift_s)
        self.profile = LoadProfile(site.balancing, site.federation.topics)
        self.advertising = Advertising(site.federation, site.domain, clock_shift_s=clock_shift_s, now=now)
        self.neighbours = Neighbours(site.federation, site.domain, int((now + clock_shift_s) * 1000))
        self.plain = PlainClientMoves(site, self.profile, log)
        view = DomainView(
            site,
            watch,
            self.clients,
            self.directory,
            self.profile,
            self.advertising,
            self.neighbours,
            lambda topic, at, decision: self.registrar.redirect(topic, at, decision),
            lambda load, at: self.congestion.as_offered(load, at),
            lambda: self.congestion.offered_parts(),
            lambda topic: self.plans.moving(topic),
        )
        self.view = view
        self.admissions = Admissions(
            site,
            view,
            log,
            lambda topic, at: self.sessions.barred(topic, at),
            number=self.store.number,
            clock_shift_s=clock_shift_s,
            paused=lambda: self.pause.in_force,
        )
        self.sessions = Coordinator(
            site.domain,
            site.balancing,
            view,
            log,
            number=self.store.number,
            clock_shift_s=clock_shift_s,
            disconnect=self.plain.disconnect,
            still_short=lambda broker: self.congestion.control.still_short(broker),
            paused=lambda: self.pause.in_force,
        )
        self.congestion = CongestionDepartment(
            site,
            watch,
            view,
            self.clients,
            self.directory,
            self.profile,
            self.advertising,
            log,
            lambda: self.sessions,
            term=taken.term,
            number=self.store.number,
            found=found_in(taken.sessions),
            paused=lambda: self.pause.in_force,
        )
        self.plans = PlanDepartment(
            site,
            DomainPlans(
                site,
                watch,
                self.clients,
                self.directory,
                view,
                lambda: self.sessions,
                known=lambda at: not self.registrar.believes(at),
                paused=lambda: self.pause.in_force,
            ),
            log,
            term=taken.term,
            number=self.store.number,
            clock_shift_s=clock_shift_s,
        )
        self.registrar = Registrar(
            site,
            self.clients,
            self.directory,
            Distributor(site.balancing, site.description.placement, seed),
            log,
            loads=watch.loads,
            target=lambda topic: self.sessions.target(topic, publishers=False) or self.plans.target(topic),
            expected=self.admissions.expected,
            ordered=lambda served: (
                self.sessions.orders(served.id, served.topic, served.broker) or self.plans.orders(served)
            ),
            mirrors=self.mirrors,
            clock_shift_s=clock_shift_s,
        )
        self.steering = Steering(
            site,
            self.clients,
            self.profile,
            self.advertising,
            view,
            log,
            term=taken.term,
            home=self.registrar.home,
            occupied=lambda topic: self.sessions.moves_topic(topic) or self.plans.moving(topic),
            paused=lambda: self.pause.in_force,
        )
        self.cases = CaseBook(
            site,
            lambda: self.plans,
            log,
            number=self.store.number,
            rates=view.topic_rates,
            places=view.places,
        )
        self.failures = FailureDepartment(
            site,
            failures,
            self.clients,
            self.directory,
            self.registrar,
            log,
            number=self.store.number,
            found=failures_in(taken.sessions),
            plans=lambda: self.plans,
            cases=self.cases,
            paused=lambda: self.pause.in_force,
            clock_shift_s=clock_shift_s,
        )
        self.elastic = ElasticDepartment(
            site,
            watch,
            self.clients,
            self.directory,
            self.registrar,
            self.sessions,
            log,
            number=self.store.number,
            set_off=set_off,
            answers=failures.answers,
            hindered=lambda at: (
                self.failures.unsettled(at)
                or bool(failures.failed)
                or self.plans.rolling_out
                or self.registrar.believes(at)
            ),
            plan=lambda: None if self.plans.in_force is None else self.plans.in_force.plan,
        )
        self.pages = DirectoryPages(
            site,
            self.directory,
            self.clients.placements,
            self.advertising,
            self.steering.sayings.of,
        )
        self.places: PublishPlaces | None = None
        if site.balancing.publish_at_edges:
            self.places = PublishPlaces(
                site,
                self.clients.placements,
                self.directory,
                log,
                self.advertising.wanted_elsewhere,
                clock_shift_s,
            )

    def status(self, status: AgentStatus, now: float) -> AgentStatus:
        """What there is to say beyond the loads of brokers."""
        return msgspec.structs.replace(
            status,
            peers=self.neighbours.status(now),
            sessions=(*self.sessions.sessions(now), *self.sessions.ended),
            clients=len(self.clients),
            subscriptions=self.clients.placements.counts[ClientRole.SUBSCRIBER],
            records=len(self.directory),
            mirrored=self.mirrors.mirrored,
            unmirrored=self.mirrors.without,
            advertised=self.advertising.advertised,
            moves=self.sessions.moves,
            congested=self.sessions.congested,
            refused=dict(self._refused() + Counter(status.refused)),
            store_problem=self.store.problem,
            congestion=self.congestion.status(now),
            paused=self.pause.status,
            failures=msgspec.structs.replace(
                self.failure_watch.status(self._bottlenecks(now), self.failures.dropped, now),
                power=self.elastic.status(),
            ),
        )

    def _bottlenecks(self, now: float) -> list[str]:
        """Brokers that are overloaded, by a metric or a trigger: the third detector of GEMOM."""
        loads = self.watch.loads(now).values()
        return [load.broker for load in loads if load.reachable and load.measured is LoadState.OVERLOAD]

    def _refused(self) -> Counter[str]:
        """What was not believed or not taken, by reason."""
        return (
            self.clients.refused
            + self.profile.refused
            + self.advertising.refused
            + self.neighbours.refused
            + self.admissions.refused
            + self.plain.refused
            + self.congestion.refused
            + self.failure_watch.refused()
            + self.cases.refused
            + self.plans.refused
            + self.steering.refused
        )

    def problems(self) -> list[str]:
        """Invariants that do not hold; for tests."""
        found = self.clients.problems() + self.sessions.problems()
        found += self.failures.problems()
        found += self.neighbours.problems() + self.advertising.problems() + self.congestion.problems()
        found += self.plans.problems() + self.steering.problems()
        expected = self.sessions.busy() | self.admissions.busy()
        if self.watch.busy() != expected:
            found.append(f"{self.watch.busy()} are busy, {expected} take part in sessions")
        return found
