"""Plans are put in force through the brain: checked, moved a few topics at a time, told, rolled back."""

from __future__ import annotations

import msgspec
import pytest
from tests.kit.planned_domain import (
    WALL,
    PlannedDomain,
    answer,
    broker,
    small_federation,
)

from mangrove.control.plans.department import PAUSED, ROLLOUT_KEY
from mangrove.control.stimuli import OperatorAsked
from mangrove.model.agents.operations import PlanApplied, PlanRolledBack, PlanShown
from mangrove.model.plans.account import PlanTaken, RolloutState
from mangrove.model.plans.rules import PlanPolicy, PlanRules


def domain(topics: int = 6, **rules: object) -> PlannedDomain:
    made = PlannedDomain(small_federation(rules=PlanRules(**rules)))  # type: ignore[arg-type]
    for number in range(topics):
        made.register(f"c{number}", f"t{number}")
        made.register(f"d{number}", f"t{number}")
    return made


def all_at(number: int, topics: int = 6) -> dict[str, str]:
    return {f"t{topic}": broker(number) for topic in range(topics)}


def test_a_plan_moves_what_is_elsewhere_and_the_directory_is_the_plan() -> None:
    running = domain()
    assert len(set(running.places.values())) == 3
    taken = running.apply(all_at(2))
    assert taken.version == 1
    assert taken.preview.subscriptions == 8
    assert {move.to for move in taken.preview.moves} == {broker(2)}
    running.run(5)
    assert set(running.places.values()) == {broker(2)}
    assert running.edges() == dict.fromkeys(all_at(2), (broker(2),))
    told = running.shown()
    assert told.rollout is not None
    assert told.rollout.state is RolloutState.DONE
    assert (told.version, told.rollout.done, told.rollout.subscriptions) == (1, 4, 8)
    assert [line.version for line in told.history] == [1]
    assert running.kinds.count("PlannedMoveDecided") == running.kinds.count("TopicMoved") == 4
    assert running.kinds[-1] == "PlanRolledOut"


def test_a_look_moves_nothing() -> None:
    running = domain()
    before = dict(running.places)
    told = running.ask(PlanApplied(plan=answer(running.federation, all_at(1)), check=True))
    preview = msgspec.json.decode(told.result, type=PlanTaken).preview
    assert preview.subscriptions == 8
    running.run(5)
    assert running.places == before
    assert running.shown().version == 0


def test_never_more_topics_move_than_allowed() -> None:
    running = domain(topics=9, moves_at_once=2)
    running.obeying = False
    running.apply(all_at(1, 9))
    most = 0
    for _ in range(200):
        running.run(0.2)
        assert running.shown().rollout is not None
        moving = running.shown().rollout.moving  # type: ignore[union-attr]
        most = max(most, len(moving))
        assert {order.key for _, order in running.orders} <= {"s"}
        orders, running.orders = running.orders, []
        for client, order in orders[:1]:
            running.obey(client, order)
        if running.shown().rollout.state is RolloutState.DONE:  # type: ignore[union-attr]
            break
    assert most == 2
    assert set(running.places.values()) == {broker(1)}


def test_a_plan_that_cannot_be_stored_is_refused_and_moves_nothing() -> None:
    running = domain()
    before = dict(running.places)
    running.settle()
    asked = PlanApplied(plan=answer(running.federation, all_at(1)))
    running.do(running.brain.handle(OperatorAsked(asked, 99), running.now))
    running.fail_writes()
    running.run(5)
    assert "could not be stored" in running.answers[99].problem
    assert running.places == before
    assert not running.ask(asked).problem, "it may be asked for again"


def test_nothing_moves_before_the_rollout_is_in_the_store() -> None:
    running = domain()
    running.settle()
    running.refusing = ROLLOUT_KEY
    taken = running.apply(all_at(1))
    assert taken.version == 1
    running.run(5)
    assert running.orders == []
    assert len(set(running.places.values())) == 3
    running.refusing = ""
    running.run(5)  # it is written again
    assert set(running.places.values()) == {broker(1)}


