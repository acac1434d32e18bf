"""Leads new subscribers to linked domains that publish what they ask for, and calls them back if need be.

A client is served at home at once, as ever; what is decided here moves it afterwards, by the hand-over that
loses nothing. A subscription is led abroad at most once and called back at most once, so that nothing can go
to and fro; nothing is stored, since whatever an order led to the client itself tells (decision 0580).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from mangrove.control.advertising import Advertising
from mangrove.control.clients.placements import Served, WishId
from mangrove.control.clients.registry import Clients
from mangrove.control.domain_view import DomainView
from mangrove.control.events.steering_happenings import (
    GuestsRecalled,
    SteeringDecided,
    SteeringRefused,
    SubscribersSteered,
)
from mangrove.control.instructions import Instruction, TellClient, TellPeer
from mangrove.control.profile.profile import LoadProfile
from mangrove.control.sessions.closing import Closing
from mangrove.control.sessions.neighbour_talk import NO_PLACE, names_a_place
from mangrove.control.sessions.states import settling_s
from mangrove.control.site import Site
from mangrove.control.steering.choice import Verdict, choose
from mangrove.control.steering.distances import Distances
from mangrove.control.steering.errand import ANSWER_S, REPEAT_S, Errand, ErrandState, Group
from mangrove.control.steering.room import Demand, fit
from mangrove.control.steering.sayings import Sayings
from mangrove.model.agents.load import Amounts, LoadState
from mangrove.model.agents.peers import MAX_TOPICS_A_MESSAGE, AdmissionTold, RoomTold, SessionClosed
from mangrove.model.agents.registration import ClientRole, Migrated, Order
from mangrove.model.events.event_log import EventLog

FIRST_LOOK_S = 2.0
"""After so long a subscriber has reported what it gets, and others that came with it are here too."""
LOOK_S = 5.0
PATIENCE_S = 60.0
"""Who has not been led elsewhere after so long stays, whatever is published later."""
REFUSED_S = 20.0
"""A domain that has taken nothing is left alone for so long."""
RECALL_S = 10.0
"""A domain whose edges are all overloaded for so long gets rid of its guests."""
MAX_PENDING = 100_000
TOPICS_A_LOOK = 200
PUBLISHED_LOOKED_AT = 1_000
"""So many published topics under a pattern are enough to see where they come from."""
TOO_MANY = "more new subscribers than can be looked at"


class Steering:
    """Of one term."""

    def __init__(
        self,
        site: Site,
        clients: Clients,
        profile: LoadProfile,
        advertising: Advertising,
        view: DomainView,
        log: EventLog,
        *,
        term: int,
        home: Callable[[str, float], str],
        occupied: Callable[[str], bool],
        paused: Callable[[], bool] = lambda: False,
    ) -> None:
        """`home` names the broker that serves a topic here, or would; nothing is done about topics that are
        `occupied` by a session or a plan."""
        self._site = site
        self._clients = clients
        self._profile = profile
        self._advertising = advertising
        self._view = view
        self._log = log
        self._term = term
        self._home = home
        self._occupied = occupied
        self._paused = paused
        self._distances = Distances(site.federation)
        self._closing = Closing(lambda: 0)
        self._count = 0
        self._pending: dict[WishId, tuple[str, float]] = {}
        """New subscriptions: topic, and since when."""
        self._errands: dict[str, Errand] = {}
        self._steered: dict[WishId, tuple[str, str]] = {}
        """Subscriptions that were led abroad in this term: topic and domain."""
        self._crowded_since: dict[str, float] = {}
        self._rests_until: dict[str, float] = {}
        self._look_at = math.inf
        self.sayings = Sayings()
        self.refused: Counter[str] = Counter()

    # -- who comes and goes ---------------------------------------------------------------------------------

    def placed(self, served: Served, now: float) -> None:
        """A new subscription is served at home."""
        wish = served.wish
        if wish.role is ClientRole.PUBLISHER or wish.queue or not wish.movable:
            return
        if not self._site.has(served.broker) or not self._site.may_be_steered(served.topic):
            return
        if len(self._pending) >= MAX_PENDING:
            self.refused[TOO_MANY] += 1
            return
        self._pending[served.id] = (served.topic, now)
        self._look_at = min(self._look_at, now + FIRST_LOOK_S)

    def located(self, served: Served) -> None:
        """A subscription is served elsewhere than before; one that is at home again stays there."""
        if self._site.has(served.broker):
            self._steered.pop(served.id, None)

    def gone(self, wish: WishId, now: float) -> list[Instruction]:
        """A client has left, or does not want something any more."""
        self._pending.pop(wish, None)
        self._steered.pop(wish, None)
        for errand in list(self._errands.values()):
            if errand.orders.drop(wish) is not None:
                return self._if_done(errand, now)
        return []

    def confirmed(self, message: Migrated, now: float) -> list[Instruction]:
        """A client has done as it was told, or says why not."""
        errand = self._errands.get(message.session)
        wish = (message.client, message.key)
        topic = None if errand is None else errand.orders.drop(wish)
        if errand is None or topic is None:
            return []
        group = errand.groups[topic]
        if message.problem or group.to is None or message.broker != group.to.broker:
            group.stayed[message.problem[:200] or "it is served elsewhere"] += 1
        else:
            group.moved += 1
            if not errand.home:
                self._steered[wish] = (topic, errand.domain)
        return self._if_done(errand, now)

    # -- deciding -------------------------------------------------------------------------------------------

    def _look(self, now: float) -> list[Instruction]:
        """Decide about those who came; who waits for too long stays."""
        for wish in [wish for wish, (_, since) in self._pending.items() if now >= since + PATIENCE_S]:
            del self._pending[wish]
        self._look_at = now + LOOK_S if self._pending else math.inf
        if self._paused():
            return []
        loads = self._view.neighbours(now)
        found: dict[str, dict[str, Group]] = {}
        for topic, wishes in self._new_ones(now).items():
            sources = self._advertising.sources_under(topic, PUBLISHED_LOOKED_AT)
            shared = self._others_at_home(topic)
            verdict = choose(self._site.domain, sources, loads, self._distances, shared=shared)
            self.sayings.say(topic, f"at home: {verdict.why}")
            if verdict.domain and not self._site.federation.domains[verdict.domain].names:
                group = Group(topic, tuple(wishes), sources, verdict)
                found.setdefault(verdict.domain, {})[topic] = group
        told: list[Instruction] = []
        busy = {errand.domain for errand in self._errands.values()}
        for domain, groups in sorted(found.items()):
            if domain not in busy and now >= self._rests_until.get(domain, -math.inf):
                told += self._ask(domain, groups, now)
        return told

    def _new_ones(self, now: float) -> dict[str, list[WishId]]:
        """New subscriptions by topic, those that were not looked at for longest first."""
        topics: dict[str, list[WishId]] = {}
        for wish, (topic, since) in self._pending.items():
            if now < since + FIRST_LOOK_S or self._occupied(topic):
                continue
            if topic in topics or len(topics) < TOPICS_A_LOOK:
                topics.setdefault(topic, []).append(wish)
        for wish in [wish for wishes in topics.values() for wish in wishes]:
            self._pending[wish] = self._pending.pop(wish)  # behind all whose turn has not come
        return topics

    def _others_at_home(self, topic: str) -> bool:
        """Whether somebody here has the topic about whom nothing is to be decided any more."""
        placements = self._clients.placements
        return any(
            served.id not in self._pending
            for broker in placements.brokers(ClientRole.SUBSCRIBER, topic)
            if self._site.has(broker)
            for served in placements.members(ClientRole.SUBSCRIBER, topic, broker)
        )

    def _ask(self, domain: str, groups: Mapping[str, Group], now: float) -> list[Instruction]:
        chosen = {topic: groups[topic] for topic in sorted(groups)[:MAX_TOPICS_A_MESSAGE]}
        errand = self._begin(domain, chosen, ErrandState.ASKING, now + ANSWER_S)
        return self._ask_again(errand, now)

    def _begin(self, domain: str, groups: dict[str, Group], state: ErrandState, until: float) -> Errand:
        self._count += 1
        name = f"{self._site.domain}-{self._term}-steer{self._count}"
        errand = self._errands[name] = Errand(name, domain, groups, state, until)
        return errand

    def _ask_again(self, errand: Errand, now: float) -> list[Instruction]:
        errand.ask_at = now + REPEAT_S
        return [TellPeer(errand.domain, errand.question())]

    # -- answers of linked domains --------------------------------------------------------------------------

    def heard(
        self, peer: str, message: RoomTold | AdmissionTold | SessionClosed, now: float
    ) -> list[Instruction]:
        """A linked domain has answered; what nobody asked for is none of ours."""
        if isinstance(message, SessionClosed):
            self._closing.closed(message.session, peer)
            return []
        errand = self._errands.get(message.session)
        if errand is None or errand.domain != peer:
            return []
        if isinstance(message, RoomTold) and errand.state is ErrandState.ASKING:
            return self._choose_edges(errand, message, now)
        if isinstance(message, AdmissionTold) and errand.state is ErrandState.ADMITTING:
            return self._admitted(errand, message, now)
        return []

    def _choose_edges(self, errand: Errand, told: RoomTold, now: float) -> list[Instruction]:
        demands = {topic: self._demand(group) for topic, group in errand.groups.items()}
        errand.chosen = fit(demands, told.brokers)
        if not errand.chosen:
            return self._nothing_taken(errand, "no edge has room beyond its reserve", now)
        errand.state, errand.until = ErrandState.ADMITTING, now + ANSWER_S
        return self._ask_again(errand, now)

    def _demand(self, group: Group) -> Demand:
        rates = [self._profile.rate(*wish) for wish in group.wishes]
        messages_s = max((rate for rate, _ in rates), default=0.0)
        bytes_s = max((rate for _, rate in rates), default=0.0)
        clients = tuple(sorted({client for client, _ in group.wishes}))
        return Demand(clients, Amounts(bytes_s, 0.0, messages_s), sum(rate for _, rate in rates))

    def _admitted(self, errand: Errand, told: AdmissionTold, now: float) -> list[Instruction]:
        why = "it took nothing"
        for topic, incoming in errand.chosen.items():
            name, url = told.urls.get(topic, ("", ""))
            if name != incoming.broker or not url or not told.management_url:
                continue
            if not (names_a_place(url) and names_a_place(told.management_url)):
                why = NO_PLACE
            else:
                group = errand.groups[topic]
                group.to = msgspec.structs.replace(self._view.assignment(topic, ""), broker=name, url=url)
        groups = {topic: group for topic, group in errand.groups.items() if group.to is not None}
        if not groups:
            return self._nothing_taken(errand, why, now)
        errand.groups, errand.management_url = groups, told.management_url
        for group in groups.values():
            self._decided(errand, group, now)
        return self._move(errand, now)

    def _decided(self, errand: Errand, group: Group, now: float) -> None:
        verdict = group.verdict
        group.decided_by = self._log.note(
            SteeringDecided(
                errand=errand.id,
                topic=group.topic,
                domain=errand.domain,
                clients=len(group.wishes),
                sources=group.sources,
                home_crossings=verdict.home.crossings,
                crossings=verdict.there.crossings,
                home_ms=verdict.home.mean_ms,
                there_ms=verdict.there.mean_ms,
                slack_ms=verdict.slack_ms,
                why=verdict.why,
            ),
            now,
        )
        self.sayings.say(group.topic, f"led to {errand.domain}: {verdict.why}", group.decided_by)

    def _nothing_taken(self, errand: Errand, why: str, now: float) -> list[Instruction]:
        self._rests_until[errand.domain] = now + REFUSED_S
        topics = tuple(errand.groups)
        event = self._log.note(
            SteeringRefused(errand=errand.id, domain=errand.domain, topics=topics, why=why), now
        )
        for topic in topics:
            self.sayings.say(topic, f"at home: {errand.domain} does not take it now, {why}", event)
        return self._end(errand, now)

    # -- moving ---------------------------------------------------------------------------------------------

    def _move(self, errand: Errand, now: float) -> list[Instruction]:
        errand.state = ErrandState.MOVING
        errand.until = now + self._site.balancing.migration_timeout_s
        for group in errand.groups.values():
            for wish in group.wishes:
                if self._clients.served(*wish) is not None and (errand.home or wish in self._pending):
                    errand.orders.add(wish, group.topic)
                    self._pending.pop(wish, None)
        return [*self._tell(errand, now), *self._if_done(errand, now)]

    def _tell(self, errand: Errand, now: float) -> list[Instruction]:
        return [
            TellClient(wish[0], self._order(errand, wish, topic)) for wish, topic in errand.orders.due(now)
        ]

    def _order(self, errand: Errand, wish: WishId, topic: str) -> Order:
        group = errand.groups[topic]
        assert group.to is not None, "clients are told once it is known where to"
        if errand.home:
            reason = f"the edges of {errand.domain} are overloaded"
            pause_s = self._view.pause_s(errand.domain)
            return Order(
                term=self._term, session=errand.id, key=wish[1], to=group.to, pause_s=pause_s, reason=reason
            )
        return Order(
            term=self._term,
            session=errand.id,
            key=wish[1],
            to=group.to,
            domain=errand.domain,
            management_url=errand.management_url,
            pause_s=self._view.pause_s(errand.domain),
            slack_ms=group.verdict.slack_ms,
            reason=f"what it asks for is published nearer to {errand.domain}",
        )

    def _if_done(self, errand: Errand, now: float) -> list[Instruction]:
        if errand.state is not ErrandState.MOVING or errand.orders:
            return []
        return self._finish(errand, now)

    def _finish(self, errand: Errand, now: float) -> list[Instruction]:
        for topic, group in errand.groups.items():
            if waiting := errand.orders.waiting(topic):
                group.stayed["it did not say what became of it"] += waiting
            assert group.to is not None, "as above"
            event = self._log.note(
                SubscribersSteered(
                    errand=errand.id,
                    topic=topic,
                    broker=group.to.broker,
                    moved=group.moved,
                    stayed=dict(group.stayed),
                ),
                now,
                group.decided_by,
            )
            if not group.moved and group.stayed:
                why = next(iter(group.stayed))
                self.sayings.say(topic, f"at home: {why}" if not errand.home else f"abroad: {why}", event)
        # What has just come there is in no measurement yet.
        self._rests_until[errand.domain] = now + settling_s(self._site.balancing)
        return self._end(errand, now)

    def _end(self, errand: Errand, now: float) -> list[Instruction]:
        del self._errands[errand.id]
        told = errand.state is not ErrandState.ASKING and not errand.home
        return self._closing.tell(errand.id, [errand.domain] if told else [], now)

    # -- coming home ----------------------------------------------------------------------------------------

    def loaded(self, now: float) -> list[Instruction]:
        """Loads were told: who was led to a domain that has been overloaded for a while comes home."""
        told: list[Instruction] = []
        loads = self._view.neighbours(now)
        hosts = sorted({domain for _, domain in self._steered.values()})
        for domain in hosts:
            load = loads.get(domain)
            if load is None or load.edges is not LoadState.OVERLOAD:
                self._crowded_since.pop(domain, None)
                continue
            since = self._crowded_since.setdefault(domain, now)
            idle = all(errand.domain != domain for errand in self._errands.values())
            if now >= since + RECALL_S and idle and not self._paused():
                told += self._recall(domain, now)
        return told

    def _recall(self, domain: str, now: float) -> list[Instruction]:
        topics: dict[str, list[WishId]] = {}
        for wish, (topic, where) in self._steered.items():
            if where == domain:
                topics.setdefault(topic, []).append(wish)
        chosen = dict(sorted(topics.items())[:MAX_TOPICS_A_MESSAGE])
        cost = choose(self._site.domain, {}, {}, self._distances).home
        groups = {
            topic: Group(topic, tuple(wishes), {}, Verdict("", cost, cost, "it comes home"))
            for topic, wishes in chosen.items()
        }
        errand = self._begin(domain, groups, ErrandState.MOVING, math.inf)
        errand.home = True
        event = self._log.note(
            GuestsRecalled(
                errand=errand.id,
                domain=domain,
                topics=tuple(chosen),
                clients=sum(map(len, chosen.values())),
            ),
            now,
        )
        for topic, group in groups.items():
            group.to = self._view.assignment(topic, self._home(topic, now))
            group.decided_by = event
            self.sayings.say(topic, f"at home: the edges of {domain} were overloaded", event)
            for wish in group.wishes:
                self._steered.pop(wish, None)
        return self._move(errand, now)

    # -- time -----------------------------------------------------------------------------------------------

    def timer(self) -> float:
        """When to be called again."""
        due = [errand.timer() for errand in self._errands.values()]
        return min([self._look_at, self._closing.timer(), *due])

    def handle_timer(self, now: float) -> list[Instruction]:
        """Look at those who are new, repeat what was not answered, end what takes too long."""
        told = self._closing.handle_timer(now)
        for errand in list(self._errands.values()):
            if now >= errand.until:
                told += self._time_out(errand, now)
            elif errand.state is ErrandState.MOVING:
                told += self._tell(errand, now)
            elif now >= errand.ask_at:
                told += self._ask_again(errand, now)
        if now >= self._look_at:
            told += self._look(now)
        return told

    def _time_out(self, errand: Errand, now: float) -> list[Instruction]:
        if errand.state is ErrandState.MOVING:
            return self._finish(errand, now)
        return self._nothing_taken(errand, "it did not answer in time", now)

    # -- questions ------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Invariants that do not hold; for tests."""
        domains = [errand.domain for errand in self._errands.values()]
        found = [f"two errands to {each}" for each, count in Counter(domains).items() if count > 1]
        found += [f"{wish} is new and was led abroad" for wish in self._pending if wish in self._steered]
        return found
