"""A secured ring under traffic, one domain of which is the attacker's, and what must hold whatever he does.

Traffic goes between `a` and `c`, by `b` or by `d`. The domain `m` is linked to `a` and to `c` by slow links;
its gateway is stopped, so that tests can speak in its place, with its keys.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from tests.kit.running import Running
from tests.kit.steady_stream import SteadyStream
from tests.kit.waiting import eventually

from mangrove.host.audit.reading import read_chain
from mangrove.host.keys.certificates import Authority
from mangrove.host.keys.directory import DomainKeys, KeyDirectory
from mangrove.host.keys.files.key_files import read_authority
from mangrove.host.keys.ring import KeyRing
from mangrove.model.address import Address
from mangrove.model.audit.entry import AuditEntry, AuditKind
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
AFTERMATH_S = 0.2
ATTEMPTS = 3
"""A gap that a busy machine makes is not there again; one that the attack makes is."""

Attack = Callable[[], Awaitable[None]]


class Battlefield:
    """The running federation, its traffic, and its keys."""

    def __init__(self, launched: LocalFederation, stream: SteadyStream) -> None:
        self.launched = launched
        self.running = Running(launched)
        self.stream = stream
        assert launched.keys is not None
        self.keys = KeyDirectory(launched.keys)

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
        spans = []
        for _ in range(ATTEMPTS):
            await self.stream.span()
            await attack()
            await asyncio.sleep(AFTERMATH_S)  # what it does may come after it, and some traffic always must
            span = await self.stream.span()
            assert (span.lost, span.doubled) == (0, 0), span
            assert span.sent > 0
            spans.append(span.longest_gap_ms)
            if span.longest_gap_ms < GAP_MS:
                return
        raise AssertionError(f"gaps of {', '.join(f'{gap:.0f} ms' for gap in spans)}")

    async def refuses(self, at: str, kind: AuditKind, *words: str, attack: Attack) -> AuditEntry:
        """The same; the attempt is counted by a gateway, and in its audit log with these words."""
        before = counted(await self.running.gateway(at), kind)
        await self.withstands(attack)

        async def was_counted() -> bool:
            return counted(await self.running.gateway(at), kind) > before

        await eventually(was_counted, f"{at} should count an attempt", timeout_s=10)
        return await self.written(f"{at}-gateway", kind, *words)

    async def written(self, process: str, kind: AuditKind, *words: str) -> AuditEntry:
        """The entry of a kind with these words that a process has written, or will have in a moment."""
        found: list[AuditEntry] = []

        async def is_there() -> bool:
            entries = read_chain(self.launched.run, process)
            found[:] = [
                each
                for each in entries
                if each.kind is kind and all(word in str(each.facts) for word in words)
            ]
            return bool(found)

        await eventually(is_there, f"{process} should write {kind.value} {words}", timeout_s=10)
        return found[-1]


def counted(status: GatewayStatus, kind: AuditKind) -> int:
    """How often a gateway has counted something of a kind, wherever it counts it."""
    ignored = sum(status.ignored.values()) if kind is AuditKind.MESSAGE_REFUSED else 0
    return status.audit.counts.get(kind.value, 0) + ignored
