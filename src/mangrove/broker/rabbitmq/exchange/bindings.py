"""What the queues of a domain are bound to, as interest: told from a listing, then from event to event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from mangrove.broker.rabbitmq.exchange.patterns import patterns_of

CREATED, DELETED = b"binding.created", b"binding.deleted"


class Binding(NamedTuple):
    """A queue, or another exchange, that is bound to the federated exchange by a key."""

    to: str
    """`queue` or `exchange`."""
    name: str
    key: str
    arguments: str = ""
    """Two bindings may differ in these alone."""


class BindingBook:
    """Who is bound by which key. Each pattern is told when the first comes and when the last goes."""

    def __init__(self, told: Callable[[str, bool], None], unheard: Callable[[], None]) -> None:
        """`unheard` is called for a binding that no subject of the federation can match."""
        self._told = told
        self._unheard = unheard
        self._bindings: set[Binding] = set()
        self._wanted: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._bindings)

    def begin(self, listed: Iterable[Binding]) -> None:
        """The broker is there: tell all that is wanted anew."""
        self._bindings.clear()
        self._wanted.clear()
        for binding in listed:
            self.created(binding)

    def created(self, binding: Binding) -> None:
        """It is there; to be told so twice is no error."""
        if binding in self._bindings:
            return
        self._bindings.add(binding)
        patterns = patterns_of(binding.key)
        if not patterns:
            self._unheard()
        for pattern in patterns:
            self._wanted[pattern] += 1
            if self._wanted[pattern] == 1:
                self._told(pattern, True)

    def deleted(self, binding: Binding) -> None:
        """It is gone."""
        if binding not in self._bindings:
            return
        self._bindings.discard(binding)
        for pattern in patterns_of(binding.key):
            self._wanted[pattern] -= 1
            if not self._wanted[pattern]:
                del self._wanted[pattern]
                self._told(pattern, False)


def event_binding(event: Mapping[str, object], exchange: str, vhost: str) -> Binding | None:
    """The binding that an event of the broker is about; None if it is at another exchange."""
    if event.get("source_name") != exchange or event.get("vhost", vhost) != vhost:
        return None
    return Binding(
        str(event.get("destination_kind", "")),
        str(event.get("destination_name", "")),
        str(event.get("routing_key", "")),
        arguments_text(event.get("arguments")),
    )


def arguments_text(arguments: object) -> str:
    """Arguments of a binding in one form, whether a page or an event told them."""
    if isinstance(arguments, Mapping):
        return ",".join(sorted(f"{name}={value}" for name, value in arguments.items()))
    return ""
