"""What an operator may do from a page: the operations of the commands, each with an audit entry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum

import msgspec

from mangrove.agent.management import ManagementConnection
from mangrove.errors import InputError, MangroveError
from mangrove.host.audit.operator_audit import note_operator, user_name
from mangrove.host.run_directory import RunDirectory
from mangrove.model.agents.operations import (
    HandOverAsked,
    Operation,
    OperationAnswer,
    PauseAsked,
    PlanApplied,
)
from mangrove.model.audit.entry import AuditKind
from mangrove.model.endpoints import DomainEndpoints, Runtime
from mangrove.model.plans.account import PlanPreview, PlanTaken


class Fault(StrEnum):
    """What may be done to an emulated link."""

    CUT = "cut"
    SLOW = "slow"
    HEAL = "heal"


EmulateFault = Callable[[Runtime, str, str, Fault], Awaitable[None]]
"""Does it to the link between two sites; the testbed brings it, which pages do not know."""


class Actions:
    """Acts in the name of who started the monitor, whose operator key is used where there are keys."""

    def __init__(self, run: Callable[[], RunDirectory], emulate: EmulateFault | None = None) -> None:
        """`run` finds the running federation's directory, or raises a `MangroveError`."""
        self._run = run
        self._emulate = emulate
        self.by = f"{user_name()} by the monitor"

    @property
    def emulates(self) -> bool:
        """Whether faults can be emulated at all."""
        return self._emulate is not None

    async def pause(self, runtime: Runtime, domain: str, paused: bool) -> str:
        """Have the agents of a domain decide nothing by themselves, or go on."""
        what = "pause" if paused else "resume"
        await self._asked(runtime, domain, PauseAsked(paused=paused, by=self.by), what)
        return f"{domain}: {'nothing is decided automatically' if paused else 'agents decide by themselves'}"

    async def hand_over(self, runtime: Runtime, domain: str, to: str = "") -> str:
        """Let the next agent lead, or the one on a host."""
        answer = await self._asked(runtime, domain, HandOverAsked(to=to), "hand over", to=to)
        return f"{domain}: {msgspec.json.decode(answer.result)['to']} is to lead"

    async def preview(self, runtime: Runtime, domain: str, name: str) -> PlanPreview:
        """What a proposed plan would do. Nothing is changed, so nothing is noted."""
        async with ManagementConnection(_endpoints(runtime, domain)) as management:
            answer = await management.operate(PlanApplied(proposed=name, check=True, by=self.by))
        return msgspec.json.decode(_good(domain, answer).result, type=PlanTaken).preview

    async def apply(self, runtime: Runtime, domain: str, name: str) -> str:
        """Put a proposed plan in force."""
        asked = PlanApplied(proposed=name, by=self.by)
        answer = await self._asked(runtime, domain, asked, "apply plan", plan=name)
        taken = msgspec.json.decode(answer.result, type=PlanTaken)
        return f"{domain}: version {taken.version} is in force" + (f"; {taken.waits}" if taken.waits else "")

    async def fault(self, runtime: Runtime, first: str, second: str, fault: Fault) -> str:
        """Cut, slow down or heal an emulated link."""
        run = self._run()
        if self._emulate is None or runtime.wan_control is None:
            raise InputError("the links of this federation are real, not emulated")
        try:
            await self._emulate(runtime, first, second, fault)
        except MangroveError as error:
            self._note(run, AuditKind.OPERATION_REFUSED, f"{fault.value} link", reason=error.message)
            raise
        self._note(run, AuditKind.OPERATION_CARRIED_OUT, f"{fault.value} link", link=f"{first} – {second}")
        return f"{first} – {second}: {fault.value}"

    async def _asked(
        self, runtime: Runtime, domain: str, operation: Operation, what: str, **facts: str
    ) -> OperationAnswer:
        run = self._run()
        endpoints = _endpoints(runtime, domain)
        try:
            async with ManagementConnection(endpoints) as management:
                answer = _good(domain, await management.operate(operation))
        except MangroveError as error:
            self._note(run, AuditKind.OPERATION_REFUSED, what, domain=domain, reason=error.message, **facts)
            raise
        self._note(run, AuditKind.OPERATION_CARRIED_OUT, what, domain=domain, **facts)
        return answer

    def _note(self, run: RunDirectory, kind: AuditKind, what: str, **facts: str) -> None:
        note_operator(run, kind, operation=what, where="monitor", **facts)


def _endpoints(runtime: Runtime, domain: str) -> DomainEndpoints:
    found = runtime.domains.get(domain)
    if found is None:
        raise InputError(f"there is no domain {domain[:60]!r}")
    return found


def _good(domain: str, answer: OperationAnswer | None) -> OperationAnswer:
    if answer is None:
        raise MangroveError(f"no agent that leads answers in {domain}")
    if answer.problem:
        raise InputError(f"the agent of {domain} refuses: {answer.problem}")
    return answer
