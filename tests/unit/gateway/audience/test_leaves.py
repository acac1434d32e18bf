"""Who gets leave to be silent, how it is taken back, and who waits for that."""

from __future__ import annotations

import pytest

from mangrove.gateway.audience.leaves import (
    BAD_REQUEST,
    MAX_LOOKED_AT,
    MAX_NUMBER,
    MAX_UNANSWERED,
    NOT_ANSWERED,
    PAUSE_S,
    TOO_MANY_CLIENTS,
    TOO_MUCH_INTEREST,
    UNANSWERED_S,
    WATCHED_S,
    Leaves,
)
from mangrove.gateway.audience.subject_tree import SubjectTree
from mangrove.model.questions.audience import (
    LEAVE_S,
    MAX_LEAVES,
    MAX_SILENT_CLIENTS,
    MAX_SUBJECTS_A_QUESTION,
    UNHEARD_S,
    AudienceAnswer,
    AudienceRequest,
)
from mangrove.model.topics import Contract, Mirror, Scope, TopicRules

ALICE, BOB = "alice-0001", "bob-000001"
RULES = TopicRules(
    (
        Contract(match="always.>", always_send=True),
        Contract(match="kept.>", durable=True),
        Contract(match="twice.>", mirror=Mirror.BOTH),
        Contract(match="home.>", scope=Scope.DOMAIN),
    )
)


class Desk:
    """Leaves, and what somebody wants."""

    def __init__(self) -> None:
        self.interest: set[str] = set()
        self.leaves = Leaves(RULES, lambda subject: subject not in self.interest)
        self.confirmed: list[str] = []

    def ask(
        self, client: str, *subjects: str, now: float, knows: int = 0, problem: str = ""
    ) -> AudienceAnswer:
        request = AudienceRequest(client=client, subjects=subjects, knows=knows)
        answer = self.leaves.ask(request, now, now, problem)
        assert self.leaves.problems() == []
        return answer

    def want(self, *subjects: str, now: float, name: str = "") -> dict[str, tuple[int, tuple[str, ...]]]:
        """Somebody subscribes, and waits to be ready; who is told what."""
        self.interest.update(subjects)
        for subject in subjects:
            self.leaves.wanted(subject)
        told = {client: (wanted.number, wanted.subjects) for client, wanted in self.leaves.notices(now)}
        self.leaves.when_known(lambda: self.confirmed.append(name or subjects[0]))
        assert self.leaves.problems() == []
        return told


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_leave_is_given_for_what_nobody_wants(desk: Desk) -> None:
    desk.interest.add("heard")
    answer = desk.ask(ALICE, "heard", "unheard", "home.x", now=0.0)
    assert (answer.unwanted, answer.lease_s, answer.number) == (("unheard", "home.x"), LEAVE_S, 0)
    assert (desk.leaves.clients, desk.leaves.given) == (1, 2)


@pytest.mark.parametrize(
    "subject", ["always.x", "kept.x", "twice.x", "_INBOX.x", "$SYS.x", "a.*", ">", "", "a b", "x" * 2000]
)
def test_what_must_be_sent_or_is_no_topic_gets_no_leave(desk: Desk, subject: str) -> None:
    assert desk.ask(ALICE, subject, now=0.0).unwanted == ()


def test_who_subscribes_is_confirmed_only_when_the_publisher_knows(desk: Desk) -> None:
    desk.ask(ALICE, "x", "y", now=0.0)
    assert desk.want("x", now=1.0) == {ALICE: (1, ("x",))}
    desk.ask(ALICE, "x", "y", now=1.1)
    assert desk.confirmed == [], "a question that crossed it on its way is no answer"
    assert desk.ask(ALICE, "y", now=1.2, knows=1).unwanted == ("y",)
    assert desk.confirmed == ["x"]
    assert desk.leaves.given == 1


def test_who_subscribes_waits_at_most_until_the_leave_has_run_out(desk: Desk) -> None:
    desk.ask(ALICE, "x", now=0.0)
    desk.want("x", now=1.0)
    desk.leaves.expire(LEAVE_S - 0.01)
    assert desk.confirmed == []
    desk.leaves.expire(LEAVE_S)
    assert desk.confirmed == ["x"]
    assert desk.leaves.counts == {NOT_ANSWERED: 1}


def test_nobody_waits_for_a_publisher_that_has_gone(desk: Desk) -> None:
    desk.ask(ALICE, "x", now=0.0)
    desk.want("x", now=1.0)
    desk.leaves.unheard(ALICE, 1.0)
    desk.leaves.expire(1.0 + UNHEARD_S)
    assert desk.confirmed == ["x"]
    assert desk.leaves.counts == {}, "it did nothing wrong"


