"""The signer signs one contract, for a client of the asking domain that is granted it, and nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mangrove.agent.signing import Signer
from mangrove.agent.versioning import Standing
from mangrove.config import parse_federation
from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.keys.approval import approval_problem
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.files.key_files import read_authority
from mangrove.host.keys.making import issue_client, make_keys
from mangrove.model.access.rules import Principal
from mangrove.model.endpoints import Runtime, lay_out
from mangrove.model.federation import Limits
from mangrove.model.questions.contracts_question import SigningAnswer, SigningRequest
from mangrove.model.topics import Contract
from mangrove.model.versions.document import FederationDocument, first_document
from mangrove.model.versions.succession import successor

FILE = """
federation: f
domains: {a: {}, b: {base_port: 9000}}
links: [{between: [a, b]}]
topics: [{match: "old.>"}]
access:
  contracts: [{who: {client: planner}, subjects: ["plan.>", "old.>"]}]
"""
PLAN, OLD = Contract(match="plan.>", deadline_ms=50.0), Contract(match="old.>")
PLANNER = Principal(domain="a", client="planner")


class Desk:
    """A signer, and the version that is in force as far as it can see."""

    def __init__(self, directory: Path) -> None:
        federation = parse_federation(FILE, "file").require()
        make_keys(federation, directory)
        issue_client(directory, "a", "planner")
        issue_client(directory, "a", "other")
        self.directory = KeyDirectory(directory)
        self.first = first_document(federation)
        domains = {
            name: msgspec.structs.replace(
                lay_out(domain, lambda offset: 4000 + offset), keys=str(self.directory.domain(name).path)
            )
            for name, domain in federation.domains.items()
        }
        runtime = Runtime(federation=federation, domains=domains, pid=1, keys=str(directory))

        async def in_force(_: Runtime) -> Standing:
            return Standing(domain="a", document=self.first, versions={"a": 1, "b": 1}, away=())

        self.signer = Signer(runtime, str(directory), AuditLog(), in_force=in_force)

    async def asked(
        self, after: FederationDocument, match: str, client: Principal = PLANNER, domain: str = "a"
    ) -> SigningAnswer:
        request = SigningRequest(text=after.text(), match=match, client=client)
        return await self.signer.answer(domain, msgspec.json.encode(request))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "keys")


async def test_what_is_granted_is_signed(desk: Desk) -> None:
    for contracts, match in (((PLAN, OLD), "plan.>"), ((), "old.>")):
        after = successor(desk.first, contracts, by="", at="")
        answer = await desk.asked(after, match)
        assert answer.problem == ""
        authority = read_authority(desk.directory).certificate
        assert approval_problem(after.text(), answer.signature, [authority]) == ""


async def test_nothing_else_is_signed(desk: Desk) -> None:
    good = successor(desk.first, (PLAN, OLD), by="", at="")
    more = successor(desk.first, (PLAN, Contract(match="old.>", paths=2)), by="", at="")
    limits = successor(desk.first, (PLAN, OLD), by="", at="", settings={"limits": Limits(subjects=5)})
    later = successor(good, (OLD,), by="", at="")
    foreign = successor(desk.first, (Contract(match="any.>"), OLD), by="", at="")
    for after, match, client, domain, problem in (
        (more, "plan.>", PLANNER, "a", "it changes the contracts of old.>"),
        (limits, "plan.>", PLANNER, "a", "it changes limits"),
        (later, "plan.>", PLANNER, "a", "does not follow"),
        (foreign, "any.>", PLANNER, "a", "may not change the contract of any.>"),
        (good, "plan.>", Principal(domain="a", client="other"), "a", "may not change"),
        (good, "plan.>", Principal(domain="a", client="ghost"), "a", "no such client"),
        (good, "plan.>", PLANNER, "b", "no such client of b"),
        (good, "plan.>", Principal(domain="a", client="planner", role="operator"), "a", "no such client"),
    ):
        answer = await desk.asked(after, match, client, domain)
        assert problem in answer.problem
        assert answer.signature == b""


async def test_what_cannot_be_read_is_not_signed(desk: Desk) -> None:
    answer = await desk.signer.answer("a", b"{}")
    assert "cannot be read" in answer.problem
    good = successor(desk.first, (PLAN, OLD), by="", at="")
    broken = SigningRequest(text=good.text()[:-3], match="plan.>", client=PLANNER)
    assert "cannot be read" in (await desk.signer.answer("a", msgspec.json.encode(broken))).problem
