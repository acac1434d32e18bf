"""Queue groups under virtual time: the overlay's network, with messages in their real form.

To the plain network bodies are opaque. Here members of groups come and go, messages name the groups that are
to be served, and each domain does with them what a gateway does.
"""

from __future__ import annotations

from collections import Counter

from mangrove.model.federation import Federation
from mangrove.overlay.forwarding.flows import HOP_LIMIT
from mangrove.overlay.forwarding.retargeting import retarget_body
from mangrove.overlay.instructions import Instruction, RetargetMessages
from mangrove.overlay.protocol.bodies import CRLF, Entry, Message, parse_message_line, scan
from mangrove.overlay.stimuli.recorded_engine import Record
from mangrove.simulation.forging.keys import SimulatedAuthority
from mangrove.simulation.overlay_network import SimulatedOverlay


class SimulatedJobs(SimulatedOverlay):
    """Gateways, links and members of queue groups."""

    def __init__(
        self,
        federation: Federation,
        seed: int,
        *,
        record: dict[str, Record] | None = None,
        authority: SimulatedAuthority | None = None,
    ) -> None:
        super().__init__(federation, seed, record=record, authority=authority)
        self.served: Counter[tuple[str, str, bytes]] = Counter()
        """By domain, group (empty for plain subscribers) and payload."""
        self.sent_on = 0
        self.lost: Counter[str] = Counter()
        """Messages by subject of which a group has no member left."""

    def join(self, name: str, subject: str, group: str) -> None:
        """A member of a group comes."""
        self._change(name, subject, group, True)

    def leave(self, name: str, subject: str, group: str) -> None:
        """The last member of a group goes."""
        self._change(name, subject, group, False)

    def _change(self, name: str, subject: str, group: str, wanted: bool) -> None:
        engine = self.engines[name]
        engine.change_local_interest(subject, group, wanted)
        self._carry_out(name, engine.flush(self.now))

    def send_job(self, name: str, subject: str, payload: bytes) -> None:
        """A message is published; members in its own domain are served there, as a broker does."""
        engine = self.engines[name]
        for group in engine.queue_groups(subject):
            self.served[name, group, payload] += 1
        for route in engine.route(subject):
            route.flow.take(_message(subject, payload, route.groups))
        self._carry_out(name, engine.flush(self.now))

    def _carry_out(self, name: str, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, RetargetMessages):
                frame = instruction.frame
                if not self._retarget(name, frame.body, frame.destinations, frame.hop_limit):
                    self._carry_out(name, self.engines[name].wait(frame, self.now))
            else:
                super()._carry_out(name, [instruction])

    def _retarget(self, name: str, body: bytes, away: int, hop_limit: int) -> bool:
        engine = self.engines[name]
        home = _Home(self, name)
        outcome = retarget_body(body, away, hop_limit, engine, home)
        if outcome.stays:
            return False
        self.sent_on += outcome.sent_on
        self.lost += outcome.lost
        self._carry_out(name, engine.flush(self.now))
        return True

    def _deliver(self, name: str, body: bytes) -> None:
        """Serve the groups that are named and have members; the others are served elsewhere."""
        missing: list[bytes] = []

        def resolve(line: bytes) -> Entry:
            return Entry(parse_message_line(line).skip, _Served(self, name, missing))

        scan(body, {}, resolve)
        if missing:
            self._retarget(name, b"".join(missing), self.engines[name].own_bit, HOP_LIMIT // 2)


class _Home:
    def __init__(self, net: SimulatedJobs, name: str) -> None:
        self._net = net
        self._name = name

    def take(self, messages: bytes) -> None:
        self._net._deliver(self._name, messages)


class _Served:
    """Takes one message: each of them has an entry of its own."""

    def __init__(self, net: SimulatedJobs, name: str, missing: list[bytes]) -> None:
        self._net = net
        self._name = name
        self._missing = missing

    def take(self, messages: bytes) -> None:
        line, _, rest = messages.partition(CRLF)
        message = parse_message_line(line)
        payload = rest[: message.size_bytes]
        here = self._net.engines[self._name].queue_groups(message.subject)
        for group in message.groups:
            if group in here:
                self._net.served[self._name, group, payload] += 1
        gone = tuple(group for group in message.groups if group not in here)
        if gone:
            self._missing.append(_message(message.subject, payload, gone))
        if not message.groups:
            self._net.served[self._name, "", payload] += 1


def _message(subject: str, payload: bytes, groups: tuple[str, ...]) -> bytes:
    line = Message(subject, "", -1, len(payload)).line(subject, "", groups)
    return line + CRLF + payload + CRLF
