"""Plans that were found where pipelines leave them: what is proposed, and what was refused and why."""

from __future__ import annotations

from collections import OrderedDict

from mangrove.model.plans.account import PlanPreview, ProposedPlan

KEPT = 20


class Findings:
    """The last plans that were found, by name; a later one of a name takes the place of the earlier."""

    def __init__(self) -> None:
        self._told: OrderedDict[str, ProposedPlan] = OrderedDict()
        self._bodies: dict[str, bytes] = {}

    def proposed(self, name: str, body: bytes, preview: PlanPreview, found_at: float) -> None:
        """An operator may put it in force."""
        told = ProposedPlan(
            name=name,
            found_at=found_at,
            digest=preview.digest,
            joint_before=preview.joint_before,
            joint_after=preview.joint_after,
            moves=len(preview.moves) + preview.more_moves,
        )
        self._keep(told)
        self._bodies[name] = body

    def refused(self, name: str, problem: str, found_at: float) -> bool:
        """It is not taken; False if the same was said of it before."""
        before = self._told.get(name)
        self._bodies.pop(name, None)
        self._keep(ProposedPlan(name=name, found_at=found_at, problem=problem))
        return before is None or before.problem != problem

    def _keep(self, told: ProposedPlan) -> None:
        self._told[told.name] = told
        self._told.move_to_end(told.name)
        while len(self._told) > KEPT:
            name, _ = self._told.popitem(last=False)
            self._bodies.pop(name, None)

    def body(self, name: str) -> bytes | None:
        """The document of a proposed plan."""
        return self._bodies.get(name)

    def taken(self, digest: str) -> None:
        """It is in force: it is no longer proposed."""
        for name in [name for name, told in self._told.items() if digest and told.digest == digest]:
            del self._told[name]
            self._bodies.pop(name, None)

    def told(self) -> tuple[ProposedPlan, ...]:
        """All, latest first."""
        return tuple(reversed(self._told.values()))
