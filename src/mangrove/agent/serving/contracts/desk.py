"""Where clients ask for other contracts: the agent that leads looks whether they may, and hands it on.

It makes the next version of the document with that one contract changed, has it signed where the federation
has keys, and has the gateway propose it. It keeps nothing: what becomes of a change the gateway knows, so
that the next agent can answer as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TypeVar

import msgspec
import nats.errors
from nats.aio.client import Client

from mangrove.agent.versioning import change_found, standing_of, time_of_day
from mangrove.errors import InputError
from mangrove.host.audit.audit_log import AuditLog
from mangrove.model.access.contract_rights import may_change
from mangrove.model.access.rules import Principal
from mangrove.model.audit.entry import AuditKind
from mangrove.model.federation import Federation
from mangrove.model.questions.contracts_question import (
    MAX_REQUEST_BYTES,
    ContractsAnswer,
    ContractsRequest,
    Objection,
    SigningAnswer,
    SigningRequest,
    signer_subject,
)
from mangrove.model.questions.versions_question import (
    VersionsAnswer,
    VersionsRequest,
    gateway_versions_subject,
)
from mangrove.model.topics import Contract
from mangrove.model.unreadable import UNREADABLE
from mangrove.model.versions.checking import document_problem
from mangrove.model.versions.document import FederationDocument, WrittenDocument, in_force
from mangrove.model.versions.succession import difference, successor

log = logging.getLogger(__name__)

GATEWAY_S = 2.0
SIGNER_S = 5.0
MAX_AT_ONCE = 16
LATER = "try again later"
CROWDED = ContractsAnswer(
    objection=Objection.UNAVAILABLE, problem="the agent deals with many changes already", hint=LATER
)
ENDING = ContractsAnswer(
    objection=Objection.UNAVAILABLE, problem="the agent ends, or begins anew", hint=LATER
)
NO_SIGNER = "nobody signs what clients ask for"
NO_SIGNER_HINT = "run `mangrove contract sign` where the authority's key is"

T = TypeVar("T")
_request = msgspec.json.Decoder(ContractsRequest)


class _ObjectionError(Exception):
    """Why a contract does not change."""

    def __init__(self, objection: Objection, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.answer = ContractsAnswer(objection=objection, problem=problem, hint=hint)


class ContractDesk:
    """Serves the clients of one domain, a bounded number at a time."""

    def __init__(self, federation: Federation, domain: str, keys: str, audit: AuditLog | None = None) -> None:
        """`federation` is what the site's file says; `keys` the folder of the domain, empty without."""
        self._federation = federation
        self._domain = domain
        self._keys = keys
        self._audit = audit or AuditLog()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: list[asyncio.Task[None]] = []
        """Short answers to those for whom there was no room."""

    def heard(self, connection: Client, data: bytes, user: str, reply: str) -> None:
        """A client asks; `user` is how the broker knows it, empty where nobody logs in."""
        self._ended = [task for task in self._ended if not task.done()]
        crowded = len(self._tasks) >= MAX_AT_ONCE
        if crowded and len(self._ended) >= MAX_AT_ONCE:
            return  # who asks so often gets no answer at all
        answering = self._serve(connection, data, user, reply)
        if crowded:
            answering.close()
            answering = self._say(connection, reply, CROWDED)
        task = asyncio.get_running_loop().create_task(answering, name="contracts")
        if crowded:
            self._ended.append(task)
            return
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Tell who waits that somebody else must be asked."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._ended, return_exceptions=True)

    async def _serve(self, connection: Client, data: bytes, user: str, reply: str) -> None:
        try:
            answer = await self._answer(connection, data, user)
        except _ObjectionError as error:
            answer = error.answer
        except asyncio.CancelledError:
            answer = ENDING
        await self._say(connection, reply, answer)

    async def _say(self, connection: Client, reply: str, answer: ContractsAnswer) -> None:
        with contextlib.suppress(nats.errors.Error, OSError):
            await connection.publish(reply, msgspec.json.encode(answer))

    async def _answer(self, connection: Client, data: bytes, user: str) -> ContractsAnswer:
        try:
            if len(data) > MAX_REQUEST_BYTES:
                raise ValueError(f"it has {len(data):,} bytes, and may have {MAX_REQUEST_BYTES:,}")
            asked = _request.decode(data)
        except (ValueError, *UNREADABLE) as error:
            raise _ObjectionError(Objection.INVALID, f"the request cannot be read: {error}") from None
        if asked.change:
            return await self._became(connection, asked)
        document = standing_of(await self._versions(connection, VersionsRequest())).document
        if not asked.match:
            from mangrove.config.contract_text import terms_of

            return ContractsAnswer(
                version=document.version, contracts=tuple(map(terms_of, document.topics.contracts))
            )
        client = await asyncio.to_thread(self._principal, user)
        there = in_force(self._federation, document)
        if not may_change(there.access, client, asked.match):
            self._audit.note(AuditKind.CONTRACT_REFUSED, client=client.client or "?", contract=asked.match)
            raise _ObjectionError(
                Objection.NOT_ALLOWED,
                f"{client.client or 'a client'} of {self._domain} may not change the contract of "
                f"{asked.match}",
                "access.contracts of the federation file says who may",
            )
        known = any(each.match == asked.remove for each in document.topics.contracts)
        if asked.remove and asked.again and not known:
            return ContractsAnswer(version=document.version)
        contracts = await asyncio.to_thread(_changed, there, document, asked)
        return await self._propose(connection, document, contracts, asked, client)

    def _principal(self, user: str) -> Principal:
        """Who asks, with the role of its identity; read from the keys as they are now."""
        if not (user and self._keys):
            return Principal(domain=self._domain, client="")
        from mangrove.host.keys.ring import KeyRing

        try:
            users = KeyRing.read(self._keys).users()
        except InputError as error:
            raise _ObjectionError(Objection.UNAVAILABLE, error.message, error.hint) from None
        found = next((each for each in users if each.client and each.name == user), None)
        if found is None:
            raise _ObjectionError(Objection.NOT_ALLOWED, f"{user} is no client of {self._domain}")
        return Principal(domain=self._domain, client=found.client_name, role=found.role)

    async def _propose(
        self,
        connection: Client,
        document: FederationDocument,
        contracts: tuple[Contract, ...],
        asked: ContractsRequest,
        client: Principal,
    ) -> ContractsAnswer:
        by = f"{client.client or 'a client'} of {self._domain}"
        try:
            after = successor(document, contracts, by=by, at=time_of_day(), note=asked.note[:500])
        except InputError as error:
            raise _ObjectionError(Objection.REFUSED, error.message, error.hint) from None
        if not difference(document, after):
            return ContractsAnswer(version=document.version)
        if problem := document_problem(after, document):
            raise _ObjectionError(Objection.REFUSED, f"this cannot be put in force: {problem}")
        text = after.text()
        signature = b""
        if self._keys:
            signature = await self._signature(connection, text, asked.match, client)
        written = WrittenDocument(text=text, signature=signature)
        found = await self._versions(connection, VersionsRequest(propose=written))
        if found.problem:
            raise _ObjectionError(Objection.REFUSED, found.problem, found.hint)
        what = "; ".join(difference(document, after).sentences())
        who = client.client or "?"
        self._audit.note(AuditKind.CONTRACT_ASKED, client=who, version=after.version, what=what)
        now = standing_of(found)
        state = (found.change or change_found(now, after.version, after.digest)).state
        return ContractsAnswer(
            version=after.version, digest=after.digest, state=state, versions=now.versions, away=now.away
        )

    async def _signature(self, connection: Client, text: bytes, match: str, client: Principal) -> bytes:
        """The authority's, from whoever holds its key."""
        request = SigningRequest(text=text, match=match, client=client)
        try:
            answer = await self._ask(
                connection, signer_subject(self._domain), request, SigningAnswer, SIGNER_S
            )
        except (nats.errors.Error, TimeoutError):
            raise _ObjectionError(Objection.UNSIGNED, NO_SIGNER, NO_SIGNER_HINT) from None
        if answer.problem:
            raise _ObjectionError(Objection.NOT_ALLOWED, f"it is not signed: {answer.problem}")
        return answer.signature

    async def _became(self, connection: Client, asked: ContractsRequest) -> ContractsAnswer:
        found = await self._versions(connection, VersionsRequest(change=asked.change))
        now = standing_of(found)
        change = found.change or change_found(now, asked.version, asked.change)
        return ContractsAnswer(
            version=asked.version,
            digest=asked.change,
            state=change.state,
            versions=now.versions,
            away=now.away,
            problem=change.detail,
        )

    async def _versions(self, connection: Client, request: VersionsRequest) -> VersionsAnswer:
        where = gateway_versions_subject(self._domain)
        try:
            answer = await self._ask(connection, where, request, VersionsAnswer, GATEWAY_S)
        except (nats.errors.Error, TimeoutError):
            raise _ObjectionError(
                Objection.UNAVAILABLE, f"the gateway of {self._domain} does not answer", "try again later"
            ) from None
        if not answer.document and not answer.problem:
            raise _ObjectionError(Objection.UNAVAILABLE, f"the gateway of {self._domain} says nothing")
        return answer

    async def _ask(
        self, connection: Client, subject: str, request: msgspec.Struct, kind: type[T], timeout_s: float
    ) -> T:
        reply = await connection.request(subject, msgspec.json.encode(request), timeout=timeout_s)
        try:
            return msgspec.json.decode(reply.data, type=kind)
        except UNREADABLE as error:
            raise _ObjectionError(Objection.UNAVAILABLE, f"an answer cannot be read: {error}") from None


def _changed(
    there: Federation, document: FederationDocument, asked: ContractsRequest
) -> tuple[Contract, ...]:
    """The contracts with one set or withdrawn, checked as those of a file are."""
    from mangrove.config.contract_text import checked_contracts, contracts_without

    before = document.topics.contracts
    try:
        if asked.set is not None:
            return checked_contracts(there, before, asked.set)
        return contracts_without(before, asked.remove)
    except InputError as error:
        raise _ObjectionError(Objection.INVALID, error.message, error.hint) from None
