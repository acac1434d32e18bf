"""A policy is in force when all live agents hold it, and never otherwise; whoever leads."""

from __future__ import annotations

import msgspec
import pytest

from mangrove.control.instructions import Instruction, Store
from mangrove.control.policies.documents import CHUNK_BYTES, MAX_DOCUMENT_BYTES, chunk_key
from mangrove.control.policies.holdings import Holdings
from mangrove.control.policies.membership import IMPOSSIBLE, STALE, UNKNOWN, Membership
from mangrove.control.policies.phases import Phase
from mangrove.control.policies.replication import ACKNOWLEDGE_S, MAX_WAITING, Replication
from mangrove.control.policies.stored import POLICIES, FoundPolicies, found_policies
from mangrove.model.agents.members import LIVE_S, MemberBeat, PolicyRecord
from mangrove.model.events.event_log import EventLog

AGENTS = {"a": "h1", "b": "h2", "c": "h3"}


class Leader:
    """Replication of one leader over a store that is a dictionary; members are told by hand."""

    def __init__(
        self, values: dict[tuple[str, str], bytes], term: int = 1, holdings: Holdings | None = None
    ) -> None:
        self.values = values
        self.membership = Membership(AGENTS, "a", 1.0)
        self.holdings = holdings or Holdings()
        self.log = EventLog("a")
        self.away = False
        self._numbers = 0
        self._sequence = 0
        found = found_policies(value for (bucket, _), value in values.items() if bucket == "sessions")
        self.replication = Replication(
            self.membership, self.holdings, self.log, term=term, number=self._number, found=found
        )

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def beat(self, agent: str, now: float, held: PolicyRecord | None = None) -> None:
        self._sequence += 1
        beat = MemberBeat(agent=agent, life=1, sequence=self._sequence, score=1.0, held=held)
        assert self.membership.heard(beat, now)
        self.do(self.replication.look(now), now)

    def do(self, told: list[Instruction], now: float) -> None:
        for each in told:
            assert isinstance(each, Store)
            if self.away:
                self.do(self.replication.failed(each.write, "away", now), now)
                continue
            for write in each.writes:
                if write.value is None:
                    self.values.pop((write.bucket, write.key), None)
                else:
                    self.values[write.bucket, write.key] = write.value
            self.do(self.replication.stored(each.write, now), now)

    def propose(self, body: bytes, now: float) -> None:
        self.do(self.replication.propose(body, now), now)

    def found(self) -> FoundPolicies:
        return found_policies(value for (bucket, _), value in self.values.items() if bucket == "sessions")

    def kinds(self) -> list[str]:
        return [event.kind for event in self.log.take()]


def joined(leader: Leader, now: float = 0.0) -> None:
    leader.do(leader.replication.begin(now), now)
    for agent in ("b", "c"):
        leader.beat(agent, now)


def test_an_agent_alone_puts_a_policy_in_force_at_once() -> None:
    leader = Leader({})
    leader.do(leader.replication.begin(0.0), 0.0)
    body = b"p" * (2 * CHUNK_BYTES + 1)
    leader.propose(body, 0.0)
    assert (leader.holdings.version, leader.holdings.body) == (1, body)
    chunks = [leader.values[POLICIES, chunk_key(1, number)] for number in range(3)]
    assert b"".join(chunks) == body
    leader.propose(b"second", 1.0)
    assert leader.holdings.version == 2
    assert (POLICIES, chunk_key(1, 0)) not in leader.values, "what nobody needs any more is removed"


def test_it_is_in_force_only_when_all_members_hold_it() -> None:
    leader = Leader({})
    joined(leader)
    assert leader.replication.members == ("a", "b", "c")
    leader.propose(b"plan", 1.0)
    proposed = leader.replication.proposed
    assert proposed is not None
    leader.beat("b", 1.1, held=proposed)
    other = msgspec.structs.replace(proposed, digest="another")
    leader.beat("c", 1.2, held=other)
    assert leader.holdings.version == 0
    assert leader.found().committed is None
    leader.beat("c", 1.3, held=proposed)
    assert leader.holdings.version == 1
    assert leader.found().committed == proposed
    assert leader.kinds()[-2:] == ["PolicyProposed", "PolicyCommitted"]


def test_who_does_not_answer_is_no_member_before_it_is_in_force_and_may_come_back() -> None:
    leader = Leader({})
    joined(leader)
    leader.propose(b"plan", 1.0)
    proposed = leader.replication.proposed
    leader.beat("b", 1.1, held=proposed)
    leader.do(leader.replication.look(1.0 + ACKNOWLEDGE_S), 1.0 + ACKNOWLEDGE_S)
    assert leader.found().members == ("a", "b")
    assert leader.holdings.version == 1
    assert leader.kinds()[-2:] == ["MembersChanged", "PolicyCommitted"]
    leader.beat("c", 9.0)
    assert leader.found().members == ("a", "b", "c")


