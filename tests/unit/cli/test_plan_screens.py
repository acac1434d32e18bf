"""What people see of plans: tables in 80 columns, with everything that matters in them."""

from __future__ import annotations

import io

from rich.console import Console

from mangrove.cli.planning.in_force_tables import outcome, progress, show_history, show_plans, show_preview
from mangrove.model.plans.account import (
    BrokerRisk,
    ItemTold,
    PlanPreview,
    PlansTold,
    PlanVersion,
    ProposedPlan,
    RolloutState,
    RolloutTold,
    TopicMove,
)
from mangrove.model.plans.plan import Placing

AT = 1_800_000_000.0


def console() -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=80, highlight=False), text


def lines(text: io.StringIO) -> list[str]:
    found = text.getvalue().splitlines()
    assert max(map(len, found)) <= 80
    return found


PREVIEW = PlanPreview(
    digest="0123456789",
    items=3,
    topics=40,
    cases=7,
    made_at=AT,
    data_until=AT,
    moves=tuple(
        TopicMove(
            topic=f"sensors.a-rather-long-name-of-a-topic.number{number}",
            sources=("seattle-edge1", "seattle-edge2"),
            to="seattle-edge3",
            subscriptions=1200,
            staying=3,
            mirror="seattle-edge1",
        )
        for number in range(30)
    ),
    subscriptions=36_000,
    brokers=(
        BrokerRisk(broker="seattle-edge1", before=0.2, after=0.01, items_before=3, items_after=1),
        BrokerRisk(broker="seattle-edge2", before=None, after=None, items_before=0, items_after=0),
    ),
    joint_before=0.8,
    joint_after=0.98,
    same_figures=True,
)
LINE = PlanVersion(
    version=4,
    digest="0123456789",
    since=AT,
    by="ada@control",
    what="rolled back to 2",
    items=3,
    cases=7,
    joint_ok=0.98,
    source="plan cases problem.json",
    outcome="3 topics, 12 subscriptions moved",
)
ROLLOUT = RolloutTold(
    version=4,
    state=RolloutState.MOVING,
    topics=30,
    done=12,
    moving=("a", "b"),
    subscriptions=40,
    failed=1,
    silent=2,
    skipped={"its broker is down": 3},
)
TOLD = PlansTold(
    domain="seattle",
    policy="propose",
    paused=True,
    version=4,
    plan=LINE,
    risk={"seattle-edge1": 0.01},
    items=tuple(
        ItemTold(
            item=f"i{number}", topics=2, placing=Placing(primary="seattle-edge1", mirror="seattle-edge2")
        )
        for number in range(50)
    ),
    rollout=ROLLOUT,
    proposed=(
        ProposedPlan(
            name="nightly.json", found_at=AT, digest="x", joint_before=0.9, joint_after=0.99, moves=4
        ),
        ProposedPlan(name="old.json", found_at=AT, problem="old.json has 1 mistake:\n  data_until: too old"),
    ),
    history=(LINE,),
)


def test_a_preview_tells_risk_and_moves() -> None:
    screen, text = console()
    show_preview(PREVIEW, screen)
    seen = " ".join(" ".join(lines(text)).split())
    assert "30 topics move with 36000 subscriptions" in seen
    assert "risk that any broker is overloaded: 0.2 → 0.02 (by the plan's figures)" in seen
    assert "seattle-edge1 3 1 0.2 0.01" in seen
    assert "10 more" in seen


def test_the_plan_in_force_and_what_was_found() -> None:
    screen, text = console()
    show_plans(TOLD, screen)
    seen = " ".join(" ".join(lines(text)).split())
    assert "plans by policy `propose`, paused" in seen
    assert "moving: 12 of 30 topics, moving a, b" in seen
    assert "refused: old.json has 1 mistake: data_until: too old" in seen
    assert "nightly.json" in seen
    screen, text = console()
    show_plans(PlansTold(domain="seattle", policy="manual"), screen)
    assert "no plan is in force" in text.getvalue()


def test_the_history() -> None:
    screen, text = console()
    show_history(TOLD, screen)
    seen = " ".join(" ".join(lines(text)).split())
    assert "rolled back to 2" in seen
    assert "in force; 3 topics, 12 subscriptions moved" in seen
    screen, text = console()
    show_history(PlansTold(domain="seattle", policy="manual"), screen)
    assert text.getvalue() == "seattle has never had a plan\n"


def test_how_far_it_is_and_how_it_ended() -> None:
    assert progress(ROLLOUT) == "moving: 12 of 30 topics, moving a, b"
    assert outcome(TOLD, 3) == "version 3 was superseded by version 4"
    assert outcome(TOLD, 4) == (
        "version 4 is rolled out: 12 topics moved with 40 subscriptions; 1 could not; 2 did not say; "
        "3 topics stay: its broker is down"
    )
