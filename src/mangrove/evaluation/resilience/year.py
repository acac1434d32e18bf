"""A year in which links and sites fail by their probabilities: promised and measured availability.

The choice of routes is the production code: the live map, the estimates of failure probabilities and the
route manager of each source, told of every failure and repair. What is modelled is the time between: as long
as one path of a set is up, nothing is missed; when all are down and another way exists, messages arrive again
after the time that `mangrove evaluate failover` measures; when there is none, after the repair and the time
until a repaired link is used. A packet simulation of a year would take years; `tests/sim/test_year.py` checks
the model against it on a short span. Only time counts in which both ends are up.

*Fixed* is a set that is chosen once and never repaired: the share of time in which one of its paths is up is
what `resiliency` means, so it tells whether the prediction is right. *Live* is the product.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise

from mangrove.evaluation.confidence import Estimate, estimate
from mangrove.evaluation.resilience.outages import YEAR_S, Change, Damaged, outages
from mangrove.evaluation.trials.campaign import Results, collect
from mangrove.evaluation.trials.experiment import MAIN, Experiment
from mangrove.model.events.event_log import EventLog
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.site_pair import SitePair, site_pair
from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.network.failure_estimates import FailureEstimates
from mangrove.overlay.network.link_state import LinkMeasurements
from mangrove.overlay.network.live_map import LiveMap
from mangrove.overlay.protocol.control_messages import RouteAck, RouteSetup
from mangrove.overlay.routes.damping import HOLD_S, LOOK_EVERY_S
from mangrove.overlay.routes.effective_contracts import EffectiveContracts
from mangrove.overlay.routes.establishment import Messages
from mangrove.overlay.routes.path_view import SitePath
from mangrove.overlay.routes.route_manager import REVIEW_AFTER_S, RouteManager
from mangrove.overlay.routes.session_asks import SessionAsks
from mangrove.routing.paths.resilience import resiliency, with_ends_up

PROMISES = (0.999, 0.9999)
SCHEMES = ("ospf", "one_path", "two_paths", "promise_999", "promise_9999")
LABELS = {
    "ospf": "OSPF-like, hello 1 s, dead 4 s",
    "one_path": "one path",
    "two_paths": "two disjoint paths",
    "promise_999": "resiliency 0.999",
    "promise_9999": "resiliency 0.9999",
}
RULES = TopicRules(
    (
        Contract(match="two_paths", paths=2),
        *(Contract(match=f"promise_{str(promise)[2:]}", resiliency=promise) for promise in PROMISES),
    )
)
SWITCH_S = {"ospf": 3.4, "mangrove": 0.14}
"""From a failure until messages arrive again by another way, as measured by `mangrove evaluate failover`."""
RETURN_S = {"ospf": 2.0, "mangrove": 1.0}
"""From the repair of the only way until it is used: two hellos, or the tests of a link after a failure."""
REPAIR_S = 4 * 3600.0
SITES, LINKS = 12, 20
SOURCES, RECEIVERS = 4, 1


@dataclass(slots=True)
class Account:
    """How long a stream from one site to another was promised, and how long it was missed."""

    counted_s: float = 0.0
    down_s: float = 0.0
    fixed_down_s: float = 0.0
    predicted: float = 1.0
    paths: int = 1
    changes: int = 0

    @property
    def live(self) -> float:
        """Share of time in which messages arrived."""
        return 1 - self.down_s / self.counted_s if self.counted_s else 1.0

    @property
    def fixed(self) -> float:
        """Share of time in which a path of the first set was up."""
        return 1 - self.fixed_down_s / self.counted_s if self.counted_s else 1.0


@dataclass(frozen=True)
class SchemeSummary:
    """One scheme over all seeds and pairs."""

    scheme: str
    promised: float | None
    contracts: int
    unpromised: int
    """Pairs for which the network cannot give what is asked; not among `contracts`."""
    paths: float
    predicted: float
    fixed: Estimate
    live: Estimate
    worst: float
    down_minutes_a_year: float
    changes_a_year: float

    def missed(self) -> list[str]:
        """Where less was given than promised, over all contracts: one alone may have bad luck for a year."""
        if self.promised is None:
            return []
        lines = []
        name = LABELS[self.scheme]
        if self.live.mean < self.promised:
            lines.append(f"{name}: contracts were up for {self.live.rounded(6)} of the time")
        if self.fixed.mean + (self.fixed.half_width or 0.0) < self.promised:
            lines.append(f"{name}: sets that are never repaired were up for {self.fixed.rounded(6)}")
        return lines


@dataclass(frozen=True)
class YearSummary:
    """All schemes on the same failures."""

    sites: int
    links: int
    seeds: tuple[int, ...]
    days: float
    failures_a_year: float
    schemes: tuple[SchemeSummary, ...]

    def missed(self) -> list[str]:
        """Where less was given than promised; empty if nowhere."""
        return [line for scheme in self.schemes for line in scheme.missed()]


# -- the network ------------------------------------------------------------------------------------------


def make_network(seed: int, sites: int = SITES, links: int = LINKS) -> Federation:
    """A ring in random order with random links across; probabilities of failure over a decade."""
    chance = random.Random(f"year {sites} {links} {seed}")
    names = [f"n{number:02}" for number in range(sites)]
    order = chance.sample(names, sites)
    pairs = {site_pair(*ends) for ends in zip(order, [*order[1:], order[0]], strict=True)}
    pairs |= set(chance.sample(sorted(set(combinations(names, 2)) - pairs), links - len(pairs)))
    return Federation(
        name="year",
        domains={
            name: Domain(name=name, base_port=1, failure_probability=10 ** chance.uniform(-4, -3))
            for name in names
        },
        links=tuple(
            Link(
                between=pair,
                delay_ms=round(chance.uniform(2.0, 8.0), 3),
                failure_probability=10 ** chance.uniform(-3, -2),
            )
            for pair in sorted(pairs)
        ),
        topics=RULES,
    )


# -- one source -------------------------------------------------------------------------------------------


class Source:
    """A gateway's choice of routes, told of failures as its link state would tell it."""

    def __init__(self, federation: Federation, name: str, receivers: Sequence[str]) -> None:
        self.name = name
        self._live = LiveMap(federation, name)
        self._log = EventLog(name, 0)
        contracts = EffectiveContracts(RULES, SessionAsks(RULES))
        self._manager = RouteManager(federation, name, 1, contracts, self._live, self._log)
        self.keys = [(place, receiver) for place in range(len(RULES.contracts)) for receiver in receivers]
        self._manager.observe(0.0)
        self._serve(self._manager.want(self.keys, 0.0), 0.0)
        self._estimates = FailureEstimates(federation)

    def learn(self, failed: frozenset[SitePair], now: float) -> None:
        """Everybody knows what has failed; broken routes are replaced."""
        self._live.update(failed, LinkMeasurements())
        self._manager.observe(now)
        self._serve(self._manager.network_changed(now, None, links=True), now)
        self._serve(self._manager.catch_up(now + REVIEW_AFTER_S), now + REVIEW_AFTER_S)

    def look(self, now: float) -> None:
        """Nothing has happened for a while: whether it can be had for less."""
        self._serve(self._manager.catch_up(now), now)

    def _serve(self, messages: Messages, now: float) -> None:
        """Everybody on the way acknowledges at once."""
        waiting = list(messages)
        while waiting:
            _, message = waiting.pop(0)
            if isinstance(message, RouteSetup):
                answer = RouteAck(
                    origin=message.origin,
                    epoch=message.epoch,
                    label=message.label,
                    path=message.path,
                    version=message.version,
                    ok=True,
                )
                waiting += self._manager.acknowledge(answer, now)
        self._log.take()

    def paths(self, scheme: str, receiver: str) -> list[SitePath]:
        """What a scheme uses now."""
        if scheme in ("ospf", "one_path"):
            way = self._live.table_path(receiver)
            return [way] if way else []
        routes = self._manager.sets.get((RULES.class_of(scheme), receiver))
        return [] if routes is None else [route.path for route in routes.active()]

    def predicted(self, scheme: str, receiver: str) -> float:
        """Probability that one of the paths in use is up."""
        graph = self._estimates.on(self._live.live_graph(), 0.0)
        ends = graph.index(self.name), graph.index(receiver)
        paths = [graph.indices(path) for path in self.paths(scheme, receiver)]
        return resiliency(with_ends_up(graph, *ends), paths)


