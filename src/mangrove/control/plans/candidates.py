"""Plans that may be put in force: read, checked against the domain, and compared with what is in force."""

from __future__ import annotations

import msgspec

from mangrove.control.plans.checks import fitted, mistakes
from mangrove.control.plans.documents import read_plan
from mangrove.control.plans.in_force import PlanDecision, PlanInForce
from mangrove.control.plans.judgement import digest_of, preview
from mangrove.control.plans.surroundings import PlanSurroundings
from mangrove.control.site import Site
from mangrove.errors import InvalidDocumentError, Mistake
from mangrove.model.plans.account import PlanPreview

NAMED = 3


class Candidate(msgspec.Struct, frozen=True):
    """A plan that suits the domain; `problem` is why it is not to be put in force all the same."""

    decision: PlanDecision
    preview: PlanPreview

    @property
    def problem(self) -> str:
        """Why it would be refused, if so."""
        return self.preview.problem


class Candidates:
    """Reads and judges plans of one domain."""

    def __init__(self, site: Site, around: PlanSurroundings, clock_shift_s: float) -> None:
        self._site = site
        self._around = around
        self._clock_shift_s = clock_shift_s

    def read(
        self,
        data: bytes,
        source: str,
        before: PlanInForce | None,
        down: frozenset[str],
        *,
        by: str,
        at_once: bool,
        now: float,
        found: bool = False,
    ) -> Candidate:
        """A document as a plan for this domain; raises `InvalidDocumentError` with all reasons why not.

        One that was `found` must say itself for what it was made, and of newer data than what is in force.
        """
        federation, domain = self._site.federation, self._site.domain
        wall = now + self._clock_shift_s
        plan = read_plan(data, source, federation=federation.name, domain=domain, now_s=wall)
        wrong: list[Mistake] = []
        if found and not plan.topology:
            wrong.append(Mistake("topology", "missing", "the fingerprint that `pipeline profile` writes"))
        plan = fitted(plan, federation, domain)
        wrong += mistakes(plan, federation, domain, self._site.could_serve, wall=wall)
        if found and before is not None and plan.data_until < before.plan.data_until:
            wrong.append(Mistake("data_until", "its data are older than those of the plan in force"))
        if wrong:
            raise InvalidDocumentError(source, wrong)
        policy = PlanDecision(
            plan=plan,
            digest=digest_of(data),
            since=wall,
            by=by,
            what="found" if found else "applied",
            at_once=at_once,
        )
        return self._judged(policy, before, down, source)

    def again(self, policy: PlanDecision, before: PlanInForce | None, down: frozenset[str]) -> Candidate:
        """A plan that was in force before, if it still suits the domain; it may be old, and worse."""
        wrong = [
            each
            for each in mistakes(
                policy.plan,
                self._site.federation,
                self._site.domain,
                self._site.could_serve,
                wall=policy.plan.data_until,
            )
            if each.path != "made_at"
        ]
        if wrong:
            raise InvalidDocumentError(policy.what, wrong)
        return self._judged(policy, before, down, policy.what)

    def preview(self, plan: PlanInForce, before: PlanInForce | None, down: frozenset[str]) -> PlanPreview:
        """What putting a plan in force would do now."""
        return preview(plan, before, self._around.topics(), down)

    def _judged(
        self, policy: PlanDecision, before: PlanInForce | None, down: frozenset[str], source: str
    ) -> Candidate:
        told = self.preview(PlanInForce(0, policy), before, down)
        if told.unseen == told.topics and any(True for _ in self._around.topics()):
            named = [topic for item in policy.plan.items[:NAMED] for topic in item.topics[:1]]
            problem = f"nobody here subscribes to any of its topics ({', '.join(named)}, …)"
            raise InvalidDocumentError(source, [Mistake("items", problem, "topics of this domain")])
        if told.worse:
            before_risk = 1.0 if told.joint_before is None else 1.0 - told.joint_before
            how = "by the same figures" if told.same_figures else "by what each plan says of itself"
            problem = (
                f"it is worse than what is in force, {how}: the risk that any broker is overloaded would "
                f"rise from {before_risk:.3g} to {1.0 - told.joint_after:.3g}"
            )
            told = msgspec.structs.replace(told, problem=problem)
        return Candidate(policy, told)

    def not_proposed(self) -> list[Mistake]:
        """There is no proposed plan of a name."""
        return [Mistake("", "no plan of this name is proposed", "a file, or a name that `plan show` tells")]

    def not_in_history(self, version: int, known: list[str]) -> list[Mistake]:
        """There is no version to go back to."""
        what = f"version {version} is not there" if version else "there is no plan before the one in force"
        return [Mistake("", what, ", ".join(known) or "nothing to go back to")]
