"""From the routes of a subject to a flow: domains get the line that they need, and what they select."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mangrove.gateway.head.refused_flows import Refused
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.selecting.selected_flow import SelectedFlow, SelectedWay
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.forwarding.flows import Route
from mangrove.overlay.protocol.bodies import (
    DISCARD,
    MAX_GROUPS,
    Entry,
    FanOut,
    Flow,
    Message,
    Rewrite,
    parse_message_line,
    scan,
)

TOO_MANY_GROUPS = f"more than {MAX_GROUPS} queue groups in one domain want it"


class WaysOut:
    """Makes such flows, and sends by them what was transformed before it leaves."""

    def __init__(self, engine: OverlayEngine, ledger: Ledger, flush: Callable[[], None]) -> None:
        """`flush` sends on what the flows gathered."""
        self._engine = engine
        self._ledger = ledger
        self._flush = flush
        self._too_many_groups = Refused(ledger, TOO_MANY_GROUPS)

    def flow(
        self,
        line: bytes,
        message: Message,
        subject: str,
        reply: str,
        routes: tuple[Route, ...],
        *,
        booked: bool = False,
    ) -> Flow:
        """The flows of some routes as one, each with the line that it needs. Most often there is only one.

        Where somebody selects, messages are booked here, unless they were `booked` before.
        """
        flows: list[Flow] = []
        ways: list[SelectedWay] = []
        for flow, groups, selectors in routes:
            if len(groups) > MAX_GROUPS:
                groups = groups[:MAX_GROUPS]
                flows.append(self._too_many_groups)
                ways.append(SelectedWay(self._too_many_groups, (), 0))
            new_line = message.line(subject, reply, groups)
            flows.append(flow if new_line == line else Rewrite(line, new_line, message.skip, flow))
            ways.append(SelectedWay(flows[-1], selectors, flow.destinations.bit_count()))
        if any(way.selectors for way in ways):
            book = partial(self._book_selected, subject, request=bool(reply), booked=booked)
            return SelectedFlow(line, message, ways, book)
        return flows[0] if len(flows) == 1 else FanOut(flows)

    def _book_selected(self, subject: str, sent: int, kept_back: int, *, request: bool, booked: bool) -> None:
        if request and not booked:
            self._ledger.sent.requests += sent
        elif sent and not booked:
            self._ledger.sent.add(subject, sent)
        if kept_back:
            self._ledger.keep_back(subject, kept_back)

    def send_transformed(self, body: bytes) -> None:
        """What was transformed leaves by the routes that there are now: it was judged, and booked, before."""
        known: dict[bytes, Entry] = {}

        def resolve(line: bytes) -> Entry:
            message = parse_message_line(line)
            routes = self._engine.route(message.subject)
            flow: Flow = DISCARD
            if routes:
                flow = self.flow(line, message, message.subject, message.reply, routes, booked=True)
            entry = known[line] = Entry(message.skip, flow)
            return entry

        scan(body, known, resolve)
        self._flush()
