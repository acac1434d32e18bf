"""What a problem document says of contracts, hosts and its own origin.

Mirrors and hosts decide where second copies may be; topics and origin are kept for whoever puts a plan in
force, and change nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mangrove.model.topics import Mirror
from mangrove.planning.problem.reading import UNWRITABLE, Reader, number, writable

# A time beyond this is in milliseconds, or nonsense: seconds reach it in the year 5138.
LATEST_S = 1e11
MIRRORED = "none, standby, both, true (both) or false (none)"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a problem comes from, as far as its document says."""

    federation: str = ""
    domain: str = ""
    data_until: float = 0.0
    """The end of the telemetry it was computed from, in seconds since 1970; 0: not said."""
    topics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Subjects or patterns of each item; an item that is not here is a topic itself."""

    def topics_of(self, item: str) -> tuple[str, ...]:
        """Subjects or patterns that are placed with the item."""
        return self.topics.get(item, (item,))


def read_mirrored(reader: Reader, items: tuple[str, ...]) -> tuple[Mirror, ...]:
    """One mode for each item, in their order; empty when the document says nothing."""
    given = _by_item(reader, "mirrored", items)
    if given is None:
        return ()
    modes = {item: _mode(reader, path, value) for path, item, value in given}
    return tuple(modes.get(item, Mirror.NONE) for item in items)


def _mode(reader: Reader, path: str, value: object) -> Mirror:
    if isinstance(value, bool):
        return Mirror.BOTH if value else Mirror.NONE
    if isinstance(value, str) and value in {mode.value for mode in Mirror}:
        return Mirror(value)
    reader.note(path, repr(value)[:60], MIRRORED)
    return Mirror.NONE


def read_hosts(reader: Reader, brokers: tuple[str, ...]) -> tuple[str, ...]:
    """The host of each broker; empty when the document says nothing. Every broker is on exactly one."""
    given = reader.document.get("hosts")
    if given is None:
        return ()
    if not isinstance(given, Mapping) or not given:
        reader.note("hosts", "not an object", "host names with lists of brokers")
        return ()
    host_of: dict[str, str] = {}
    for host, members in given.items():
        if not host:
            reader.note("hosts", "a host has no name")
        if not writable(host):
            reader.note("hosts", f"{host!r} {UNWRITABLE}")
        if not isinstance(members, list):
            reader.note(f"hosts.{host}", repr(members)[:60], "a list of brokers")
            continue
        for index, broker in enumerate(members):
            path = f"hosts.{host}[{index}]"
            if not isinstance(broker, str) or broker not in brokers:
                reader.note(path, f"there is no broker {broker!r}", "a name from `brokers`")
            elif broker in host_of:
                reader.note(path, f"{broker!r} is on {host_of[broker]!r} already")
            else:
                host_of[broker] = str(host)
    for broker in brokers:
        if broker not in host_of:
            reader.note("hosts", f"broker {broker!r} is on no host", "every broker on one host")
    return tuple(host_of.get(broker, "") for broker in brokers)


def read_provenance(reader: Reader, items: tuple[str, ...]) -> Provenance:
    """Names, time and topics, each checked by itself."""
    names = {}
    for name in ("federation", "domain"):
        value = reader.document.get(name, "")
        if not isinstance(value, str):
            reader.note(name, repr(value)[:60], "a name")
            value = ""
        elif not writable(value):
            reader.note(name, f"{value!r} {UNWRITABLE}")
        names[name] = value
    until = reader.document.get("data_until")
    data_until = 0.0 if until is None else number(until, least=0.0)
    if data_until is None or data_until > LATEST_S:
        reader.note("data_until", repr(until)[:60], "seconds since 1970")
    topics: dict[str, tuple[str, ...]] = {}
    for path, item, value in _by_item(reader, "topics", items) or ():
        if not isinstance(value, list) or not value or not all(isinstance(t, str) and t for t in value):
            reader.note(path, repr(value)[:60], "a list of subjects or patterns")
        elif not all(map(writable, value)):
            reader.note(path, f"a topic {UNWRITABLE}")
        else:
            topics[item] = tuple(value)
    return Provenance(names["federation"], names["domain"], data_until or 0.0, topics)


def _by_item(reader: Reader, field: str, items: tuple[str, ...]) -> list[tuple[str, str, object]] | None:
    """`(path, item, value)` of a list in the order of the items, or of an object with some of them."""
    given = reader.document.get(field)
    if given is None:
        return None
    if isinstance(given, Mapping):
        for item in given:
            if item not in items:
                reader.note(f"{field}.{item}", f"there is no item {item!r}", "a name from `items`")
        return [(f"{field}.{item}", item, value) for item, value in given.items() if item in items]
    if not isinstance(given, list):
        reader.note(field, f"{given!r}"[:60], "a list with one for each of items, or an object by item")
        return []
    if items and len(given) != len(items):
        reader.note(field, f"{len(given)} values for {len(items)} items", "one for each of items")
    return [
        (f"{field}[{index}]", item, value)
        for index, (item, value) in enumerate(zip(items, given, strict=False))
    ]