def test_who_wants_something_else_does_not_wait(desk: Desk) -> None:
    desk.ask(ALICE, "x", now=0.0)
    assert desk.want("z", now=0.5) == {}
    assert desk.confirmed == ["z"]
    desk.want("x", now=1.0)
    desk.want("other", now=1.0)
    assert desk.confirmed == ["z"], "a little more than needed: confirmations are in order"


@pytest.mark.parametrize(
    ("pattern", "covered"),
    [
        ("a.*", {"a.b", "a.c"}),
        ("a.>", {"a.b", "a.c", "a.b.c"}),
        ("*.b.c", {"a.b.c"}),
        (">", {"a.b", "a.c", "a.b.c"}),
    ],
)
def test_a_pattern_takes_back_all_that_it_covers(desk: Desk, pattern: str, covered: set[str]) -> None:
    desk.ask(ALICE, "a.b", "a.c", "a.b.c", now=0.0)
    ((_, subjects),) = desk.want(pattern, now=1.0).values()
    assert set(subjects) == covered


def test_every_publisher_with_leave_is_told_and_awaited(desk: Desk) -> None:
    desk.ask(ALICE, "x", now=0.0)
    desk.ask(BOB, "x", "y", now=0.0)
    assert desk.want("x", now=1.0) == {ALICE: (1, ("x",)), BOB: (1, ("x",))}
    desk.ask(ALICE, now=1.1, knows=1)
    assert desk.confirmed == []
    desk.ask(BOB, "y", now=1.2, knows=1)
    assert desk.confirmed == ["x"]


def test_what_was_not_answered_is_said_again_with_the_next(desk: Desk) -> None:
    desk.ask(ALICE, "x", "y", now=0.0)
    desk.want("x", now=0.1)
    assert desk.want("y", now=0.2) == {ALICE: (2, ("x", "y"))}
    desk.ask(ALICE, now=0.3, knows=2)
    assert desk.confirmed == ["x", "y"]


def test_numbers_go_on_from_what_a_client_knows(desk: Desk) -> None:
    """A gateway that has started anew must not take an old `knows` for an answer to what it says now."""
    desk.ask(ALICE, "x", now=0.0, knows=7)
    assert desk.want("x", now=0.1) == {ALICE: (8, ("x",))}
    desk.ask(ALICE, "x", now=0.2, knows=7)
    assert desk.confirmed == []


def test_subjects_that_are_not_named_are_given_up(desk: Desk) -> None:
    desk.ask(ALICE, "x", "y", now=0.0)
    desk.ask(ALICE, "y", now=1.0)
    assert desk.want("x", now=1.1) == {}
    assert desk.confirmed == ["x"]
    desk.ask(ALICE, now=1.2)
    assert (desk.leaves.clients, desk.leaves.given) == (0, 0)


def test_an_answer_without_leave_may_get_lost_so_leave_from_before_counts_on(desk: Desk) -> None:
    desk.ask(ALICE, "x", now=0.0)
    assert (
        desk.ask(ALICE, "x", now=1.0, problem="the head broker is away").problem == "the head broker is away"
    )
    assert desk.want("x", now=2.0) == {ALICE: (1, ("x",))}


def test_a_leave_that_has_run_out_holds_nobody_up(desk: Desk) -> None:
    desk.ask(ALICE, "x", now=0.0)
    assert desk.want("x", now=LEAVE_S + 0.1) == {}
    assert desk.confirmed == ["x"]


def test_brokers_must_have_been_seen_together_after_the_subject_was_first_asked_about(desk: Desk) -> None:
    """An edge that is cut off has taken its subscribers with it: a proof from before that is none."""
    request = AudienceRequest(client=ALICE, subjects=("x",))
    assert desk.leaves.ask(request, 10.0, 9.9, "").unwanted == ()
    assert desk.leaves.ask(request, 11.0, 9.9, "").unwanted == ()
    other = AudienceRequest(client=ALICE, subjects=("y",))
    assert desk.leaves.ask(other, 11.5, 11.4, "").unwanted == ()
    assert desk.leaves.ask(request, 12.0, 11.4, "").unwanted == ("x",)
    desk.want("x", now=12.1)
    desk.interest.clear()
    assert desk.leaves.ask(request, 12.2, 12.0, "").unwanted == (), "it was wanted meanwhile"


def test_a_subject_nobody_asks_about_is_watched_no_more(desk: Desk) -> None:
    desk.ask(ALICE, "x", now=0.0)
    desk.leaves.expire(WATCHED_S - 1)
    assert desk.leaves
    desk.leaves.expire(WATCHED_S + 1)
    assert not desk.leaves
    assert (desk.leaves.clients, desk.leaves.given) == (0, 0)


def test_leaves_of_an_earlier_life_are_waited_for(desk: Desk) -> None:
    desk.leaves.hold(2.0)
    desk.want("x", now=0.0)
    assert desk.confirmed == []
    desk.leaves.expire(2.0)
    assert desk.confirmed == ["x"]
    assert desk.leaves.counts == {}


