"""The council of domains, without a network: what is in force, and what becomes of interrupted changes."""

from __future__ import annotations

import msgspec
import pytest
from tests.kit.assembly import NAMES, Assembly

from mangrove.errors import InputError
from mangrove.model.versions import checking
from mangrove.model.versions.changes import ChangeState
from mangrove.model.versions.document import FederationDocument, WrittenDocument
from mangrove.model.versions.kept import NO_BALLOT, Ballot
from mangrove.model.versions.membership import is_quorum
from mangrove.overlay.versions import council as council_module
from mangrove.overlay.versions.council import PREPARE_S, RESCUE_S
from mangrove.overlay.versions.messages import Step, VersionNotice


def test_two_sets_that_may_decide_always_share_a_domain() -> None:
    for count in range(1, 6):
        members = NAMES[:count]
        sets = [{members[place] for place in range(count) if bits >> place & 1} for bits in range(1 << count)]
        quorums = [each for each in sets if is_quorum(each, members)]
        assert quorums
        assert all(one & other for one in quorums for other in quorums)
    assert is_quorum({"a"}, ("a", "b"))
    assert not is_quorum({"b"}, ("a", "b"))


def test_a_change_is_in_force_everywhere_and_nobody_says_anything_before() -> None:
    group = Assembly()
    group.settle()
    assert all(council.silent for council in group.councils.values())
    written = group.change("b", "x")
    digest = group.councils["b"].propose(written, "", group.now)
    group.settle()
    assert group.versions() == {2}
    assert group.councils["b"].changes[digest].state is ChangeState.IN_FORCE
    assert group.councils["c"].versions() == {"a": 2, "b": 2, "c": 2}
    assert group.councils["b"].propose(written, "", group.now) == digest, "once is enough"


def test_one_that_was_away_follows_when_it_returns_over_several_versions() -> None:
    group = Assembly()
    group.apart = [{"c"}]
    for topic in ("x", "y"):
        group.councils["a"].propose(group.change("a", topic), "", group.now)
        group.settle(2 * PREPARE_S)
    assert group.councils["c"].document.version == 1
    group.apart = []
    group.settle()
    assert group.versions() == {3}


def test_a_minority_changes_nothing_and_says_so() -> None:
    group = Assembly()
    group.apart = [{"c"}]
    digest = group.councils["c"].propose(group.change("c", "x"), "", group.now)
    group.settle(2 * PREPARE_S)
    told = group.councils["c"].changes[digest]
    assert told.state is ChangeState.REFUSED
    assert "only 1 of 3 domains answered" in told.detail
    group.apart = []
    group.settle(2 * RESCUE_S)
    assert group.versions() == {1}


def test_of_two_changes_at_once_one_is_in_force_and_the_other_is_told() -> None:
    group = Assembly(NAMES[:4])
    digests = {
        name: group.councils[name].propose(group.change(name, name), "", group.now) for name in ("a", "d")
    }
    group.settle(3 * RESCUE_S)
    assert group.versions() == {2}
    states = {name: group.councils[name].changes[digest] for name, digest in digests.items()}
    assert sorted(each.state.value for each in states.values()) == ["in force", "refused"]
    lost = next(each for each in states.values() if each.state is ChangeState.REFUSED)
    assert "another change was in force first" in lost.detail


def test_a_domain_that_cannot_have_it_stops_it() -> None:
    group = Assembly()
    written = group.change("a", "x")
    group.councils["b"].take(written, "no authority of this federation has signed it")
    digest = group.councils["a"].propose(written, "", group.now)
    group.settle()
    told = group.councils["a"].changes[digest]
    assert told.state is ChangeState.REFUSED
    assert told.detail == "b objects: no authority of this federation has signed it"
    assert group.versions() == {1}


def test_what_was_accepted_is_completed_though_its_proposer_died() -> None:
    group = Assembly()
    group.councils["a"].propose(group.change("a", "x"), "", group.now)
    group.advance("a")
    group.tell("a", "b")
    group.tell("a", "c")
    group.tell("b", "a")
    group.tell("c", "a")
    assert group.councils["a"].notice().step is Step.DECIDE
    group.tell("a", "b")  # one has accepted it, and its proposer is gone
    del group.councils["a"]
    assert group.versions() == {1, 2} or group.versions() == {1}
    group.settle(4 * RESCUE_S)
    assert group.versions() == {2}
    group.start("a")
    group.settle()
    assert group.versions() == {2}


def test_what_was_only_prepared_is_undone_when_its_proposer_dies() -> None:
    group = Assembly()
    group.councils["a"].propose(group.change("a", "x"), "", group.now)
    group.advance("a")
    group.tell("a", "b")
    del group.councils["a"]
    group.settle(4 * RESCUE_S)
    assert group.versions() == {1}
    group.start("a")
    group.settle(4 * RESCUE_S)
    assert group.versions() == {1}
    group.councils["c"].propose(group.change("c", "y"), "", group.now)
    group.settle()
    assert group.versions() == {2}
    assert [each.match for each in group.councils["a"].document.topics.contracts] == ["y"]