def test_clients_that_cannot_move_are_counted_and_tried_again() -> None:
    running = domain(topics=1)
    running.obeying = False
    running.apply({"t0": broker(2)})
    for _ in range(6):
        running.run(1.0)
        orders, running.orders = running.orders, []
        for client, order in orders:
            running.obey(client, order, problem="no way")
    told = running.shown().rollout
    assert told is not None
    assert told.state is RolloutState.DONE
    assert told.failed == 4, "two clients, twice"
    assert told.skipped == {"clients did not go": 1}


def test_queue_groups_and_unmovable_clients_stay() -> None:
    running = domain(topics=1)
    at = running.places["c0"]
    target = next(broker(number) for number in (1, 2, 3) if broker(number) != at)
    running.register("q", "t0", queue="workers")
    running.register("still", "t0", movable=False)
    taken = running.apply({"t0": target})
    assert (taken.preview.moves[0].subscriptions, taken.preview.moves[0].staying) == (2, 2)
    running.run(5)
    assert running.places == {"c0": target, "d0": target, "q": at, "still": at}
    assert running.edges()["t0"] == (target, at)


def test_new_topics_go_where_the_plan_says() -> None:
    running = domain(topics=1)
    running.apply({"t0": running.places["c0"], "later": broker(3), "group.*": broker(2)})
    running.run(1)
    assert running.register("n1", "later") == broker(3)
    assert running.register("n2", "group.a") == broker(2)
    assert running.register("n3", "group.b") == broker(2)


def test_a_pattern_over_planned_topics_goes_with_them_only_if_they_are_together() -> None:
    running = domain(topics=1)
    home = running.places["c0"]
    running.apply({"t0": home, "a.1": broker(3), "a.2": broker(3), "b.1": broker(1), "b.2": broker(2)})
    plans = running.brain._lead.parts.plans  # type: ignore[union-attr]
    assert plans.planned("a.>") is not None
    assert plans.planned("a.>").primary == broker(3)  # type: ignore[union-attr]
    assert plans.planned("b.>") is None
    assert plans.planned("c") is None


def test_a_topic_that_a_session_moved_stays_until_the_next_plan() -> None:
    running = domain(topics=1)
    running.apply({"t0": broker(1)})
    running.run(3)
    for client in ("c0", "d0"):  # as after an offload session: clients say where they are
        running.places[client] = broker(3)
        running.register(client, "t0")
    assert running.register("new", "t0") == broker(3)
    running.run(3)
    assert running.places["c0"] == broker(3)
    running.apply({"t0": broker(1)}, made_at=WALL + 1)
    running.run(3)
    assert set(running.places.values()) == {broker(1)}


def test_the_next_leader_completes_a_plan_that_was_cut_short() -> None:
    running = domain(moves_at_once=1)
    running.obeying = False
    running.apply(all_at(2))
    for _ in range(2):
        running.run(0.5)
        orders, running.orders = running.orders, []
        for client, order in orders:
            running.obey(client, order)
    assert len(set(running.places.values())) > 1, "some have moved, others not"
    running.change_leaders()
    assert "RolloutResumed" in running.kinds
    running.obeying = True
    running.run(30)
    assert set(running.places.values()) == {broker(2)}
    assert running.edges() == dict.fromkeys(all_at(2), (broker(2),))
    told = running.shown()
    assert told.rollout is not None
    assert told.rollout.state is RolloutState.DONE
    assert told.history[0].joint_ok == pytest.approx(0.97)
    running.change_leaders()
    assert running.kinds.count("RolloutResumed") == 1, "what is done is not done again"
    assert running.shown().version == 1


def test_a_later_plan_takes_the_place_of_one_that_is_under_way() -> None:
    running = domain(moves_at_once=1)
    running.obeying = False
    running.apply(all_at(2))
    running.run(1)
    running.orders.clear()
    running.apply(all_at(3), made_at=WALL + 1)
    running.obeying = True
    running.run(10)
    assert set(running.places.values()) == {broker(3)}
    told = running.shown()
    assert told.version == 2
    assert told.history[1].outcome == "superseded by 2"