# -- the year ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Stream:
    scheme: str
    source: str
    receiver: str
    first: list[SitePath]
    paths: list[SitePath]
    account: Account
    cut_off: bool = False


@dataclass(slots=True)
class Year:
    """The failures of one seed, and what the schemes made of them."""

    federation: Federation
    pairs: Sequence[SitePair]
    duration_s: float = YEAR_S
    repair_s: float = REPAIR_S
    accounts: dict[tuple[str, str, str], Account] = field(default_factory=dict)
    failures: int = 0

    def run(self, seed: int) -> None:
        """Let it pass with the failures of a seed."""
        self.run_changes(outages(self.federation, self.duration_s, self.repair_s, seed))

    def run_changes(self, changes: Sequence[Change]) -> None:
        """Let it pass with these failures and repairs."""
        receivers: dict[str, list[str]] = {}
        for source, receiver in self.pairs:
            receivers.setdefault(source, []).append(receiver)
        sources = {name: Source(self.federation, name, wanted) for name, wanted in receivers.items()}
        streams = [
            self._begin(sources[source], scheme, receiver)
            for scheme in SCHEMES
            for source, receiver in self.pairs
        ]
        state = Damaged(self.federation)
        times = [0.0, *(change.at for change in changes), self.duration_s]
        self._pass(streams, state, times[1])
        for number, change in enumerate(changes, start=1):
            state.apply(change)
            self.failures += not change.up
            until = times[number + 1]
            self._pass(streams, state, until - change.at, repaired=change.up)
            rested = change.at + HOLD_S + 2 * LOOK_EVERY_S
            for each in sources.values():
                each.learn(state.failed, change.at)
                if until > rested:
                    each.look(rested)
            for stream in streams:
                now = sources[stream.source].paths(stream.scheme, stream.receiver)
                stream.account.changes += len(set(now) - set(stream.paths))
                stream.paths = now

    def _begin(self, source: Source, scheme: str, receiver: str) -> _Stream:
        paths = source.paths(scheme, receiver)
        predicted = source.predicted(scheme, receiver)
        account = self.accounts[scheme, source.name, receiver] = Account(
            predicted=predicted, paths=len(paths)
        )
        return _Stream(scheme, source.name, receiver, paths, paths, account)

    def _pass(
        self, streams: Sequence[_Stream], state: Damaged, span_s: float, *, repaired: bool = False
    ) -> None:
        """A time in which nothing changes, after something was repaired or has failed."""
        failed = state.failed
        for stream in streams:
            if state.sites.intersection((stream.source, stream.receiver)):
                continue
            account = stream.account
            account.counted_s += span_s
            if not any(_up(path, failed) for path in stream.first):
                account.fixed_down_s += span_s
            kind = "ospf" if stream.scheme == "ospf" else "mangrove"
            if stream.receiver not in self.federation.reachable(stream.source, failed):
                account.down_s += span_s
                stream.cut_off = True
            elif stream.cut_off:
                account.down_s += min(span_s, RETURN_S[kind])
                stream.cut_off = False
            elif not any(_up(path, failed) for path in stream.paths) and not repaired:
                account.down_s += min(span_s, SWITCH_S[kind])