def test_what_makes_no_sense_is_refused() -> None:
    group = Assembly()
    council = group.councils["a"]
    group.advance("a")
    with pytest.raises(InputError, match="no federation document"):
        council.propose(WrittenDocument(text=b"{"), "", 0.0)
    written = group.change("a", "x")
    with pytest.raises(InputError, match="it is not signed"):
        council.propose(written, "it is not signed", 0.0)
    council.propose(written, "", 0.0)
    with pytest.raises(InputError, match="agreed on already"):
        council.propose(group.change("a", "y"), "", 0.0)
    group.settle()
    with pytest.raises(InputError, match="does not follow"):
        council.propose(WrittenDocument(text=group.first.text()), "", 0.0)
    good = VersionNotice(origin="b", epoch=9, sequence=1, version=1, digest="")
    for wrong in (
        {"origin": "z"},
        {"origin": "a"},
        {"version": 0},
        {"promised": Ballot(1 << 50, "b")},
        {"accepted": Ballot(1, "b")},
        {"step": Step.PREPARE, "ballot": Ballot(1, "c")},
    ):
        assert not council.hear(msgspec.structs.replace(good, **wrong))
    assert council.ignored == 5
    assert council.hear(good)


def test_documents_that_nobody_speaks_of_are_forgotten() -> None:
    group = Assembly()
    for number in range(50):
        group.councils["a"].take(group.change("b", f"x{number}"))
        group.councils["a"].take(WrittenDocument(text=b"%d" % number))
    assert group.councils["a"].problems() == []


def test_a_document_that_comes_again_is_kept_for_what_follows_it() -> None:
    group = Assembly()
    written, other, council = group.change("a", "x"), group.change("a", "y"), group.councils["b"]
    council.take(written)
    asks = VersionNotice(
        origin="a",
        epoch=1,
        sequence=1,
        version=1,
        digest=council.document.digest,
        step=Step.PREPARE,
        ballot=Ballot(1, "a"),
        proposed=written.digest,
    )
    gives_up = msgspec.structs.replace(asks, sequence=2, step=Step.NONE, ballot=NO_BALLOT, proposed="")
    assert council.hear(asks)
    assert council.hear(gives_up)
    council.expect(written.digest)
    council.take(other)  # looks who is spoken of
    assert council.held(written.digest) == written


def test_what_was_refused_is_judged_anew_under_other_keys() -> None:
    group = Assembly()
    written = group.change("a", "x")
    council = group.councils["b"]
    assert council.take(written, "no authority of this federation has signed it")
    assert not council.take(written), "it is known to be refused"
    assert council.take_refused() == [written]
    assert council.take(written)
    assert council.held(written.digest) == written


UNSIGNED = "no authority of this federation has signed it"


def objected(group: Assembly) -> tuple[WrittenDocument, str]:
    """b objects to what a proposes; the document, and its digest."""
    written = group.change("a", "x")
    group.councils["b"].take(written, UNSIGNED)
    digest = group.councils["a"].propose(written, "", group.now)
    group.settle()
    assert group.councils["a"].changes[digest].state is ChangeState.REFUSED
    return written, digest


def objecting(group: Assembly) -> set[tuple[str, str]]:
    """Who is known, to whom, to object."""
    return {
        (name, notice.origin)
        for name, council in group.councils.items()
        for notice in council.notices()
        if notice.objected or notice.objection
    }


def test_an_objection_is_withdrawn_everywhere_when_the_document_is_believed() -> None:
    group = Assembly()
    written, digest = objected(group)
    assert objecting(group) == {("a", "b"), ("b", "b"), ("c", "b")}
    assert group.councils["b"].take_refused() == [written]
    assert group.councils["b"].take(written)
    group.settle()
    assert objecting(group) == set()
    group.councils["c"].propose(written, "", group.now)
    group.settle()
    assert group.versions() == {2}
    assert group.councils["c"].changes[digest].state is ChangeState.IN_FORCE


def test_who_objected_to_an_earlier_attempt_is_asked_again() -> None:
    group = Assembly()
    written, digest = objected(group)
    group.councils["a"].propose(written, "", group.now)
    group.settle()
    assert group.councils["a"].changes[digest].detail == f"b objects: {UNSIGNED}"
    assert group.councils["b"].take_refused() == [written]
    group.councils["a"].propose(written, "", group.now)
    group.settle()
    assert group.councils["a"].changes[digest].state is ChangeState.IN_FORCE
    assert group.versions() == {2}


def test_what_a_domain_objected_to_it_may_propose_itself() -> None:
    group = Assembly()
    written, digest = objected(group)
    group.councils["b"].propose(written, "", group.now)
    group.settle()
    assert group.councils["b"].changes[digest].state is ChangeState.IN_FORCE
    assert group.versions() == {2}


def test_a_document_is_looked_at_once_however_many_notices_speak_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With thousands of contracts it takes as long as a link may be silent."""
    looked = 0
    look = checking.document_problem

    def counted(document: FederationDocument, before: FederationDocument) -> str:
        nonlocal looked
        looked += 1
        return look(document, before)

    monkeypatch.setattr(council_module, "document_problem", counted)
    group = Assembly(tuple(f"d{number}" for number in range(12)))
    group.councils["d3"].propose(group.change("d3", "x"), "", group.now)
    group.settle()
    assert group.versions() == {2}
    assert looked == len(group.members)