def test_back_to_an_earlier_plan() -> None:
    running = domain()
    assert "no plan before" in running.ask(PlanRolledBack()).problem
    running.apply(all_at(1))
    running.run(3)
    assert "no plan before" in running.ask(PlanRolledBack()).problem
    running.apply(all_at(2), made_at=WALL + 1)
    running.run(3)
    assert not running.ask(PlanRolledBack(by="ada")).problem
    running.run(3)
    assert set(running.places.values()) == {broker(1)}
    told = running.shown()
    assert (told.version, told.history[0].what, told.history[0].by) == (3, "rolled back to 1", "ada")
    assert "not there" in running.ask(PlanRolledBack(version=77)).problem


def test_a_plan_of_before_the_federation_file_changed_is_in_force_no_more() -> None:
    running = domain()
    running.obeying = False
    running.apply(all_at(3))
    running.run(1)
    running.federation = small_federation(edges=2)
    for client, place in running.places.items():
        running.places[client] = broker(1) if place == broker(3) else place
    running.orders.clear()
    running.change_leaders()
    running.run(30)
    assert running.orders == []
    told = running.shown()
    assert told.version == 0
    assert "plan again" in told.history[0].outcome
    assert running.kinds.count("PlanRefused") == 1
    assert running.register("new", "t77") in (broker(1), broker(2))


def test_the_history_is_bounded_also_in_the_store() -> None:
    running = domain(topics=2)
    for number in range(14):
        running.apply(all_at(1 + number % 3, 2), made_at=WALL + number)
        running.run(2)
    assert [line.version for line in running.shown().history] == list(range(14, 4, -1))
    assert sum(key.startswith("plan-") for _, key in running.store) == 11
    assert running.ask(PlanShown(version=2)).problem == "version 2 is not in the history"
    assert running.shown(7).plan is not None


def test_outside_its_window_a_plan_waits_unless_at_once() -> None:
    # WALL is 08:00 UTC
    running = domain(window=("08:10-09:00",))
    told = running.ask(PlanApplied(plan=answer(running.federation, all_at(2)), at_once=False))
    assert "10 min" in msgspec.json.decode(told.result, type=PlanTaken).waits
    running.run(60)
    assert len(set(running.places.values())) == 3
    assert running.shown().rollout.waits.startswith("its window opens")  # type: ignore[union-attr]
    for client in list(running.topics):
        running.register(client, running.topics[client])
    running.apply(all_at(2), made_at=WALL + 1)
    running.run(3)
    assert set(running.places.values()) == {broker(2)}


def test_a_dead_broker_is_no_target() -> None:
    running = domain(topics=3)
    running.apply({"t0": broker(1), "t1": broker(1), "t2": broker(1), "t9": broker(2)})
    running.run(3)
    running.sample()
    for _ in range(4):
        running.now += 1
        running.sample(broker(2))
    plans = running.brain._lead.parts.plans  # type: ignore[union-attr]
    assert plans.case_for({broker(2)}) is None, "an answer of `allocate` has no cases"
    running.apply({"t0": broker(2), "t1": broker(3), "t2": broker(3)}, made_at=WALL + 1)
    running.run(3)
    assert running.edges() == {"t0": (broker(1),), "t1": (broker(3),), "t2": (broker(3),)}
    assert running.register("x", "t9") != broker(2)


