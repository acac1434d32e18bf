"""Who may change contracts by the SDK."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mangrove.model.access.contract_rights import may_change
from mangrove.model.access.rules import AccessRules, ContractGrant, Default, Principal, Who
from mangrove.model.subjects import covers

PLANNER = Principal(domain="a", client="planner")
RULES = AccessRules(
    roles={"crew": ("a/alice",)},
    contracts=(
        ContractGrant(subjects=("plan.>",), who=Who(client=("planner",))),
        ContractGrant(subjects=("crew.*",), who=Who(role=("crew",))),
        ContractGrant(subjects=("open.>",), who=Who(domain=("b",))),
    ),
)


def test_nobody_may_by_default_and_who_is_granted_it_may() -> None:
    assert not may_change(AccessRules(default=Default.ALLOW), PLANNER, "plan.x")
    assert may_change(RULES, PLANNER, "plan.>")
    assert not may_change(RULES, PLANNER, ">"), "all that a contract matches must be granted"
    assert not may_change(RULES, PLANNER, "crew.x")
    assert may_change(RULES, Principal(domain="a", client="alice"), "crew.*")
    assert not may_change(RULES, Principal(domain="b", client="alice"), "crew.x")
    assert may_change(RULES, Principal(domain="b", client="anybody"), "open.x")


def test_who_proves_nothing_has_what_whole_domains_have() -> None:
    assert may_change(RULES, Principal(domain="b", client=""), "open.x")
    assert not may_change(RULES, Principal(domain="a", client=""), "plan.x")
    assert not may_change(RULES, Principal(domain="a", client="", role="operator"), "plan.x")


subjects = st.lists(st.sampled_from(["plan", "x", "*"]), min_size=1, max_size=3).map(".".join)


@given(subjects, st.booleans())
def test_no_more_than_is_granted_ever(subject: str, rest: bool) -> None:
    match = f"{subject}.>" if rest else subject
    assert may_change(RULES, PLANNER, match) == covers("plan.>", match)
