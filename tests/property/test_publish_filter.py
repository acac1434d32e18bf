"""Whatever limits, leaves and messages come: a subject has one way, and keeps to its limit and a burst."""

from __future__ import annotations

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mangrove.broker.client_connection import ConnectionCounts
from mangrove.broker.nats.client.outgoing import NatsOutlet, Outgoing
from mangrove.client.filtering.publish_filter import PublishFilter
from mangrove.client.publishing import Outcome
from mangrove.model.congestion.rate_limit import RateLimit
from mangrove.model.congestion.terms import TopicTerms
from mangrove.model.congestion.token_bucket import BURST_S

SUBJECTS = ("free.a", "free.b", "slow.a", "slow.b")
CONTRACT_MSG_S = 2_000.0
SIZE_BYTES = 10
subjects = st.sampled_from(SUBJECTS)
rates = st.sampled_from([None, 0.0, 1.0, 50.0, 4_000.0])


class Publishing(RuleBasedStateMachine):
    """One connection's filter in virtual time, as `PublishingConnection.publish` uses it."""

    @initialize()
    def begin(self) -> None:
        self.now = 100.0
        self.patch = pytest.MonkeyPatch()
        for module in ("gate", "publish_filter"):
            self.patch.setattr(f"mangrove.client.filtering.{module}.seconds", lambda: self.now)
        self.filter = PublishFilter([TopicTerms(match="slow.*", rate_msg_s=CONTRACT_MSG_S)])
        self.ordered: dict[str, float] = {}
        self.silent: dict[str, float] = {}
        self.owed: dict[str, float] = {}
        """What may still pass: earned, and the largest burst so far, less what has passed."""
        for subject in SUBJECTS:
            self.filter.add(subject, NatsOutlet(Outgoing(ConnectionCounts()), subject, b"%d%d"))
            self.changed(subject)

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    def rate(self, subject: str) -> float:
        contract = CONTRACT_MSG_S if subject.startswith("slow") else math.inf
        return min(contract, self.ordered.get(subject, math.inf))

    def changed(self, subject: str) -> None:
        rate = self.rate(subject)
        if rate == math.inf:
            self.owed[subject] = math.inf
        else:
            burst = max(1.5, rate * BURST_S)
            self.owed[subject] = max(min(self.owed.get(subject, burst), 1e6), burst)

    @rule(subject=subjects, rate=rates)
    def order(self, subject: str, rate: float | None) -> None:
        if rate is None:
            self.ordered.pop(subject, None)
        else:
            self.ordered[subject] = rate
        self.filter.order({each: RateLimit(msg_s=limit) for each, limit in self.ordered.items()})
        self.changed(subject)

    @rule(subject=subjects, for_s=st.sampled_from([-1.0, 0.5, 3.0]))
    def silence(self, subject: str, for_s: float) -> None:
        self.silent[subject] = self.now + for_s
        self.filter.silence(subject, self.now + for_s)

    @rule(subject=subjects)
    def speak(self, subject: str) -> None:
        self.silent.pop(subject, None)
        self.filter.speak(subject)

    @rule(seconds=st.sampled_from([0.0001, 0.01, 0.6, 5.0]))
    def run(self, seconds: float) -> None:
        self.now += seconds
        for subject in SUBJECTS:
            rate = self.rate(subject)
            if rate != math.inf:
                # What is saved up beyond a burst is lost, but for what was taken out beforehand.
                most = max(1.5, rate * BURST_S) * (1 + 1 / 16) + 1
                self.owed[subject] = min(self.owed[subject] + rate * seconds, max(self.owed[subject], most))

    @rule(subject=subjects, count=st.integers(1, 300), awaited=st.booleans())
    def publish(self, subject: str, count: int, awaited: bool) -> None:
        for _ in range(count):
            outlet = self.filter.outlets.get(subject)
            gate = self.filter.gates.get(subject)
            sure = gate is not None and gate.outlet.messages < gate.until and gate.most_bytes >= SIZE_BYTES
            outcome = Outcome.SENT
            if outlet is None and not sure:
                outcome = self.filter.judge(subject, SIZE_BYTES, awaited=awaited)
            silent = self.now < self.silent.get(subject, -math.inf)
            assert (outcome is Outcome.UNWANTED) == (silent and not awaited)
            if outcome:
                way = self.filter.outlet(subject)
                assert way is not None
                way.publish(bytes(SIZE_BYTES), 1, 1)
                self.owed[subject] -= 1
                assert self.owed[subject] >= -1e-6
            elif outcome is Outcome.LIMITED:
                assert self.rate(subject) < math.inf

    @invariant()
    def one_way_each(self) -> None:
        if not hasattr(self, "filter"):
            return
        for subject in SUBJECTS:
            assert (subject in self.filter.outlets) != (subject in self.filter.gates)
            limited = self.rate(subject) < math.inf
            assert (subject in self.filter.limits) == limited
            if limited:
                assert subject in self.filter.gates


Publishing.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestPublishing = Publishing.TestCase