# -- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"federation": "other"}, "federation: it is for 'other'"),
        ({"federation": None}, "federation: missing"),
        ({"domain": "bergen"}, "domain: it is for 'bergen'"),
        ({"topology": "0" * 24}, "topology: "),
        ({"data_until": WALL - 8 * 86_400}, "data_until: its data end 8.0 days ago"),
        ({"data_until": WALL + 4000}, "ahead of this agent's clock"),
        ({"made_at": float("nan")}, "made_at: nan"),
        ({"risk": {"oslo-edge1": float("nan")}}, "risk.oslo-edge1: nan"),
        ({"joint_ok": 1.5}, "joint_ok: 1.5"),
        ({"topics": {"t0": ["a..b"]}}, "'a..b' is no topic"),
        ({"topics": {"t0": ["x"], "t1": ["x"]}}, "'x' is also in"),
        ({"topics": {"t9": ["x"]}}, "topics.t9: there is no item"),
        ({"topics": {"t0": ["$SYS.x"]}}, "belongs to the machinery"),
        ({"allocation": {"oslo-edge1": ["t0", "t0"]}}, "'t0' is also on oslo-edge1"),
        ({"allocation": {"oslo-edge1": ["t0"], "oslo-edge2": ["t0"]}}, "'t0' is also on oslo-edge1"),
        ({"allocation": {"oslo-edge9": ["t0"]}}, "there is no broker 'oslo-edge9'"),
        ({"allocation": {"oslo-head": ["t0"]}}, "there is no broker 'oslo-head'"),
        ({"allocation": {"oslo-edge1": ["unheard", "of"]}}, "nobody here subscribes to any of its topics"),
        ({"allocation": []}, "neither `cases`"),
        ({"allocation": {}}, "0 items are placed"),
        ({"cases": [{"state": {}}], "version": 1}, "version: 1 of a case base"),
        ({"cases": [{"placing": {}}], "version": 7}, "version: 7 of a plan"),
        ({"figures": {"items": ["t0"]}}, "figures: "),
    ],
)
def test_a_plan_that_cannot_be_right_is_refused_with_the_place(
    changes: dict[str, object], place: str
) -> None:
    running = domain()
    before = dict(running.places)
    told = running.ask(PlanApplied(plan=answer(running.federation, all_at(1), **changes)))
    assert place in told.problem
    running.run(3)
    assert running.places == before
    assert running.shown().version == 0
    assert running.brain.status(running.now).refused["plans of operators"] == 1


