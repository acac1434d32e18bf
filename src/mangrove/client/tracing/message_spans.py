"""The first and the last span of a sampled message: where it is published, and where it arrives."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from time import time_ns
from typing import NamedTuple

from mangrove.client.message import Message
from mangrove.client.publishing import Outcome
from mangrove.host.tracing.trace_context import HEADER, TraceContext, contexts_in
from mangrove.host.tracing.tracer import Side, Tracer, sampled_ratio

MAX_NAME = 200


class Sample(NamedTuple):
    """A message that is traced."""

    context: TraceContext
    parent: TraceContext | None

    def headers(self, given: Mapping[str, str] | None) -> dict[str, str]:
        """What it is published with."""
        return {**(given or {}), HEADER: str(self.context)}


class MessageSpans:
    """Traces what one connection publishes and receives."""

    def __init__(self, tracer: Tracer, ratio: float | None = None) -> None:
        self._tracer = tracer
        self._ratio = sampled_ratio() if ratio is None else ratio
        self._random = random.Random()

    @classmethod
    def from_environment(cls) -> MessageSpans | None:
        """If the standard variables ask for traces."""
        tracer = Tracer.from_environment("mangrove-client")
        return None if tracer is None else cls(tracer)

    def sample(self, headers: Mapping[str, str] | None) -> Sample | None:
        """Whether a message that is to be published is traced.

        One that already belongs to a trace stays in it: whether that is sampled was decided elsewhere.
        """
        given = None if headers is None else headers.get(HEADER)
        if given is None:
            return Sample(TraceContext.new(), None) if self._random.random() < self._ratio else None
        parent = TraceContext.parse(given)
        return None if parent is None else Sample(parent.child(), parent)

    def published(self, sample: Sample, subject: str, start_ns: int, outcome: Outcome) -> None:
        """A traced message was published, or held back."""
        self._tracer.span(
            f"publish {subject[:MAX_NAME]}",
            sample.context,
            sample.parent,
            start_ns,
            time_ns(),
            {"mangrove.outcome": outcome.value, **_about(subject)},
            Side.PRODUCER,
        )

    def arrived(self, messages: Iterable[Message]) -> None:
        """Messages came to a subscriber."""
        for message in messages:
            if not isinstance(message.head, bytes):
                continue
            for context in contexts_in(message.head):
                now = time_ns()
                published_at = message.published_at
                delay_ms = 0.0 if published_at is None else now / 1e6 - published_at * 1e3
                self._tracer.span(
                    f"receive {message.subject[:MAX_NAME]}",
                    context.child(),
                    context,
                    now,
                    now,
                    {"mangrove.delay_ms": round(delay_ms, 3), **_about(message.subject)},
                    Side.CONSUMER,
                )

    def close(self) -> None:
        """Send the last spans."""
        self._tracer.close()


def _about(subject: str) -> dict[str, str]:
    return {"messaging.system": "mangrove", "messaging.destination.name": subject[:MAX_NAME]}
