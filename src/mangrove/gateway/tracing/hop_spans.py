"""One span for each gateway that a sampled message passes: from when it came until it left, or was delivered.

Messages are not taken apart: a frame's body is searched for trace contexts, which takes as long as to copy
it. What is sealed for its destinations has spans only where it begins and ends.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from time import time_ns

from mangrove.host.tracing.trace_context import TraceContext, contexts_in
from mangrove.host.tracing.tracer import Tracer
from mangrove.model.versions.rules_in_force import RulesInForce
from mangrove.overlay.protocol.frames import Frame

MAX_KNOWN = 4_096
"""Traced messages whose arrival is remembered."""

Pull = Callable[[str, float], Frame | None]


class HopSpans:
    """Remembers when sampled messages came, and tells of them when they leave."""

    def __init__(self, tracer: Tracer, domain: str, rules: RulesInForce) -> None:
        self.tracer = tracer
        self._domain = domain
        self._rules = rules
        self._came: OrderedDict[TraceContext, tuple[int, str]] = OrderedDict()

    def arrived(self, peer: str, frames: Iterable[Frame]) -> None:
        """Frames came from a neighbour."""
        for frame in frames:
            for context in contexts_in(frame.body):
                if context not in self._came:
                    self._came[context] = (time_ns(), peer)
                    if len(self._came) > MAX_KNOWN:
                        self._came.popitem(last=False)

    def watching(self, pull: Pull) -> Pull:
        """The same as `pull`, and telling of what is pulled."""

        def pulled(peer: str, now: float) -> Frame | None:
            frame = pull(peer, now)
            if frame is not None and frame.body:
                self._tell(frame, frame.body, f"{self._domain} to {peer}", peer)
            return frame

        return pulled

    def delivered(self, frame: Frame, body: bytes) -> None:
        """A frame, opened if it was sealed, goes to the head broker of this domain."""
        self._tell(frame, body, f"{self._domain} delivers")

    def _tell(self, frame: Frame, body: bytes, name: str, next_hop: str = "") -> None:
        for context in contexts_in(body):
            now = time_ns()
            # A message of this domain has the age that the frame says: from its publisher until now.
            began, origin = self._came.get(context, (now - frame.age_us * 1000, ""))
            known = self._rules.knows(frame.topic_class)
            topic = self._rules.contract_at(frame.topic_class).match if known else ""
            self.tracer.span(
                name,
                context.child(),
                context,
                began,
                now,
                {
                    "mangrove.domain": self._domain,
                    "mangrove.from": origin or self._domain,
                    "mangrove.next_hop": next_hop,
                    "mangrove.contract": topic,
                    "mangrove.wait_ms": round((now - began) / 1e6, 3),
                    "mangrove.age_ms": frame.age_us / 1000,
                },
            )
