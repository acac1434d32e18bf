"""PEER-DRD: PEER's trigger and caps with DRD's priorities in place of its choice by load (ePEER §4.5.4)."""

from __future__ import annotations

from mangrove.control.offloading.drd import move_bundles
from mangrove.control.offloading.plan import Plan
from mangrove.control.offloading.priorities import prioritised
from mangrove.control.offloading.problem import Choice, Problem


def peer_drd(problem: Problem) -> Choice:
    """Move whole bundles, the least urgent first, as far as they fit."""
    plan = Plan(problem)
    move_bundles(plan, prioritised(problem))
    return plan.choice()