def test_half_a_document_is_refused() -> None:
    running = domain()
    whole = answer(running.federation, all_at(1))
    for cut in (0, 1, len(whole) // 2, len(whole) - 1):
        assert "not JSON" in running.ask(PlanApplied(plan=whole[:cut])).problem
    assert "damaged" in running.ask(PlanApplied(plan=b"\x78" + whole)).problem


def whole_plan(running: PlannedDomain, primary: str, mirror: str) -> bytes:
    placing = {f"t{number}": {"primary": primary, "mirror": mirror} for number in range(6)}
    items = [{"item": name, "topics": [name]} for name in placing]
    return answer(
        running.federation,
        {},
        allocation=None,
        version=1,
        items=items,
        cases=[{"placing": placing, "risk": {}, "joint_ok": 0.9}],
    )


def test_primary_and_mirror_on_one_broker_are_refused() -> None:
    running = domain()
    problem = running.ask(PlanApplied(plan=whole_plan(running, broker(1), broker(1)))).problem
    assert "primary and mirror are both 'oslo-edge1'" in problem
    assert not running.ask(PlanApplied(plan=whole_plan(running, broker(1), broker(2)))).problem
    running.run(3)
    plans = running.brain._lead.parts.plans  # type: ignore[union-attr]
    assert plans.planned("t0") == plans.in_force.plan.normal.placing["t0"]  # type: ignore[union-attr]


def test_worse_than_what_is_in_force_is_refused_unless_asked_for_anyway() -> None:
    running = domain()
    running.apply(all_at(1), joint_ok=0.99)
    running.run(3)
    worse = answer(running.federation, all_at(2), joint_ok=0.9, made_at=WALL + 1)
    problem = running.ask(PlanApplied(plan=worse)).problem
    assert "worse than what is in force, by what each plan says of itself" in problem
    assert not running.ask(PlanApplied(plan=worse, anyway=True)).problem
    running.run(3)
    assert set(running.places.values()) == {broker(2)}


# -- plans that are found ----------------------------------------------------------------------------------


def test_by_default_nothing_is_done_with_what_is_found() -> None:
    running = domain()
    running.find("new", answer(running.federation, all_at(1)))
    assert running.shown().proposed == ()


def test_a_found_plan_is_proposed_and_can_be_applied_by_name() -> None:
    running = domain(policy=PlanPolicy.PROPOSE)
    document = answer(running.federation, all_at(1))
    running.find("nightly", document)
    assert running.kinds[-1] == "PlanProposed"
    (told,) = running.shown().proposed
    assert (told.name, told.moves, told.problem) == ("nightly", 4, "")
    assert "no plan of this name" in running.ask(PlanApplied(proposed="weekly")).problem
    assert not running.ask(PlanApplied(proposed="nightly")).problem
    running.run(3)
    assert set(running.places.values()) == {broker(1)}
    assert running.shown().proposed == ()
    running.find("nightly", document)
    assert running.shown().proposed == (), "it is in force"


def test_a_found_plan_is_put_in_force_by_itself_where_that_is_wanted() -> None:
    running = domain(policy=PlanPolicy.AUTO)
    running.find("half", answer(running.federation, all_at(1))[:-9])
    assert running.kinds[-1] == "PlanRefused"
    running.find("half", answer(running.federation, all_at(1))[:-9])
    assert running.kinds.count("PlanRefused") == 1, "said once"
    running.find("half", answer(running.federation, all_at(1)))
    running.run(3)
    assert set(running.places.values()) == {broker(1)}
    running.find("other", answer(running.federation, all_at(2), topology=None))
    running.find("older", answer(running.federation, all_at(2), data_until=WALL - 600))
    running.find("worse", answer(running.federation, all_at(2), joint_ok=0.5, made_at=WALL + 1))
    problems = {each.name: each.problem for each in running.shown().proposed}
    assert "topology: missing" in problems["other"]
    assert "older than those of the plan in force" in problems["older"]
    assert "worse than what is in force" in problems["worse"]
    assert running.shown().version == 1


def test_a_found_plan_that_could_not_be_stored_is_tried_again() -> None:
    running = domain(policy=PlanPolicy.AUTO)
    running.settle()
    running.refusing = "policy.proposed"
    running.find("nightly", answer(running.federation, all_at(2)))
    assert running.shown().version == 0
    assert [each.name for each in running.shown().proposed] == ["nightly"]
    running.refusing = ""
    running.run(15)
    assert running.shown().version > 0
    assert set(running.places.values()) == {broker(2)}


def test_a_rolled_back_plan_is_not_found_again() -> None:
    running = domain(policy=PlanPolicy.AUTO)
    running.apply(all_at(1), joint_ok=0.9)
    running.run(3)
    found = answer(running.federation, all_at(2), joint_ok=0.99, made_at=WALL + 1)
    running.find("nightly", found)
    running.run(3)
    assert not running.ask(PlanRolledBack()).problem
    running.run(3)
    running.find("nightly", found)
    running.run(3)
    assert set(running.places.values()) == {broker(1)}


def test_a_paused_domain_applies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    running = domain(policy=PlanPolicy.AUTO, moves_at_once=1)
    plans = running.brain._lead.parts.plans  # type: ignore[union-attr]
    paused = True
    monkeypatch.setattr(plans._around, "paused", lambda: paused)
    assert running.ask(PlanApplied(plan=answer(running.federation, all_at(1)))).problem == PAUSED
    running.find("nightly", answer(running.federation, all_at(3)))
    assert [each.problem for each in running.shown().proposed] == [""]
    running.run(8)
    assert running.shown().version == 0
    paused = False
    running.run(8)
    assert set(running.places.values()) == {broker(3)}, "it was not forgotten"
    running.obeying = False
    running.apply(all_at(1), made_at=WALL + 1)
    paused = True
    running.obeying = True
    running.run(3)
    assert running.shown().rollout.waits == "the domain is paused"  # type: ignore[union-attr]
    paused = False
    running.run(5)
    assert set(running.places.values()) == {broker(1)}
