"""Plans that were in force, the last ones: to go back to, and to tell."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mangrove.control.instructions import StoreWrite
from mangrove.control.plans.in_force import PlanDecision, decoded
from mangrove.control.store_writes import SESSIONS
from mangrove.model.plans.account import PlanVersion

KEPT = 10


class StoredPlan(msgspec.Struct, frozen=True, kw_only=True, tag="plan-version"):
    """A plan that is or was in force, as the store has it."""

    version: int
    body: bytes
    """As it was replicated."""


class PlanHistory:
    """The last plans by version; each has a key of its own in the store."""

    def __init__(self) -> None:
        self._bodies: dict[int, bytes] = {}
        self._lines: dict[int, PlanVersion] = {}

    def restore(self, stored: Iterable[StoredPlan]) -> None:
        """What the store has."""
        for each in sorted(stored, key=lambda each: each.version):
            policy = decoded(each.body)
            if policy is not None:
                self._take(each.version, each.body, policy)
        self._forget()

    def add(self, version: int, body: bytes, policy: PlanDecision) -> list[StoreWrite]:
        """A plan is in force; what is to be written of it, and removed of older ones."""
        self._take(version, body, policy)
        record = msgspec.json.encode(StoredPlan(version=version, body=body))
        removed = [StoreWrite(SESSIONS, _key(old), None) for old in self._forget()]
        return [StoreWrite(SESSIONS, _key(version), record), *removed]

    def _take(self, version: int, body: bytes, policy: PlanDecision) -> None:
        self._bodies[version] = body
        normal = policy.plan.normal
        self._lines[version] = PlanVersion(
            version=version,
            digest=policy.digest,
            since=policy.since,
            by=policy.by,
            what=policy.what,
            items=len(policy.plan.items),
            cases=len(policy.plan.cases),
            joint_ok=normal.joint_ok,
            source=policy.plan.source,
        )

    def _forget(self) -> list[int]:
        old = sorted(self._bodies)[:-KEPT]
        for version in old:
            del self._bodies[version], self._lines[version]
        return old

    def ended(self, version: int, outcome: str) -> None:
        """What became of a version."""
        if version in self._lines:
            self._lines[version] = msgspec.structs.replace(self._lines[version], outcome=outcome)

    def decision(self, version: int) -> PlanDecision | None:
        """A plan that was in force, if it is still known."""
        body = self._bodies.get(version)
        return None if body is None else decoded(body)

    def before(self, version: int) -> int:
        """The version that was in force before another; 0 if none is known."""
        return max((each for each in self._bodies if each < version), default=0)

    def line(self, version: int) -> PlanVersion | None:
        """One version, for people."""
        return self._lines.get(version)

    def lines(self) -> tuple[PlanVersion, ...]:
        """All that are known, latest first."""
        return tuple(self._lines[version] for version in sorted(self._lines, reverse=True))

    @property
    def last(self) -> tuple[int, bytes] | None:
        """The highest version and its body."""
        if not self._bodies:
            return None
        version = max(self._bodies)
        return version, self._bodies[version]


def _key(version: int) -> str:
    return f"plan-{version}"
