"""What the queues of a domain are bound to, as interest: told from a listing, then from event to event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from mangrove.broker.rabbitmq.exchange.patterns import patterns_of

CREATED, DELETED = b"binding.created", b"binding.deleted"


class Binding(NamedTuple):
    """A queue, or an exchange, that is bound by a key to the federated exchange or to that of groups."""

    to: str
    """`queue` or `exchange`."""
    name: str
    key: str
    arguments: str = ""
    """Two bindings may differ in these alone."""
    group: str = ""
    """The queue group that its consumers are members of; empty for a plain subscriber."""


class BindingBook:
    """Who is bound by which key. Each pattern is told when the first comes and when the last goes."""

    def __init__(self, told: Callable[[str, str, bool], None], unheard: Callable[[], None]) -> None:
        """`told` gets a pattern, a queue group, and whether it is wanted there.

        `unheard` is called for a binding that no subject of the federation can match.
        """
        self._told = told
        self._unheard = unheard
        self._bindings: set[Binding] = set()
        self._wanted: Counter[tuple[str, str]] = Counter()

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
            self._wanted[pattern, binding.group] += 1
            if self._wanted[pattern, binding.group] == 1:
                self._told(pattern, binding.group, True)

    def deleted(self, binding: Binding) -> None:
        """It is gone."""
        if binding not in self._bindings:
            return
        self._bindings.discard(binding)
        for pattern in patterns_of(binding.key):
            self._wanted[pattern, binding.group] -= 1
            if not self._wanted[pattern, binding.group]:
                del self._wanted[pattern, binding.group]
                self._told(pattern, binding.group, False)


def event_binding(event: Mapping[str, object], exchange: str, groups: str, vhost: str) -> Binding | None:
    """The binding that an event of the broker is about; None if it is at none of these two exchanges."""
    source = event.get("source_name")
    if source not in (exchange, groups) or event.get("vhost", vhost) != vhost:
        return None
    name = str(event.get("destination_name", ""))
    return Binding(
        str(event.get("destination_kind", "")),
        name,
        str(event.get("routing_key", "")),
        arguments_text(event.get("arguments")),
        name if source == groups else "",
    )


def arguments_text(arguments: object) -> str:
    """Arguments of a binding in one form, whether a page or an event told them."""
    if isinstance(arguments, Mapping):
        return ",".join(sorted(f"{name}={value}" for name, value in arguments.items()))
    return ""