@pytest.mark.parametrize("complete", [True, False])
def test_a_new_leader_completes_what_all_live_members_hold_and_discards_the_rest(complete: bool) -> None:
    old = Leader({})
    joined(old)
    old.propose(b"plan", 1.0)
    proposed = old.replication.proposed
    assert proposed is not None
    new = Leader(old.values, term=2)
    new.holdings.hold(proposed, b"plan")
    new.do(new.replication.begin(5.0), 5.0)
    assert new.replication.phase is Phase.RECOVERING
    new.beat("c", 5.1, held=proposed if complete else None)
    new.propose(b"later", 5.2)
    new.do(new.replication.look(5.0 + ACKNOWLEDGE_S), 5.0 + ACKNOWLEDGE_S)
    if complete:
        assert new.found().committed == proposed
        assert set(new.found().members) == {"a", "c"}, "who says nothing does not hold others up"
    else:
        assert new.found().committed is None
        assert (POLICIES, chunk_key(1, 0)) not in new.values
        assert "PolicyDiscarded" in new.kinds()
    later = new.replication.proposed
    assert later is not None
    assert later.version == 2, "no version is given out twice"


def test_what_cannot_be_stored_is_refused_and_leaves_nothing_behind() -> None:
    leader = Leader({})
    joined(leader)
    leader.away = True
    leader.propose(b"plan", 1.0)
    assert [refused.body for refused in leader.replication.take_refused()] == [b"plan"]
    leader.propose(b"another", 1.5)
    assert [refused.body for refused in leader.replication.take_refused()] == [b"another"]
    leader.away = False
    leader.do(leader.replication.look(2.5), 2.5)
    assert leader.found().proposed is None
    leader.propose(b"next", 3.0)
    assert leader.replication.proposed is not None
    assert leader.replication.proposed.version == 2


def test_a_commit_that_failed_is_made_again_and_nobody_is_told_before() -> None:
    leader = Leader({})
    joined(leader)
    leader.propose(b"plan", 1.0)
    proposed = leader.replication.proposed
    leader.away = True
    leader.beat("b", 1.1, held=proposed)
    leader.beat("c", 1.2, held=proposed)
    assert leader.holdings.version == 0
    leader.away = False
    leader.do(leader.replication.look(leader.replication.timer()), 3.0)
    assert leader.holdings.version == 1
    assert leader.replication.take_refused() == []


def test_a_store_that_lost_the_policy_in_force_is_given_it_again() -> None:
    before = Leader({})
    before.do(before.replication.begin(0.0), 0.0)
    before.propose(b"plan", 0.0)
    after = Leader({}, term=9, holdings=before.holdings)
    after.do(after.replication.begin(0.0), 0.0)
    assert after.found().committed == before.holdings.committed
    assert after.values[POLICIES, chunk_key(1, 0)] == b"plan"


def test_what_is_too_large_or_too_much_is_refused() -> None:
    leader = Leader({})
    joined(leader)
    leader.propose(bytes(MAX_DOCUMENT_BYTES + 1), 1.0)
    for number in range(MAX_WAITING + 2):
        leader.propose(b"%d" % number, 1.0)
    reasons = [refused.reason for refused in leader.replication.take_refused()]
    assert len(reasons) == 2
    assert "larger" in reasons[0]
    assert "wait" in reasons[1]


def test_members_are_known_by_name_and_by_what_they_said_last() -> None:
    members = Membership(AGENTS, "a", 5.0)
    beat = MemberBeat(agent="b", life=1, sequence=2, score=9.0)
    assert members.heard(beat, 1.0)
    assert not members.heard(beat, 1.1)
    assert not members.heard(msgspec.structs.replace(beat, agent="stranger"), 1.1)
    assert not members.heard(msgspec.structs.replace(beat, sequence=3, score=float("nan")), 1.1)
    assert not members.heard(msgspec.structs.replace(beat, agent="a"), 1.1), "its own voice"
    assert members.refused == {STALE: 1, UNKNOWN: 1, IMPOSSIBLE: 1}
    assert not members.heard(msgspec.structs.replace(beat, life=0, sequence=9), 1.2)
    assert members.live(1.0 + LIVE_S) == ["a", "b"]
    assert members.rank("", 1.1) == 1
    assert members.rank("b", 1.1) == 0, "who led last does not count"
    assert members.live(1.1 + LIVE_S) == ["a"]
    assert members.heard(msgspec.structs.replace(beat, life=0, sequence=1), 9.0), "a clock was set back"
    assert members.heard(MemberBeat(agent="c", life=1, sequence=1, score=5.0), 9.0)
    assert members.rank("", 9.0) == 1, "of equals the smaller name comes first"
    assert (members.named("h2"), members.named("c"), members.named("h9")) == ("b", "c", "")
    assert members.successor(9.0) == "b"
