"""A secured ring under traffic, one domain of which is the attacker's, and what must hold whatever he does.

Traffic goes between `a` and `c`, by `b` or by `d`. The domain `m` is linked to `a` and to `c` by slow links;
its gateway is stopped, so that tests can speak in its place, with its keys.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tests.kit.running import Running
from tests.kit.steady_stream import SteadyStream
from tests.kit.waiting import eventually

from mangrove.host.audit.reading import processes_in, read_chain
from mangrove.host.keys.certificates import Authority
from mangrove.host.keys.directory import DomainKeys, KeyDirectory
from mangrove.host.keys.files.key_files import read_authority
from mangrove.host.keys.ring import KeyRing
from mangrove.model.address import Address
from mangrove.model.audit.entry import AuditEntry, AuditKind
from mangrove.model.audit.gathering import WINDOW_S
from mangrove.model.status import GatewayStatus
from mangrove.overlay.protocol.control_messages import Hello
from mangrove.overlay.protocol.greeting import make_hello
from mangrove.testbed.local_federation import LocalFederation

NAME = "battle"
FIELD = f"""
federation: {NAME}
domains:
  a: {{edges: 1}}
  b: {{edges: 0}}
  c: {{edges: 0}}
  d: {{edges: 0}}
  m: {{edges: 0}}
links:
  - {{between: [a, b], delay_ms: 2}}
  - {{between: [b, c], delay_ms: 2}}
  - {{between: [c, d], delay_ms: 2}}
  - {{between: [a, d], delay_ms: 2}}
  - {{between: [a, m], delay_ms: 40}}
  - {{between: [c, m], delay_ms: 40}}
topics:
  - {{match: "alert.>", deadline_ms: 200, paths: 2}}
"""
HONEST = ("a", "c")
GAP_MS = 250.0
"""By a clock that stands still while the machine lets nobody run who carries messages."""
AFTERMATH_S = 0.2

Attack = Callable[[], Awaitable[None]]


class _Owed(NamedTuple):
    """What a process has counted, and writes when a while has passed or it ends."""

    process: str
    kind: AuditKind
    words: tuple[str, ...]
    times: int
    """What was in the log before."""


class Battlefield:
    """The running federation, its traffic, and its keys."""

    def __init__(self, launched: LocalFederation, stream: SteadyStream) -> None:
        self.launched = launched
        self.running = Running(launched)
        self.stream = stream
        assert launched.keys is not None
        self.keys = KeyDirectory(launched.keys)
        self._written: dict[str, int] = {}
        """The last entry of each audit log before the present attack."""
        self._owed: list[_Owed] = []

    # -- what attackers have ------------------------------------------------------------------------------

    def gateway_of(self, domain: str) -> Address:
        """Where a gateway listens."""
        return self.launched.endpoints[domain].gateways[0]

    def keys_of(self, domain: str) -> DomainKeys:
        """The folder with the keys of a domain, for who has taken it over."""
        return self.keys.domain(domain)

    def ring_of(self, domain: str) -> KeyRing:
        """The same, as its gateway reads them."""
        return KeyRing.read(self.keys_of(domain).path)

    def authority(self) -> Authority:
        """What issues; nobody who attacks has it, but tests make with it what he once had."""
        return read_authority(self.keys)

    def hello(self, domain: str, later_s: float = 0.0) -> Hello:
        """A greeting in the name of a domain, by a gateway that says it has started this much later."""
        epoch = time.time_ns() + int(later_s * 1e9)
        return make_hello(self.launched.federation, domain, epoch)

    # -- what must hold -----------------------------------------------------------------------------------

    async def withstands(self, attack: Attack) -> None:
        """Honest domains lose nothing, get nothing twice, and see no gap, while somebody attacks."""
        await self.stream.span()
        self._mark()
        await attack()
        await asyncio.sleep(AFTERMATH_S)  # what it does may come after it, and some traffic always must
        span = await self.stream.span()
        assert (span.lost, span.doubled) == (0, 0), span
        assert span.sent > 0
        assert span.longest_gap_ms < GAP_MS, span

    def _mark(self) -> None:
        """An attack begins: what was written before does not count."""
        logs = {
            process: read_chain(self.launched.run, process) for process in processes_in(self.launched.run)
        }
        self._written = {process: entries[-1].number for process, entries in logs.items() if entries}

    async def refuses(self, at: str, kind: AuditKind, *words: str, attack: Attack) -> AuditEntry:
        """The same; the attempt is counted by a gateway, and in its audit log with these words."""
        before = counted(await self.running.gateway(at), kind)
        await self.withstands(attack)

        async def was_counted() -> bool:
            return counted(await self.running.gateway(at), kind) > before

        await eventually(was_counted, f"{at} should count an attempt", timeout_s=10)
        return await self.written(f"{at}-gateway", kind, *words)

    async def written(self, process: str, kind: AuditKind, *words: str) -> AuditEntry:
        """The entry of a kind with these words that a process writes because of the present attack.

        What it has written with the same facts a moment ago it does not write again at once, but counts: in
        that case it is the earlier entry, and the count must be in the log when the process has ended.
        """
        since = self._written.get(process, 0)
        found: list[AuditEntry] = []

        async def is_there() -> bool:
            found[:] = self._entries(process, kind, words)
            return any(each.number > since for each in found) or any(
                time.time() - each.at < WINDOW_S for each in found if each.times == 1 or each.since is None
            )

        await eventually(is_there, f"{process} should write {kind.value} {words}", timeout_s=10)
        if found[-1].number <= since:
            self._owed.append(_Owed(process, kind, words, sum(each.times for each in found)))
        return found[-1]

    def _entries(self, process: str, kind: AuditKind, words: tuple[str, ...]) -> list[AuditEntry]:
        entries = read_chain(self.launched.run, process)
        return [
            each for each in entries if each.kind is kind and all(word in str(each.facts) for word in words)
        ]

    def settle(self) -> None:
        """All processes have ended: whatever was only counted has been written."""
        for owed in self._owed:
            times = sum(each.times for each in self._entries(owed.process, owed.kind, owed.words))
            alike = [each for each in self._owed if each[:3] == owed[:3]]
            expected = min(each.times for each in alike) + len(alike)
            assert times >= expected, f"{owed}: {times} of {expected} are in the log"


def counted(status: GatewayStatus, kind: AuditKind) -> int:
    """How often a gateway has counted something of a kind, wherever it counts it."""
    ignored = sum(status.ignored.values()) if kind is AuditKind.MESSAGE_REFUSED else 0
    return status.audit.counts.get(kind.value, 0) + ignored
