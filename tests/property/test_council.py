"""The council of domains under everything that may happen: never two documents for one version."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.kit.assembly import NAMES, Assembly

from mangrove.errors import InputError
from mangrove.model.versions.changes import ChangeState
from mangrove.overlay.versions.council import RESCUE_S

MEMBERS = NAMES[:4]
DOMAINS = st.sampled_from(MEMBERS)


class CouncilMachine(RuleBasedStateMachine):
    """Messages come or get lost, time passes, domains are cut off, die and begin again from their disks."""

    def __init__(self) -> None:
        super().__init__()
        self.group = Assembly(MEMBERS)
        self.asked = 0
        self.outcomes: dict[str, ChangeState] = {}

    @rule(name=DOMAINS)
    def propose(self, name: str) -> None:
        self.asked += 1
        council = self.group.councils.get(name)
        if council is None:
            return
        try:
            council.propose(self.group.change(name, f"t{self.asked}"), "", self.group.now)
        except InputError:
            return
        self.group.advance(name)

    @rule(source=DOMAINS, hearer=DOMAINS)
    def tell(self, source: str, hearer: str) -> None:
        if source in self.group.councils and hearer in self.group.reach(source):
            self.group.tell(source, hearer)

    @rule(seconds=st.sampled_from([0.5, 3.5, 6.0]))
    def wait(self, seconds: float) -> None:
        self.group.now += seconds
        for name in self.group.councils:
            self.group.advance(name)

    @rule(side=st.sets(DOMAINS))
    def cut(self, side: set[str]) -> None:
        self.group.apart = [side]

    @rule(name=DOMAINS)
    def die(self, name: str) -> None:
        self.group.councils.pop(name, None)

    @precondition(lambda self: len(self.group.councils) < len(MEMBERS))
    @rule(name=DOMAINS)
    def begin(self, name: str) -> None:
        if name not in self.group.councils:
            self.group.start(name)

    @invariant()
    def one_document_for_each_version(self) -> None:
        for version, digests in self.group.ever.items():
            assert len(digests) == 1, f"version {version} is in force in two texts"
        for council in self.group.councils.values():
            for digest, change in council.changes.items():
                if change.state in (ChangeState.IN_FORCE, ChangeState.REFUSED):
                    self.outcomes[digest] = change.state

    def teardown(self) -> None:
        self.group.apart = []
        for name in MEMBERS:
            if name not in self.group.councils:
                self.group.start(name)
        self.group.settle(12 * RESCUE_S)
        assert len(self.group.versions()) == 1, "all end with the same version"
        assert all(council.notice().accepted.round == 0 for council in self.group.councils.values())
        self.one_document_for_each_version()
        in_force = {digest for digests in self.group.ever.values() for digest in digests}
        for digest, state in self.outcomes.items():
            assert (digest in in_force) == (state is ChangeState.IN_FORCE)


TestCouncil = CouncilMachine.TestCase
TestCouncil.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