def test_leaves_of_several_earlier_lives_are_waited_for(desk: Desk) -> None:
    """Its own, when it began to stand by, and those of the gateway from which it takes over."""
    desk.leaves.hold(2.0)
    desk.leaves.hold(5.0)
    desk.want("x", now=0.0)
    desk.leaves.expire(2.0)
    assert (desk.leaves.awaited, desk.confirmed) == (1, [])
    desk.leaves.expire(5.0)
    assert (desk.leaves.awaited, desk.confirmed) == (0, ["x"])
    desk.leaves.hold(9.0)
    desk.leaves.hold(7.0)
    desk.want("y", now=6.0)
    desk.leaves.expire(8.0)
    assert desk.confirmed == ["x"]
    desk.leaves.expire(9.0)
    assert desk.confirmed == ["x", "y"]


# -- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_",
    [
        AudienceRequest(client="short"),
        AudienceRequest(client="with.dots.in"),
        AudienceRequest(client="*" * 10),
        AudienceRequest(client="x" * 100),
        AudienceRequest(client="line\r\nline"),
        AudienceRequest(client=ALICE, subjects=("x",), knows=-1),
        AudienceRequest(client=ALICE, subjects=("x",), knows=MAX_NUMBER),
        AudienceRequest(client=ALICE, subjects=("x",) * (MAX_SUBJECTS_A_QUESTION + 1)),
    ],
)
def test_questions_that_break_the_rules_are_refused_and_counted(
    desk: Desk, request_: AudienceRequest
) -> None:
    assert desk.leaves.ask(request_, 0.0, 0.0, "").problem == BAD_REQUEST
    assert (desk.leaves.clients, desk.leaves.counts) == (0, {BAD_REQUEST: 1})


def test_who_does_not_answer_gets_no_more_leave_and_too_many_of_them_spoil_it_for_all(desk: Desk) -> None:
    now = 0.0
    for number in range(MAX_UNANSWERED + 1):
        desk.ask(f"mallory-{number}", f"x{number}", now=now)
        desk.want(f"x{number}", now=now)
        now += LEAVE_S
        desk.leaves.expire(now)
        assert desk.ask(f"mallory-{number}", "y", now=now).problem == NOT_ANSWERED
    assert desk.ask(ALICE, "y", now=now).problem == NOT_ANSWERED
    assert desk.ask(ALICE, "y", now=now + UNANSWERED_S).unwanted == ("y",)


def test_clients_and_leaves_are_bounded(desk: Desk) -> None:
    for number in range(MAX_SILENT_CLIENTS):
        desk.leaves.ask(AudienceRequest(client=f"client-{number}"), 0.0, 0.0, "")
    assert desk.leaves.clients == 0, "who asks for nothing is not kept"
    whole = MAX_LEAVES // MAX_SUBJECTS_A_QUESTION
    for number in range(whole + 1):
        subjects = tuple(f"s.{number}.{each}" for each in range(MAX_SUBJECTS_A_QUESTION))
        desk.leaves.ask(AudienceRequest(client=f"client-{number}", subjects=subjects), 0.0, 0.0, "")
    assert desk.leaves.given == MAX_LEAVES
    for number in range(whole + 1, MAX_SILENT_CLIENTS):
        desk.leaves.ask(AudienceRequest(client=f"client-{number}", subjects=("s.0.0",)), 0.0, 0.0, "")
    assert desk.ask("one-too-many", "x", now=0.0).problem == TOO_MANY_CLIENTS


def test_patterns_that_are_dear_to_compare_take_back_everything(desk: Desk) -> None:
    subjects = tuple(f"s.{number}.x" for number in range(MAX_SUBJECTS_A_QUESTION))
    desk.ask(ALICE, *subjects, now=0.0)
    desk.ask(BOB, "t.x", now=0.0)
    patterns = [f"*.*.nobody{number}" for number in range(MAX_LOOKED_AT // MAX_SUBJECTS_A_QUESTION)]
    told = desk.want(*patterns, now=1.0)
    assert set(told[ALICE][1]) == set(subjects)
    assert told[BOB] == (1, ("t.x",))
    assert desk.ask(BOB, "t.x", now=1.1, knows=1).problem == TOO_MUCH_INTEREST
    assert desk.ask(BOB, "t.x", now=1.1 + PAUSE_S, knows=1).unwanted == ("t.x",)


def test_a_tree_is_empty_again_when_all_was_taken_out() -> None:
    tree = SubjectTree()
    for subject in ("a", "a.b", "a.b.c", "b.c"):
        tree.add(subject)
        tree.add(subject)
    assert len(tree) == 4
    for subject in ("a.b", "a", "b.c", "a.b.c"):
        tree.remove(subject)
    assert len(tree) == 0
    assert tree.under(">", 10) == ([], 0)
