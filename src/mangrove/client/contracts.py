"""Contracts by the SDK: shown, made, changed and withdrawn while messages flow, where the rules allow it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from mangrove.broker.client_connection import BrokerAwayError, NoResponderError
from mangrove.client.management.link import ManagementLink
from mangrove.errors import MangroveError
from mangrove.model.questions.contracts_question import (
    ContractsAnswer,
    ContractsRequest,
    Objection,
    contracts_subject,
)
from mangrove.model.subjects import matches
from mangrove.model.unreadable import UNREADABLE
from mangrove.model.versions.changes import ChangeState

ASK_S = 10.0
"""Until the agent answers, which may have to load what checks contracts, and to ask for a signature."""
POLL_S = 0.1
DEFAULT_TIMEOUT_S = 20.0


class ContractChange(msgspec.Struct, frozen=True, kw_only=True):
    """A version of the federation document that is in force."""

    version: int
    digest: str = ""
    """Names the change; empty if nothing had to change."""
    versions: dict[str, int] = {}
    """What is in force at each domain, as far as it is known."""
    away: tuple[str, ...] = ()
    """Domains to which no way leads at present; they are told when they return."""


class ContractError(MangroveError):
    """A contract was not changed; nothing else was, either."""


class ContractNotAllowedError(ContractError):
    """The access rules do not let this client change the contract."""


class ContractInvalidError(ContractError):
    """The contract is not one that a federation file could have."""


class ContractRefusedError(ContractError):
    """It cannot be put in force: too few domains answer, another change was first, or it needs a restart."""


class ContractUndecidedError(ContractError):
    """It is open whether the change comes into force: it goes on by itself."""


_ERRORS: dict[Objection, type[ContractError]] = {
    Objection.NOT_ALLOWED: ContractNotAllowedError,
    Objection.INVALID: ContractInvalidError,
    Objection.REFUSED: ContractRefusedError,
    Objection.UNSIGNED: ContractRefusedError,
    Objection.UNAVAILABLE: ContractError,
}


class Contracts:
    """The contracts of the federation, by way of the own domain's agent. See `Connection.contracts`."""

    def __init__(self, link: ManagementLink) -> None:
        self._link = link
        self._where = contracts_subject(link.domain, link.user)

    async def show(self, subject: str | None = None) -> tuple[dict[str, Any], ...]:
        """The contracts in force as a federation file has them, in the order in which they are tried.

        With a subject, only the one that governs it, if any.
        """
        contracts = (await self._ask(ContractsRequest(), ASK_S)).contracts
        if subject is None:
            return contracts
        return tuple(each for each in contracts if matches(each["match"], subject))[:1]

    async def set(
        self, match: str, *, note: str = "", timeout: float = DEFAULT_TIMEOUT_S, **terms: Any
    ) -> ContractChange:
        """Make a contract, or replace the one with this `match`: `set("alert.>", deadline_ms=150, paths=2)`.

        Terms as in a federation file; those that are not given are the defaults. Returns when it is in force
        in every domain that can be reached. ContractError, of the kinds above, if it does not come to that.
        """
        return await self._change(ContractsRequest(set={"match": match, **terms}, note=note), timeout)

    async def remove(
        self, match: str, *, note: str = "", timeout: float = DEFAULT_TIMEOUT_S
    ) -> ContractChange:
        """Withdraw a contract: its subjects fall under the next that matches, or have best effort."""
        return await self._change(ContractsRequest(remove=match, note=note), timeout)

    async def _change(self, request: ContractsRequest, timeout_s: float) -> ContractChange:
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout_s
        answer = await self._ask(request, timeout_s)
        again = ContractsRequest(change=answer.digest, version=answer.version)
        while answer.digest:
            if answer.state is ChangeState.REFUSED:
                raise ContractRefusedError(
                    f"version {again.version} is not put in force: {answer.problem}", hint="try again"
                )
            arrived = all(
                version >= again.version or name in answer.away for name, version in answer.versions.items()
            )
            if answer.state is ChangeState.IN_FORCE and (arrived or clock() >= deadline):
                break
            if clock() >= deadline:
                raise ContractUndecidedError(
                    f"it is open whether version {again.version} comes into force",
                    hint="it completes by itself when more than half of the domains answer",
                )
            await asyncio.sleep(POLL_S)
            try:
                answer = await self._ask(again, max(deadline - clock(), POLL_S))
            except ContractError:
                continue  # the agent begins anew when contracts change; whoever leads next knows as well
        return ContractChange(
            version=answer.version, digest=answer.digest, versions=answer.versions, away=answer.away
        )

    async def _ask(self, request: ContractsRequest, timeout_s: float) -> ContractsAnswer:
        """An answer that holds no objection; who leads may change, so somebody else is asked again."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout_s
        while True:
            try:
                answer = await self._link.ask(
                    self._where, request, ContractsAnswer, min(ASK_S, max(deadline - clock(), POLL_S))
                )
            except UNREADABLE as error:
                raise ContractError(f"the agent of {self._link.domain} answered nonsense: {error}") from None
            except (NoResponderError, BrokerAwayError, TimeoutError):
                answer = ContractsAnswer(
                    objection=Objection.UNAVAILABLE,
                    problem=f"no agent of {self._link.domain} answers",
                    hint="`mangrove history` tells what became of it",
                )
            if answer.objection is None:
                return answer
            if answer.objection is not Objection.UNAVAILABLE or clock() >= deadline:
                raise _ERRORS[answer.objection](answer.problem, hint=answer.hint)
            request = msgspec.structs.replace(request, again=True)
            await asyncio.sleep(POLL_S)
