"""The links of this gateway: who is alive, what was sent and acknowledged, what the network should know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mangrove.model.events.event_log import EventId
from mangrove.overlay.instructions import ServeLink
from mangrove.overlay.links.liveness import LinkCondition, LinkMonitor, Timing
from mangrove.overlay.links.outgoing import Outgoing, acknowledge_after_bytes
from mangrove.overlay.network.link_state import Pace
from mangrove.overlay.protocol.control_messages import Heartbeat, HeartbeatKind, LinkReport
from mangrove.overlay.protocol.frames import MAX_BODY_BYTES, Frame
from mangrove.overlay.protocol.pieces import Joining


class Neighbour:
    """One neighbour: its link's monitor, and the data frames between us."""

    def __init__(self, name: str, timing: Timing, limit_bytes: int) -> None:
        self.name = name
        self.monitor = LinkMonitor(timing)
        self.outgoing = Outgoing(limit_bytes)
        self.joining = Joining(limit_bytes + MAX_BODY_BYTES)
        self.serve = ServeLink(name)
        self._acknowledge_after_bytes = acknowledge_after_bytes(limit_bytes)
        self.changed_by: EventId = ""
        """The event that made the link usable or not, for the link state."""
        self.closes_at: float | None = None
        """When the connection is given up, of a link that is no part of the federation any more."""
        self._received = 0
        self._unacknowledged_bytes = 0

    @property
    def connected(self) -> bool:
        """Whether a greeted connection is there, usable or not yet. Nobody else keeps this."""
        return self.monitor.connected

    @property
    def usable(self) -> bool:
        """Whether data may be sent."""
        return self.monitor.condition is LinkCondition.NORMAL and self.closes_at is None

    def connect(self, now: float, *, successor: bool = False) -> None:
        """A new connection: both sides count from zero."""
        self.monitor.connect(now, forgiven=successor)
        self.joining.clear()
        self._received = self._unacknowledged_bytes = 0

    def took_over(self, frame: Frame, now: float) -> Heartbeat | None:
        """A data frame came in and is now ours; an acknowledgement, if much has come since the last one."""
        self._received += 1
        self._unacknowledged_bytes += len(frame.body)
        if self._unacknowledged_bytes < self._acknowledge_after_bytes:
            return None
        return self.heartbeat(HeartbeatKind.REGULAR, now)

    def heartbeat(self, kind: HeartbeatKind, now: float) -> Heartbeat:
        """A heartbeat out of turn."""
        self._unacknowledged_bytes = 0
        return self.monitor.message(kind, now, self._received)

    def due_heartbeat(self, now: float) -> Heartbeat | None:
        """The regular heartbeat, when it is time."""
        message = self.monitor.due(now, self._received)
        if message is not None:
            self._unacknowledged_bytes = 0
            self.outgoing.settle(now)
        return message

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        found = self.outgoing.problems() + self.joining.problems()
        if (
            not self.usable
            and self.closes_at is None
            and (self.outgoing.backlogged or self.outgoing.unacknowledged)
        ):
            found.append("data waits for a link that cannot be used")
        return [f"link to {self.name}: {problem}" for problem in found]

    def pace(self) -> Pace:
        """How fast the link is, as reports tell it."""
        outgoing = self.outgoing
        monitor = self.monitor
        return Pace(
            round(outgoing.used_mbps, 3),
            round(1000 * monitor.one_way_s, 3),
            # What is stuck in the only way is overtaken by nothing: nobody need wait for it elsewhere.
            0.0 if monitor.only_way else round(1000 * monitor.dead_interval_s, 3),
            outgoing.waiting.waits.noticeable_ms(),
        )

    def report(self, now: float) -> LinkReport:
        """What the network should know of this link."""
        monitor = self.monitor
        pace = self.pace()
        return LinkReport(
            up=self.usable,
            delay_ms=pace.delay_ms,
            jitter_ms=round(1000 * monitor.rtt_deviation_s, 3),
            waits_ms=pace.waits_ms,
            overruns=self.outgoing.waiting.overruns.noticeable(),
            availability=round(monitor.availability.share(now), 5),
            used_mbps=pace.used_mbps,
            limit_mbps=round(self.outgoing.limit_mbps, 3),
            dead_ms=pace.dead_ms,
            cause=self.changed_by,
        )


class Neighbours:
    """All neighbours of a gateway, by name."""

    def __init__(self, names: Iterable[str], timing: Timing, limit_bytes: int) -> None:
        self._timing = timing
        self._limit_bytes = limit_bytes
        self._by_name = {name: Neighbour(name, timing, limit_bytes) for name in sorted(names)}

    def adopt(self, names: Iterable[str]) -> list[Neighbour]:
        """These are the neighbours from now on; those that are not any more."""
        wanted = set(names)
        gone = [each for name, each in self._by_name.items() if name not in wanted]
        kept = {name: each for name, each in self._by_name.items() if name in wanted or each.connected}
        for name in sorted(wanted - kept.keys()):
            kept[name] = Neighbour(name, self._timing, self._limit_bytes)
        for name in wanted:
            kept[name].closes_at = None
        self._by_name = dict(sorted(kept.items()))
        return gone

    def closing(self, name: str) -> Neighbour | None:
        """A former neighbour whose connection is still there."""
        neighbour = self._by_name.get(name)
        return neighbour if neighbour is not None and neighbour.closes_at is not None else None

    def overdue(self, now: float) -> list[Neighbour]:
        """Former neighbours whose connection is given up now."""
        return [
            each for each in self._by_name.values() if each.closes_at is not None and now >= each.closes_at
        ]

    def forget(self, name: str) -> None:
        """A former neighbour is gone for good."""
        del self._by_name[name]

    def __getitem__(self, name: str) -> Neighbour:
        return self._by_name[name]

    def __iter__(self) -> Iterator[Neighbour]:
        return iter(self._by_name.values())

    def connected(self) -> list[str]:
        """The neighbours that can be told something."""
        return [name for name, neighbour in self._by_name.items() if neighbour.connected]

    def reachable(self, name: str | None) -> bool:
        """Whether a neighbour can be told something."""
        neighbour = self._by_name.get(name) if name is not None else None
        return neighbour is not None and neighbour.connected

    def usable(self, name: str) -> bool:
        """Whether data may be sent to a neighbour."""
        neighbour = self._by_name.get(name)
        return neighbour is not None and neighbour.usable

    def reports(self, now: float) -> dict[str, LinkReport]:
        """The state of all own links."""
        return {
            name: neighbour.report(now)
            for name, neighbour in self._by_name.items()
            if neighbour.closes_at is None
        }

    def present(self) -> Iterator[Neighbour]:
        """Those to which links lead that are part of the federation."""
        return (neighbour for neighbour in self._by_name.values() if neighbour.closes_at is None)

    def timer(self) -> float | None:
        """When a heartbeat is due or a link may be dead."""
        first: float | None = None
        for neighbour in self._by_name.values():
            time = neighbour.monitor.timer()
            if neighbour.closes_at is not None and (time is None or neighbour.closes_at < time):
                time = neighbour.closes_at
            if time is not None and (first is None or time < first):
                first = time
        return first
