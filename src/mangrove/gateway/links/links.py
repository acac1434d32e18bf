"""All links of a gateway.

For each link one side calls (the one whose name sorts first) and the other listens. A link that breaks is
called again with growing pauses; frames wait meanwhile in a bounded queue. A peer that sends garbage, belongs
to another federation or speaks another protocol version loses its connection, with the reason in the log.

Where a domain has two gateways, both are called. The one that stands by says nothing, and holds the
connection until it takes over: its HELLO is then all that its neighbours need to know.

With keys, every link is TLS 1.3 with certificates on both sides. Both are looked at all the time: other keys
of this gateway are taken over and its links renewed one after the other, and a link whose peer's certificate
was revoked or has expired is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import TYPE_CHECKING

from mangrove.gateway.links.calling import Caller
from mangrove.gateway.links.connection import EarlierGatewayError, LinkConnection
from mangrove.gateway.links.end import LinkEnd
from mangrove.gateway.pair.pair import Pair
from mangrove.gateway.trust.admission import Admission
from mangrove.gateway.trust.keys_in_force import KeysInForce
from mangrove.gateway.trust.refusals import Refusal, Refusals, RefusedError
from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.tls_channel import RECORD_BYTES
from mangrove.model.address import Address
from mangrove.model.audit.entry import AuditKind
from mangrove.model.gateway_settings import Call
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import Instruction
from mangrove.overlay.protocol.control_messages import Renewal, RenewalStep, control_frame
from mangrove.overlay.protocol.frames import Frame, FrameType

if TYPE_CHECKING:
    from mangrove.gateway.tracing.hop_spans import HopSpans

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
GOODBYE_S = 0.5
"""For the last words to all neighbours: whoever stops this process waits little longer."""
RENEW_ONE_EVERY_S = 0.2
"""Other keys: links are renewed one after the other."""
MAX_RECORDS = 1 << 24
"""Under one key of AES-GCM, as TLS 1.3 has it (RFC 8446 §5.5); then the connection is renewed."""
RECORD_S = 0.002
MIN_RECORD_BYTES = 1024
"""On a slow line a record takes about so long, or has so few bytes: nothing of it is read before its end."""
MAX_UNGREETED_OF_DOMAIN = 8


class Links:
    """All links of a gateway. `run` is a task for as long as they are served."""

    def __init__(
        self,
        engine: OverlayEngine,
        peers: tuple[str, ...],
        *,
        carry_out: Callable[[list[Instruction]], None],
        attached: Callable[[], None],
        pair: Pair | None = None,
        keys: KeysInForce | None = None,
        keys_changed: Callable[[], None] = lambda: None,
        audit: AuditLog | None = None,
        hops: HopSpans | None = None,
    ) -> None:
        """The `pair` hears of later gateways of the own domain, and of all words about interest.

        Without `keys` nobody proves who he is. Others are told when other keys are in force.
        With `hops`, sampled messages are traced.
        """
        self._hops = hops
        self.engine = engine
        self.keys = keys
        self.peers = frozenset(peers)
        self.admission: Admission[LinkConnection] = Admission(_addresses_of_neighbours(engine, peers))
        self.refusals = Refusals(audit)
        self._audit = audit or AuditLog()
        self._pair = pair
        self._held: dict[str, LinkConnection] = {}
        """Neighbours that wait for this gateway to take over."""
        self._proven: dict[str, dict[LinkConnection, None]] = {}
        """Connections that have proven whose they are and not greeted, oldest first."""
        self._attached = attached
        self._keys_changed = keys_changed
        self._carry_out = carry_out
        self._pull = engine.pull if hops is None else hops.watching(engine.pull)
        self._links = {peer: LinkEnd(peer, self._pull) for peer in peers}
        self._connections: set[LinkConnection] = set()
        self._callers: list[Caller] = []
        self._renewing: list[asyncio.TimerHandle] = []

    def adopt(self, peers: Iterable[str]) -> None:
        """These are the neighbours from now on; connections of others last until they are closed."""
        self.peers = frozenset(peers)
        self.admission.adopt(_addresses_of_neighbours(self.engine, self.peers))
        for peer in self.peers - self._links.keys():
            self._links[peer] = LinkEnd(peer, self._pull)
        for peer in [peer for peer in self._links if peer not in self.peers]:
            self._forget_if_gone(peer)

    def _forget_if_gone(self, peer: str) -> None:
        """A former neighbour is forgotten with its connection."""
        if peer not in self.peers and peer in self._links and self._links[peer].connection is None:
            del self._links[peer]

    def __getitem__(self, peer: str) -> LinkEnd:
        return self._links[peer]

    def __contains__(self, peer: str) -> bool:
        return peer in self._links

    def __iter__(self) -> Iterator[LinkEnd]:
        return iter(self._links.values())

    # -- sockets ------------------------------------------------------------------------------------------

    async def listen(self, addresses: tuple[Address, ...]) -> list[asyncio.Server]:
        """Open the listening sockets."""
        loop = asyncio.get_running_loop()
        servers = []
        for address in addresses:
            server = await loop.create_server(
                lambda: LinkConnection(self, None), address.host, address.port, reuse_address=True
            )
            log.info("listening for neighbours on %s", address)
            servers.append(server)
        return servers

    async def keep_calling(self, call: Call, address: Address) -> None:
        """Keep a connection to a neighbour, or to one of its two gateways, until cancelled."""
        caller = Caller(self, call, address)
        self._callers.append(caller)
        try:
            await caller.run()
        finally:
            self._callers.remove(caller)

    def begin(self) -> None:
        """This gateway has taken over: greet all who have waited for that."""
        self._held.clear()
        for connection in list(self._connections):
            if not connection.serves:
                connection.begin()

    async def close(self) -> None:
        """Say goodbye to all neighbours, and wait until they have it."""
        for renewing in self._renewing:
            renewing.cancel()
        waiting = [connection.closed.wait() for connection in self._connections]
        self.say_goodbye()
        try:
            async with asyncio.timeout(GOODBYE_S):
                await asyncio.gather(*waiting)
        except TimeoutError:
            for connection in list(self._connections):
                connection.abort("the gateway stops")
        self.refusals.flush()

    def say_goodbye(self) -> None:
        """Send what has begun to leave, and take in nothing more."""
        for connection in list(self._connections):
            connection.close("the gateway stops")

    # -- keys ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Tell what was refused, follow the keys, and see that peers are still trusted, again and again."""
        generation = 0 if self.keys is None else self.keys.generation
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.refusals.flush()
            if self.keys is not None:
                if generation != self.keys.generation:
                    generation = self.keys.generation
                    self._keys_changed()
                    self._renew_all()
                self._look_at_peers(self.keys)

    def _look_at_peers(self, keys: KeysInForce) -> None:
        for connection in list(self._connections):
            proof = connection.proof
            reason = "" if proof is None else keys.ring.still_trusted(proof.certificate)
            if proof is not None and reason:
                if connection.serves:
                    self.refusals.note(Refusal.WITHDRAWN, proof.domain, reason)
                connection.refuse(Refusal.WITHDRAWN, f"its certificate is no longer trusted: {reason}")
        for link in self._links.values():
            if link.connection is not None:
                rate = self.engine.link_rate(link.peer)
                link.connection.set_record_bytes(_record_bytes(rate))
                if link.connection.records_out > MAX_RECORDS:
                    self._renew(link.peer)

    def _renew_all(self) -> None:
        loop = asyncio.get_running_loop()
        for renewing in self._renewing:
            renewing.cancel()
        self._renewing = [
            loop.call_later(RENEW_ONE_EVERY_S * number, self._renew_by_keys, peer)
            for number, peer in enumerate(sorted(self._links))
        ]

    def _renew_by_keys(self, peer: str) -> None:
        """Other keys are in force: renew the link, unless its connection was made with them already."""
        if peer not in self._links:
            return
        connection = self._links[peer].connection
        if self.keys is not None and connection is not None and connection.generation != self.keys.generation:
            self._renew(peer)

    def _renew(self, peer: str) -> None:
        """Have another connection take the place of the present one: call it, or ask to be called."""
        if not self.renewal_asked(peer):
            self._links[peer].send(control_frame(Renewal(step=RenewalStep.ASKED)))

    def renewal_asked(self, peer: str) -> bool:
        """Call a neighbour once more; False if it is not this gateway who calls."""
        callers = [caller for caller in self._callers if caller.peer == peer]
        for caller in callers:
            caller.renewal.set()
        return bool(callers)

    # -- called by connections ----------------------------------------------------------------------------

    def entered(self, connection: LinkConnection, *, called: bool) -> None:
        """Count a new connection; strangers cannot pile up."""
        self._connections.add(connection)
        if called:
            return
        displaced = self.admission.enter(connection, connection.address)
        if displaced is not None:
            displaced.refuse(Refusal.TOO_MANY, Refusal.TOO_MANY.value)

    def proven(self, connection: LinkConnection, domain: str) -> None:
        """A connection has proven whose it is; of those that do not go on to greet few are kept."""
        self.admission.leave(connection)
        waiting = self._proven.setdefault(domain, {})
        waiting[connection] = None
        if len(waiting) > MAX_UNGREETED_OF_DOMAIN:
            oldest = next(iter(waiting))
            del waiting[oldest]
            oldest.refuse(Refusal.TOO_MANY, f"too many connections of {domain!r} that have not greeted")

    def _greeted(self, connection: LinkConnection) -> None:
        self.admission.leave(connection)
        for waiting in self._proven.values():
            waiting.pop(connection, None)

    def told_of(self, epoch: int) -> None:
        """A neighbour serves a gateway of this domain that began later."""
        if self._pair is not None:
            self._pair.learned(epoch)

    def hold(self, peer: str, connection: LinkConnection) -> None:
        """A neighbour waits for this gateway, which stands by; one connection of each is kept."""
        earlier = self._held.get(peer)
        self._greeted(connection)
        self._held[peer] = connection
        if earlier is not None and earlier is not connection:
            earlier.close("replaced")

    def attach(self, peer: str, epoch: int, protocol: int, connection: LinkConnection) -> LinkEnd:
        """A greeted connection serves the link from now on; an older one gives way.

        While a gateway that started later is connected, an earlier one of the same domain is refused: there
        must not be two, and both sides' logs say so. With keys, both have proven to be of that domain.
        """
        link = self._links[peer]
        if link.connection is not None and epoch < link.epoch:
            raise EarlierGatewayError(peer, link.epoch)
        self._greeted(connection)
        if link.connection is not None:
            another = " by a gateway that started later" if epoch > link.epoch else ""
            self.drop(peer, f"replaced{another}")
        successor = 0 < link.epoch < epoch and self.engine.federation.domains[peer].gateways > 1
        link.connection, link.epoch = connection, epoch
        link.connects += 1
        link.last_error = ""
        log.info("link to %s is up", peer)
        proven = connection.proof is not None
        self._audit.note(AuditKind.LINK_OPENED, peer=peer, address=connection.address, proven=proven)
        self._carry_out(self.engine.peer_up(peer, monotonic(), successor=successor, protocol=protocol))
        link.resume(monotonic())
        self._attached()
        return link

    def renewable(self, peer: str, epoch: int, by: LinkConnection) -> LinkConnection | None:
        """The connection whose place another of the same gateway can take without the link being lost.

        RefusedError while that is about to take another's place itself: it is asked for later.
        """
        link = self._links[peer]
        present = link.connection
        if present is None or present is by or link.epoch != epoch:
            return None
        if present.proof is None or by.proof is None:
            return None
        if present.in_renewal:
            raise RefusedError(Refusal.BUSY)
        return present

    def renew(self, peer: str, before: LinkConnection, connection: LinkConnection) -> LinkEnd:
        """From now on the link is served by another connection; the engine need not know.

        The one before says its last word; what comes on the other is looked at after the peer's last word.
        """
        link = self._links[peer]
        self._greeted(connection)
        before.say_last()
        link.connection = connection
        link.renewals += 1
        log.info("link to %s is renewed", peer)
        self._audit.note(AuditKind.LINK_RENEWED, peer=peer, address=connection.address)
        link.resume(monotonic())
        return link

    def detach(
        self, connection: LinkConnection, link: LinkEnd | None, who: str, reason: str, refusal: Refusal
    ) -> None:
        """A connection ended."""
        self._greeted(connection)
        self._connections.discard(connection)
        self._held = {peer: held for peer, held in self._held.items() if held is not connection}
        if link is None and connection.silent:
            log.debug("a gateway of %s that has not greeted is called again: %s", who, reason)
        elif link is None:
            self.refusals.note(refusal, who, reason)
            if who in self._links and self._links[who].connection is None:
                self._links[who].last_error = reason
        elif link.connection is connection:
            link.shut()
            link.last_error = reason
            log.warning("link to %s is down: %s", who, reason)
            self._audit.note(AuditKind.LINK_CLOSED, peer=who, reason=reason)
            self._carry_out(self.engine.peer_down(link.peer, monotonic(), reason))
            self._forget_if_gone(link.peer)

    def drop(self, peer: str, reason: str) -> None:
        """Give up the present connection to a neighbour; it is called again. The engine knows of it."""
        link = self._links[peer]
        connection = link.connection
        link.shut()
        link.last_error = reason
        if connection is not None:
            log.warning("link to %s is down: %s", peer, reason)
            self._audit.note(AuditKind.LINK_CLOSED, peer=peer, reason=reason)
            if peer in self.peers:
                connection.abort(reason)
            else:
                connection.close(reason)
        self._forget_if_gone(peer)

    def received(self, peer: str, frames: list[Frame]) -> None:
        """Frames came in from a greeted neighbour. All are taken in before any is acted upon: few writes."""
        now = monotonic()
        instructions: list[Instruction] = []
        if self._hops is not None:
            self._hops.arrived(peer, frames)
        try:
            for frame in frames:
                if self._pair is not None and frame.type is FrameType.INTEREST:
                    self._pair.tell_interest(frame.body)
                instructions += self.engine.receive(peer, frame, now)
        finally:
            self._carry_out(instructions)


def _record_bytes(rate_bytes_s: float | None) -> int:
    if rate_bytes_s is None:
        return RECORD_BYTES
    return int(max(MIN_RECORD_BYTES, min(RECORD_BYTES, RECORD_S * rate_bytes_s)))


def _addresses_of_neighbours(engine: OverlayEngine, peers: Iterable[str]) -> Iterator[str]:
    """Where the federation file says that neighbours are."""
    federation = engine.federation
    for peer in peers:
        for host in federation.domains[peer].all_hosts:
            yield host.address
        for link in federation.links_of(engine.domain):
            endpoint = link.endpoint(peer) if link.other(engine.domain) == peer else None
            if endpoint is not None:
                yield endpoint.host
