"""Asks a running federation for another version of its document, and sees it come into force."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from mangrove.agent.avoidance import NobodyAnswersError
from mangrove.agent.management import ManagementConnection
from mangrove.errors import InputError, MangroveError
from mangrove.model.endpoints import Runtime
from mangrove.model.questions.versions_question import VersionsAnswer, VersionsRequest
from mangrove.model.versions.changes import Change, ChangeState
from mangrove.model.versions.document import FederationDocument, WrittenDocument

POLL_S = 0.05


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What is in force, as the domain with the newest version tells it."""

    domain: str
    document: FederationDocument
    versions: dict[str, int]
    """At each domain, as far as it is known."""
    away: tuple[str, ...]
    """Domains to which no way leads at present."""

    @property
    def behind(self) -> tuple[str, ...]:
        """Domains where an older version is in force."""
        newest = self.document.version
        return tuple(name for name, version in sorted(self.versions.items()) if version < newest)


Progress = Callable[[Change, Standing], None]


class UndecidedError(MangroveError):
    """A change is neither in force nor refused yet."""

    def __init__(self, version: int) -> None:
        super().__init__(
            f"it is open whether version {version} comes into force: more than half of the domains must "
            "answer",
            hint="it completes by itself when they do; see: mangrove history",
        )


async def standing(runtime: Runtime) -> Standing:
    """What is in force; NobodyAnswersError if no gateway answers."""

    async def ask(name: str) -> VersionsAnswer | None:
        async with ManagementConnection(runtime.domains[name]) as management:
            return await management.versions(VersionsRequest())

    answers = await asyncio.gather(*map(ask, runtime.domains))
    found = [standing_of(answer) for answer in answers if answer is not None and answer.document]
    if not found:
        raise NobodyAnswersError(runtime.federation.name)
    return max(found, key=lambda each: (each.document.version, len(each.versions) - len(each.away)))


async def put_in_force(
    runtime: Runtime,
    domain: str,
    written: WrittenDocument,
    *,
    progress: Progress,
    timeout_s: float,
) -> Standing:
    """Have a domain propose a version, and wait until it is in force everywhere that can be reached.

    InputError if it was refused: then nothing has changed. UndecidedError if it is open after the time.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + timeout_s
    version = written.read().version
    async with ManagementConnection(runtime.domains[domain]) as management:
        answer = await management.versions(VersionsRequest(propose=written))
        while True:
            if answer is not None and answer.problem:
                raise InputError(answer.problem, hint=answer.hint)
            if answer is not None:
                now = standing_of(answer)
                change = answer.change or change_found(now, version, written.digest)
                progress(change, now)
                if change.state is ChangeState.REFUSED:
                    raise InputError(f"version {version} is not put in force: {change.detail}")
                arrived = all(now.versions[name] >= version or name in now.away for name in now.versions)
                if change.state is ChangeState.IN_FORCE and (arrived or clock() >= deadline):
                    return now
            if clock() >= deadline:
                raise UndecidedError(version)
            await asyncio.sleep(POLL_S)
            answer = await management.versions(VersionsRequest(change=written.digest))


async def written_in_force(runtime: Runtime, member: str = "") -> WrittenDocument:
    """The newest document in force, as it is handed on; of those in which a domain is a `member`."""
    found: list[WrittenDocument] = []
    for endpoints in runtime.domains.values():
        async with ManagementConnection(endpoints) as management:
            answer = await management.versions(VersionsRequest())
        if answer is not None and answer.document:
            found.append(WrittenDocument(text=answer.document, signature=answer.signature))
    if not found:
        raise NobodyAnswersError(runtime.federation.name)
    newest = max(found, key=lambda each: each.read().version)
    if member and member not in newest.read().members:
        raise InputError(f"{member} is no member by version {newest.read().version}")
    return newest


async def text_of(runtime: Runtime, version: int) -> FederationDocument | None:
    """A version that was in force, if some gateway still keeps it."""
    for endpoints in runtime.domains.values():
        async with ManagementConnection(endpoints) as management:
            answer = await management.versions(VersionsRequest(text_of=version))
        for text in () if answer is None else (answer.text, answer.document):
            document = WrittenDocument(text=text).read() if text else None
            if document is not None and document.version == version:
                return document
    return None


def time_of_day() -> str:
    """Now, as documents tell it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def standing_of(answer: VersionsAnswer) -> Standing:
    """What a gateway answers, read."""
    reachable = {answer.domain, *answer.reachable}
    return Standing(
        domain=answer.domain,
        document=WrittenDocument(text=answer.document).read(),
        versions=answer.versions,
        away=tuple(sorted(name for name in answer.versions if name not in reachable)),
    )


def change_found(now: Standing, version: int, digest: str) -> Change:
    """What became of a change that the gateway does not remember: it has started again meanwhile."""
    known = {now.document.digest, *(past.digest for past in now.document.past)}
    if digest in known:
        return Change(digest=digest, state=ChangeState.IN_FORCE)
    if now.document.version >= version:
        detail = f"another change was in force first: version {now.document.version}"
        return Change(digest=digest, state=ChangeState.REFUSED, detail=detail)
    return Change(digest=digest, state=ChangeState.DECIDING)
