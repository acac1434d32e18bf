"""One schedule of several agents, played on the production brain and election; promises are checked.

All along: never do two agents lead or act, nobody acts in a term after somebody did in a later one, no late
write of a deposed leader comes about, a policy that was in force anywhere is in the store and is the same for
all, and the directory of a leader names no broker that has been dead for longer than `BOUND_S`. When all has
healed: one leads, every live agent holds the same policy, and clients obeyed terms in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import msgspec

from mangrove.control.stimuli import OperatorAsked
from mangrove.model.agents.operations import HandOverAsked, PlanApplied
from mangrove.model.plans.plan import Placing, Plan, PlanCase, PlannedItem
from mangrove.simulation.agents.several.agent import CLOCK_SHIFT_S, VirtualAgent
from mangrove.simulation.agents.several.domain import SeveralAgents
from mangrove.simulation.agents.several.schedule import (
    DOMAIN,
    END_S,
    HEALED_S,
    SAMPLE_S,
    START_S,
    Fault,
    Schedule,
    SeveralFault,
    make_schedule,
)

LOOK_S = 0.25
INSIDE_S = 2.0
PROBES_BEFORE_S = SAMPLE_S + 0.5
"""By then all agents look closely."""


@dataclass(frozen=True, slots=True)
class SeveralResult:
    """What came of a schedule; `problems` is empty when all promises were kept."""

    seed: int
    agents: int
    faults: tuple[Fault, ...]
    terms: int
    """How often the lead was taken."""
    handed_over: int
    policies: int
    """Versions that were in force."""
    completed: int
    """Of them, those that a successor completed."""
    discarded: int
    refused_writes: int
    """Late writes of deposed leaders that the fence kept out."""
    actions: int
    brokers_failed: int
    problems: tuple[str, ...]

    @property
    def command(self) -> str:
        """Repeats this schedule."""
        return f"mangrove evaluate leaders --seeds 1 --seed {self.seed}"

    def __str__(self) -> str:
        what = [f"seed {self.seed}: {self.agents} agents"]
        what += [f"  {fault}" for fault in self.faults]
        what += [f"  PROBLEM: {problem}" for problem in self.problems]
        return "\n".join([*what, f"  repeat with: {self.command}"])


def run_schedule(seed: int) -> SeveralResult:
    """Make the schedule of a seed, play it, and check the promises."""
    return SeveralRun(make_schedule(seed)).play()


class SeveralRun:
    """One schedule at play."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.domain = SeveralAgents(schedule)
        self.world = self.domain.world
        self._tokens = 0
        self._hit: dict[Fault, VirtualAgent] = {}

    def play(self) -> SeveralResult:
        """To the end."""
        world, domain = self.world, self.domain
        for agent in domain.agents:
            world.at(world.random.uniform(0.0, 0.5), agent.start)
        for client in domain.clients.values():
            world.at(world.random.uniform(0.5, START_S), client.start)
        for fault in self.schedule.faults:
            if fault.kind is SeveralFault.BROKER_DIES:
                world.at(fault.start_s - PROBES_BEFORE_S, self._probe)
            world.at(fault.start_s, partial(self._begin, fault))
            world.at(fault.end_s, partial(self._finish, fault))
        world.at(HEALED_S, self._heal)
        for at_s in self.schedule.plans_at_s:
            world.at(at_s, self._apply_a_plan)
        while world.now < END_S:
            world.run(world.now + LOOK_S)
            domain.look()
            if world.now % INSIDE_S < LOOK_S:
                domain.look_inside()
        self._look_at_the_end()
        return self._result()

    # -- what operators do ----------------------------------------------------------------------------------

    def _apply_a_plan(self) -> None:
        """Somewhere else for each topic; whoever leads hears of it, as on a subject of the broker."""
        edges = self.domain.traffic.edges_of[DOMAIN]
        wall = self.world.now + CLOCK_SHIFT_S
        topics = self.schedule.topics
        placing = {topic: Placing(primary=self.world.random.choice(edges)) for topic in topics}
        plan = Plan(
            federation="virtual",
            domain=DOMAIN,
            topology="",
            made_at=wall,
            data_until=wall,
            items=tuple(PlannedItem(item=topic, topics=(topic,)) for topic in topics),
            cases=(PlanCase(placing=placing),),
            source=f"at {self.world.now:.3f}",
        )
        self._ask(PlanApplied(plan=msgspec.json.encode(plan), anyway=True, by="the schedule"))

    def _ask(self, operation: PlanApplied | HandOverAsked) -> None:
        self._tokens += 1
        for agent in self.domain.agents:
            agent.hear(OperatorAsked(operation, self._tokens), as_leader=True)

    # -- faults ---------------------------------------------------------------------------------------------

    def _victim(self, fault: Fault) -> VirtualAgent:
        leaders = [agent for agent in self.domain.agents if agent.well and agent.leads_in]
        of_leader = (SeveralFault.LEADER_DIES, SeveralFault.LEADER_STALLS, SeveralFault.LEADER_CUT_OFF)
        if fault.kind in of_leader and leaders:
            return leaders[0]
        return self.domain.agents[fault.number % len(self.domain.agents)]

    def _begin(self, fault: Fault) -> None:
        victim = self._hit[fault] = self._victim(fault)
        match fault.kind:
            case SeveralFault.DIES | SeveralFault.LEADER_DIES:
                victim.die()
            case SeveralFault.STALLS | SeveralFault.LEADER_STALLS:
                victim.stall()
            case SeveralFault.CUT_OFF | SeveralFault.LEADER_CUT_OFF:
                victim.cut = True
            case SeveralFault.DEAF:
                victim.deaf = True
            case SeveralFault.STORE_AWAY:
                self.domain.store.away = True
            case SeveralFault.HAND_OVER:
                self._ask(HandOverAsked(to=victim.host))
            case SeveralFault.BROKER_DIES:
                edges = self.domain.traffic.edges_of[DOMAIN]
                self.domain.dead[edges[fault.number % len(edges)]] = self.world.now

    def _finish(self, fault: Fault) -> None:
        victim = self._hit[fault]
        match fault.kind:
            case SeveralFault.DIES | SeveralFault.LEADER_DIES:
                victim.start()
            case SeveralFault.STALLS | SeveralFault.LEADER_STALLS:
                victim.go_on()
            case SeveralFault.CUT_OFF | SeveralFault.LEADER_CUT_OFF | SeveralFault.DEAF:
                victim.mend()
            case SeveralFault.STORE_AWAY:
                self.domain.store.away = False
            case _:
                pass

    def _heal(self) -> None:
        self.world.loss_ratio = self.world.late_ratio = 0.0

    def _probe(self) -> None:
        self.domain.probing = True

    # -- at the end -----------------------------------------------------------------------------------------

    def _look_at_the_end(self) -> None:
        domain = self.domain
        leading = [agent for agent in domain.agents if agent.leads_in]
        if len(leading) != 1:
            domain.problem(f"{[agent.name for agent in leading]} lead at the end")
        committed = domain.store.committed()
        for agent in domain.agents:
            held = None if agent.brain is None else agent.brain.policy
            if held != committed:
                domain.problem(f"{agent.name} ends with {held}, the store with {committed}")
        for client in domain.clients.values():
            terms = [term for _, term in client.obeyed]
            if terms != sorted(terms):
                domain.problem(f"{client.name} obeyed an earlier term after a later one")
        named = {broker for record in domain.store.directory() for broker in record.edges}
        if still := named & domain.dead.keys():
            domain.problem(f"the store still has topics at {sorted(still)}")

    def _result(self) -> SeveralResult:
        kinds = self.domain.kinds
        return SeveralResult(
            seed=self.schedule.seed,
            agents=len(self.domain.agents),
            faults=self.schedule.faults,
            terms=kinds.get("AgentLeads", 0),
            handed_over=kinds.get("LeadershipHandedOver", 0),
            policies=len(self.domain.policies),
            completed=self.domain.completed,
            discarded=kinds.get("PolicyDiscarded", 0),
            refused_writes=self.domain.store.refused,
            actions=self.domain.actions,
            brokers_failed=kinds.get("BrokerFailed", 0),
            problems=tuple(self.domain.problems),
        )