def _up(path: SitePath, failed: frozenset[SitePair]) -> bool:
    return not any(site_pair(*hop) in failed for hop in pairwise(path))


@dataclass(frozen=True, slots=True)
class YearSetting:
    """A span of time, and the size of the networks."""

    duration_s: float = YEAR_S
    sites: int = SITES
    links: int = LINKS


@dataclass(frozen=True, slots=True)
class YearTrial:
    """One year: how often something failed, and every scheme's accounts."""

    failures: int
    accounts: dict[str, tuple[Account, ...]]


def run_seed(setting: YearSetting, seed: int) -> YearTrial:
    """All schemes over the year of a seed."""
    federation = make_network(seed, setting.sites, setting.links)
    chance = random.Random(f"pairs {seed}")
    names = list(federation.domains)
    sources = chance.sample(names, SOURCES)
    pairs = [
        (source, receiver)
        for source in sources
        for receiver in chance.sample([name for name in names if name != source], RECEIVERS)
    ]
    year = Year(federation, pairs, setting.duration_s)
    year.run(seed)
    accounts: dict[str, list[Account]] = {scheme: [] for scheme in SCHEMES}
    for (scheme, _, _), account in year.accounts.items():
        accounts[scheme].append(account)
    return YearTrial(year.failures, {scheme: tuple(found) for scheme, found in accounts.items()})


def year_trials(setting: YearSetting) -> Experiment[YearSetting, YearTrial]:
    """The experiment as trials."""
    return Experiment("resilience", run_seed, {MAIN: setting}, YearTrial)


def run_year(
    seeds: Sequence[int], *, duration_s: float = YEAR_S, sites: int = SITES, links: int = LINKS
) -> YearSummary:
    """All schemes over the years of all seeds, in this process."""
    setting = YearSetting(duration_s, sites, links)
    trials = year_trials(setting)
    return summarise(setting, collect(trials, trials.tasks(seeds)))


def summarise(setting: YearSetting, results: Results[YearTrial]) -> YearSummary:
    """All schemes over all years."""
    found, years_each = results.of(MAIN), setting.duration_s / YEAR_S
    return YearSummary(
        setting.sites,
        setting.links,
        results.seeds(MAIN),
        setting.duration_s / 86400,
        sum(one.failures for one in found) / (len(found) * years_each),
        tuple(
            _summary(scheme, [account for one in found for account in one.accounts[scheme]], years_each)
            for scheme in SCHEMES
        ),
    )


def _summary(scheme: str, accounts: Sequence[Account], years: float) -> SchemeSummary:
    promises: Mapping[str, float] = {f"promise_{str(promise)[2:]}": promise for promise in PROMISES}
    promised = promises.get(scheme)
    kept = [each for each in accounts if promised is None or each.predicted >= promised - 1e-12]
    count = max(len(kept), 1)
    live = estimate([each.live for each in kept] or [1.0])
    return SchemeSummary(
        scheme=scheme,
        promised=promised,
        contracts=len(kept),
        unpromised=len(accounts) - len(kept),
        paths=sum(each.paths for each in kept) / count,
        predicted=sum(each.predicted for each in kept) / count,
        fixed=estimate([each.fixed for each in kept] or [1.0]),
        live=live,
        worst=min((each.live for each in kept), default=1.0),
        down_minutes_a_year=(1 - live.mean) * YEAR_S / 60,
        changes_a_year=sum(each.changes for each in kept) / count / years,
    )
