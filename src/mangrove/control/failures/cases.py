"""Cases at run time (RQMOM §4.3.1): those of the plan in force, and those computed since for other states.

A state is the set of brokers that are down. The plan has a case for the normal state, for every single and
double failure and for lost hosts; for any other state one is asked for when it begins, computed beside all
else within the grace that a dead broker has, kept, and stored for the next leader. What was kept under
another plan, for another topology or by another schema serves nobody, and is refused with the reason.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping

import msgspec

from mangrove.control.events.failure_happenings import CaseKept, CasesRefused
from mangrove.control.instructions import ComputeCase, Instruction, Store, StoreWrite
from mangrove.control.plans.department import PlanDepartment
from mangrove.control.site import Site
from mangrove.control.stimuli import CaseComputed
from mangrove.control.store_writes import SESSIONS
from mangrove.model.agents.load import Metric
from mangrove.model.events.event_log import EventId, EventLog
from mangrove.model.plans.case_request import CaseRequest
from mangrove.model.plans.plan import Placing, PlanCase
from mangrove.model.plans.topology import topology_fingerprint
from mangrove.model.unreadable import UNREADABLE

CASES_KEY = "cases"
SCHEMA = 1
MAX_CASES = 32
"""Kept; beyond it the one that was not used for longest goes."""
MAX_STORED_BYTES = 512 << 10
"""What is more is not stored, but computed again by the next leader."""
MAX_ITEMS = 600
"""Without a plan, topics are items; of more, no case is computed."""
FRESH_S = 600.0
"""A case without a plan was made for what was measured then, and is good for so long."""


class StoredCases(msgspec.Struct, frozen=True, kw_only=True, tag="cases"):
    """All that are kept of one plan."""

    schema: int
    topology: str
    plan: int
    cases: tuple[PlanCase, ...] = ()


class _Header(msgspec.Struct, frozen=True, kw_only=True, tag="cases"):
    """What every schema has."""

    schema: int = 0


_header = msgspec.json.Decoder(_Header)
_decoder = msgspec.json.Decoder(StoredCases)

Rates = Callable[[float], Mapping[str, float]]
"""Messages a second by topic, as measured."""
Places = Callable[[], Mapping[str, Placing]]
"""Where topics are, by the directory."""


class CaseBook:
    """Cases of one domain, for one term of its leader."""

    def __init__(
        self,
        site: Site,
        plans: Callable[[], PlanDepartment],
        log: EventLog,
        *,
        number: Callable[[], int],
        rates: Rates,
        places: Places,
    ) -> None:
        self._site = site
        self._plans = plans
        self._log = log
        self._number = number
        self._rates = rates
        self._places = places
        self._topology = topology_fingerprint(site.federation, site.domain)
        self._kept: OrderedDict[tuple[int, frozenset[str]], tuple[PlanCase, float]] = OrderedDict()
        self._asked: dict[tuple[int, frozenset[str]], EventId | None] = {}
        self.refused: Counter[str] = Counter()

    # -- the store ------------------------------------------------------------------------------------------

    def begin(self, records: Iterable[bytes], now: float) -> None:
        """What an earlier leader kept, if it is about this domain as it is, and this plan."""
        for value in records:
            try:
                schema = _header.decode(value).schema
            except UNREADABLE:
                continue  # somebody else's
            why = self._take_up(value, schema, now)
            if why:
                self.refused[f"kept cases: {why}"] += 1
                self._log.note(CasesRefused(why=why), now)

    def _take_up(self, value: bytes, schema: int, now: float) -> str:
        if schema != SCHEMA:
            return f"they are of schema {schema}, this release has {SCHEMA}"
        try:
            found = _decoder.decode(value)
        except UNREADABLE as error:
            return f"they cannot be read ({error})"
        if found.topology != self._topology:
            return "they were made for other brokers, capacities, hosts or contracts"
        if found.plan != self._version:
            return f"they are of plan {found.plan}, and plan {self._version} is in force"
        for case in found.cases[-MAX_CASES:]:
            if not self._problem(case):
                self._kept[found.plan, frozenset(case.failed)] = (case, now)
        return ""

    def _write(self) -> list[Instruction]:
        if not self._version:
            return []  # what was measured for an hour is worth nothing to a successor
        cases = tuple(case for (plan, _), (case, _) in self._kept.items() if plan == self._version)
        record = msgspec.json.encode(
            StoredCases(schema=SCHEMA, topology=self._topology, plan=self._version, cases=cases)
        )
        if len(record) > MAX_STORED_BYTES:
            self.refused["kept cases that are too large to be stored"] += 1
            return []
        return [Store(self._number(), (StoreWrite(SESSIONS, CASES_KEY, record),))]

    # -- retrieval ------------------------------------------------------------------------------------------

    @property
    def _version(self) -> int:
        plan = self._plans().in_force
        return 0 if plan is None else plan.version

    def prepared(self) -> bool:
        """Whether the plan in force has a case for the state as it is."""
        return self._plans().case_for(self._site.down) is not None

    def kept(self, now: float) -> PlanCase | None:
        """The case that was computed for the state as it is."""
        key = (self._version, self._site.down)
        case, since = self._kept.get(key, (None, -math.inf))
        if case is None or (not key[0] and now - since > FRESH_S):
            return None
        self._kept.move_to_end(key)
        return case

    def place(self, topic: str, now: float) -> str:
        """Where a topic belongs by that case, or nothing."""
        case = self.kept(now)
        if case is None:
            return ""
        plan = self._plans().in_force
        items = (topic,) if plan is None else plan.items_of(topic)
        places = {case.placing[item].primary for item in items if item in case.placing}
        return places.pop() if len(places) == 1 else ""

    # -- computation ----------------------------------------------------------------------------------------

    def want(self, cause: EventId | None, now: float) -> list[Instruction]:
        """A state has begun: have its case computed, unless there is one or nothing to compute it from."""
        down = self._site.down
        key = (self._version, down)
        concerned = bool(down.intersection(self._site.edges)) and not down.issuperset(self._site.edges)
        if not concerned or key in self._asked or self.prepared() or self.kept(now) is not None:
            return []
        request = self._request(down, now)
        if request is None:
            return []
        self._asked[key] = cause
        return [ComputeCase(request)]

    def _request(self, down: frozenset[str], now: float) -> CaseRequest | None:
        site, plan = self._site, self._plans().in_force
        brokers = site.edges
        request = CaseRequest(
            plan=self._version,
            failed=tuple(broker for broker in brokers if broker in down),
            brokers=brokers,
            hosts=tuple(site.machine(broker) for broker in brokers),
        )
        if plan is not None:
            if plan.plan.figures is None:
                return None
            return msgspec.structs.replace(
                request,
                figures=plan.plan.figures,
                before=plan.plan.normal.placing,
                mirrored=tuple(sorted(plan.mirrored_items)),
            )
        capacities = tuple(site.capacities[broker].of(Metric.MATCHING) for broker in brokers)
        rates = {topic: rate for topic, rate in self._rates(now).items() if 0.0 < rate < math.inf}
        if not rates or len(rates) > MAX_ITEMS or not all(map(math.isfinite, capacities)):
            return None
        places = self._places()
        return msgspec.structs.replace(
            request,
            rates_msg_s=rates,
            capacities_msg_s=capacities,
            before={topic: places[topic] for topic in rates if topic in places},
        )

    def computed(self, answer: CaseComputed, now: float) -> list[Instruction]:
        """A case is there, or it is known why there is none."""
        request = answer.request
        failed = frozenset(request.failed)
        key = next((each for each in self._asked if each[0] == request.plan and failed <= each[1]), None)
        if key is None:
            return []  # of another term
        cause = self._asked.pop(key)
        problem = answer.problem if answer.case is None else self._problem(answer.case)
        if answer.case is None or problem or request.plan != self._version:
            self.refused[f"computed cases: {problem or 'another plan is in force by now'}"] += 1
            return []
        self._kept[key] = (answer.case, now)
        while len(self._kept) > MAX_CASES:
            self._kept.popitem(last=False)
        case = answer.case
        self._log.note(
            CaseKept(
                failed=case.failed, items=len(case.placing), joint_ok=case.joint_ok, feasible=case.feasible
            ),
            now,
            cause,
        )
        return self._write()

    def _problem(self, case: PlanCase) -> str:
        named = {each.primary for each in case.placing.values()}
        named |= {each.mirror for each in case.placing.values() if each.mirror}
        if not named <= set(self._site.brokers):
            return "a broker is named that is not of this domain"
        if named & set(case.failed):
            return "a broker is named that is down in this state"
        if any(each.primary == each.mirror for each in case.placing.values()):
            return "primary and mirror are one broker"
        return ""
