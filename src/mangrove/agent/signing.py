"""Signs what clients ask for, where the authority's key is: the one process that holds it while it runs.

It believes an agent that a client of the agent's own domain asks, and nothing else: the version must follow
the one in force, change that one contract, and the client must have the right by the rules and the users
that are known here. So who has taken a domain over can do what its own clients may, and no more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
from nats.aio.msg import Msg

from mangrove.agent.management import ManagementConnection
from mangrove.agent.versioning import Standing, standing
from mangrove.errors import MangroveError
from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.versions.writing import written
from mangrove.model.access.contract_rights import may_change
from mangrove.model.audit.entry import AuditKind, Fact
from mangrove.model.endpoints import Runtime
from mangrove.model.questions.contracts_question import SigningAnswer, SigningRequest, signer_subject
from mangrove.model.security.users import User
from mangrove.model.unreadable import UNREADABLE
from mangrove.model.versions.checking import document_problem
from mangrove.model.versions.document import FederationDocument, WrittenDocument, in_force
from mangrove.model.versions.single_change import other_changes

log = logging.getLogger(__name__)

RETRY_S = 1.0
Told = Callable[[str], None]
InForce = Callable[[Runtime], Awaitable[Standing]]


class Signer:
    """Serves all domains whose management brokers can be reached from here."""

    def __init__(
        self,
        runtime: Runtime,
        keys: str,
        audit: AuditLog,
        told: Told = lambda line: None,
        in_force: InForce = standing,
    ) -> None:
        """`keys` is the key directory with the authority; `told` gets a line for each request; `in_force` is
        asked what is."""
        self._in_force = in_force
        self._runtime = runtime
        self._keys = keys
        self._audit = audit
        self._told = told
        self._one_by_one = asyncio.Lock()

    async def run(self) -> None:
        """Sign until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for domain in self._runtime.domains:
                tasks.create_task(self._serve(domain), name=f"sign for {domain}")

    async def _serve(self, domain: str) -> None:
        """Stay at one domain's management broker; one that is away is tried again."""
        async with ManagementConnection(self._runtime.domains[domain]) as management:
            while True:
                if await management.listen(signer_subject(domain), partial(self._asked, domain)):
                    self._told(f"signing for {domain}")
                    await management.gone()
                await asyncio.sleep(RETRY_S)

    async def _asked(self, domain: str, message: Msg) -> None:
        async with self._one_by_one:
            answer = await self.answer(domain, message.data)
        await message.respond(msgspec.json.encode(answer))

    async def answer(self, domain: str, data: bytes) -> SigningAnswer:
        """Look at what the agent of a domain asks to have signed."""
        facts: dict[str, Fact] = {"domain": domain}
        try:
            asked = msgspec.json.decode(data, type=SigningRequest)
            facts |= {"client": asked.client.client, "contract": asked.match}
            after = WrittenDocument(text=asked.text).read()
            facts["version"] = after.version
            problem = await self._problem(domain, asked, after)
            signature = b"" if problem else written(after, self._keys).signature
        except (ValueError, *UNREADABLE) as error:
            problem, signature = f"the request cannot be read: {error}", b""
        except MangroveError as error:
            problem, signature = error.message, b""
        if problem:
            facts["refused"] = problem
        self._audit.note(AuditKind.DOCUMENT_SIGNED, **facts)
        self._told(", ".join(f"{key} {value}" for key, value in facts.items()))
        return SigningAnswer(signature=signature, problem=problem)

    async def _problem(self, domain: str, asked: SigningRequest, after: FederationDocument) -> str:
        """Why a version is not signed; empty if it is."""
        before = (await self._in_force(self._runtime)).document
        if problem := document_problem(after, before):
            return problem
        if problem := other_changes(before, after, asked.match):
            return problem
        user = await asyncio.to_thread(self._user, domain, asked.client.client)
        if user is None or asked.client.domain != domain or asked.client.role != user.role:
            return f"{asked.client.client} is no such client of {domain}"
        access = in_force(self._runtime.federation, before).access
        if not may_change(access, asked.client, asked.match):
            return f"{asked.client.client} of {domain} may not change the contract of {asked.match}"
        return ""

    def _user(self, domain: str, client: str) -> User | None:
        from mangrove.host.keys.ring import KeyRing

        users = KeyRing.read(self._runtime.domains[domain].keys).users()
        return next((each for each in users if each.client and each.client_name == client), None)
