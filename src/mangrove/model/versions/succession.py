"""From one version to the next: which contract gets which class, and what differs.

A contract whose words stay keeps its class, wherever it stands. One whose words are those of a contract that
was withdrawn gets that one's class again, since it means the same. Every other gets a number that was never
given. Withdrawn ones are kept as long as there is room; frames under them are long gone by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from mangrove.errors import InputError
from mangrove.model.federation import Federation
from mangrove.model.mediation.transform import Place
from mangrove.model.topics import BEST_EFFORT, Contract, TopicRules, Withdrawn
from mangrove.model.versions.document import MAX_PAST, SETTINGS, FederationDocument
from mangrove.model.versions.moves import moves
from mangrove.model.versions.network import (
    Network,
    NetworkDifference,
    network_difference,
    network_of,
    renumbered,
)
from mangrove.model.versions.settings import setting_changes, settings_of

MAX_CLASS = (1 << 16) - 1
"""A frame's head has two bytes for it."""
MAX_WITHDRAWN = 512


def successor(
    before: FederationDocument,
    contracts: Iterable[Contract],
    *,
    by: str,
    at: str,
    note: str = "",
    settings: Mapping[str, Any] | None = None,
    network: Network | None = None,
) -> FederationDocument:
    """The version that follows; what is not given of `settings` and the network stays as it is."""
    topics, next_class = _numbered(before, tuple(contracts))
    return FederationDocument(
        federation=before.federation,
        version=before.version + 1,
        line=before.line,
        shape=before.shape,
        before=before.digest,
        by=by,
        at=at,
        note=note,
        domains=before.domains if network is None else renumbered(before.domains, network.names),
        network=network or before.network,
        topics=topics,
        next_class=next_class,
        past=(before.as_past(), *before.past)[:MAX_PAST],
        **{**settings_of(before), **(settings or {})},
    )


def _numbered(before: FederationDocument, contracts: tuple[Contract, ...]) -> tuple[TopicRules, int]:
    free: dict[Contract, list[int]] = {}
    for topic_class, contract in before.topics.numbered():
        free.setdefault(contract, []).append(topic_class)
    for each in reversed(before.topics.withdrawn):
        free.setdefault(each.contract, []).append(each.topic_class)
    next_class, ids = before.next_class, []
    for contract in contracts:
        if free.get(contract):
            ids.append(free[contract].pop(0))
            continue
        ids.append(next_class)
        next_class += 1
    if next_class > MAX_CLASS:
        raise InputError(
            f"the contracts of {before.federation} have been changed so often that no number is left",
            hint="stop all sites, and start them with the new federation file and empty run directories",
        )
    used = set(ids)
    withdrawn = [
        Withdrawn(topic_class, contract)
        for topic_class, contract in before.topics.known().items()
        if topic_class not in used
    ]
    order = {each.topic_class: place for place, each in enumerate(before.topics.withdrawn)}
    withdrawn.sort(key=lambda each: order.get(each.topic_class, len(order)))
    rest = before.topics.unmatched
    return TopicRules(contracts, tuple(ids), rest, tuple(withdrawn[-MAX_WITHDRAWN:])), next_class


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What one version says otherwise than another."""

    added: tuple[Contract, ...] = ()
    removed: tuple[Contract, ...] = ()
    changed: tuple[tuple[Contract, Contract], ...] = ()
    """Of contracts with the same `match`: before and after."""
    reordered: bool = False
    """Whether those that stay are tried in another order."""
    settings: dict[str, tuple[str, ...]] = {}
    """What changes besides contracts and the network, in sentences, by the key of the file."""
    network: NetworkDifference = NetworkDifference()

    def __bool__(self) -> bool:
        contracts = self.added or self.removed or self.changed or self.reordered
        return bool(contracts or self.settings or self.network)

    def sentences(self) -> Iterator[str]:
        """For people."""
        yield from self.network.sentences()
        yield from (f"new contract {each.match}: {terms_text(each)}" for each in self.added)
        yield from (f"contract {each.match} is withdrawn" for each in self.removed)
        for old, new in self.changed:
            yield f"contract {new.match}: {changes_text(old, new)}"
        if self.reordered:
            yield "contracts are tried in another order"
        for sentences in self.settings.values():
            yield from sentences

    def summary(self) -> str:
        """In one line."""
        parts = [
            f"{count} {word}"
            for count, word in (
                (len(self.added), "new"),
                (len(self.changed), "changed"),
                (len(self.removed), "withdrawn"),
            )
            if count
        ]
        words = [f"contracts: {', '.join(parts)}"] if parts else []
        words += ["contracts in another order"] * self.reordered
        words += [self.network.summary()] if self.network else []
        words += ["access rules" if key == "access" else key for key in self.settings]
        return "; ".join(words) or "nothing changes"


def difference(
    before: FederationDocument, after: FederationDocument, file: Federation | None = None
) -> Difference:
    """What a version says otherwise than the one before it; `file`: what holds where that says nothing."""
    running = None if file is None else network_of(file)
    ends = before.network or running, after.network or running
    old = {contract.match: contract for contract in reversed(before.topics.contracts)}
    new = {contract.match: contract for contract in reversed(after.topics.contracts)}
    stay_before = [each.match for each in before.topics.contracts if each.match in new]
    stay_after = [each.match for each in after.topics.contracts if each.match in old]
    return Difference(
        added=tuple(each for each in after.topics.contracts if each.match not in old),
        removed=tuple(each for each in before.topics.contracts if each.match not in new),
        changed=tuple((old[match], new[match]) for match in stay_after if old[match] != new[match]),
        reordered=stay_before != stay_after,
        settings={
            key: tuple(setting_changes(key, _in_force(key, before, file), getattr(after, key)))
            for key in SETTINGS
            if getattr(before, key) != getattr(after, key)
        },
        network=NetworkDifference()
        if ends[0] is None or ends[1] is None
        else network_difference(ends[0], ends[1]),
    )


def _in_force(key: str, document: FederationDocument, file: Federation | None) -> Any:
    said = getattr(document, key)
    return getattr(file, key) if said is None and file is not None else said


FIXED = ("mirror",)
"""Clients and gateways agree on these by subject, before a message leaves, and not by its class."""


def fixed_mistakes(before: TopicRules, after: TopicRules) -> list[str]:
    """What would change for some subject and cannot while messages flow."""
    found = {
        f"`{key}` of {old.contract.match if new.contract is BEST_EFFORT else new.contract.match}": None
        for old, new in moves(before, after)
        for key in FIXED
        if getattr(old.contract, key) != getattr(new.contract, key)
    }
    found |= {
        f"the place of `transform` of {new.contract.match}": None
        for old, new in moves(before, after)
        if old.contract.transform is not None
        and new.contract.transform is not None
        and old.contract.transform.at is Place.SENDING
        and new.contract.transform.at is Place.RECEIVING
    }
    return list(found)


def terms_text(contract: Contract) -> str:
    """What a contract says beyond the default."""
    terms = _terms(contract)
    return ", ".join(f"{key} {value}" for key, value in terms.items()) or "best effort"


def changes_text(old: Contract, new: Contract) -> str:
    """What one says otherwise than the other."""
    before, after = _terms(old), _terms(new)
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    defaults = msgspec.to_builtins(Contract(match=""))
    return ", ".join(
        f"{key} {before.get(key, defaults.get(key))} → {after.get(key, defaults.get(key))}" for key in keys
    )


def _terms(contract: Contract) -> dict[str, object]:
    default = msgspec.to_builtins(Contract(match=contract.match))
    return {key: value for key, value in msgspec.to_builtins(contract).items() if value != default[key]}
