"""Topics and their contracts: what a message is owed on its way."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from mangrove.model.congestion.terms import MAX_TERMS, Slow, TopicTerms
from mangrove.model.mediation.transform import TransformUse
from mangrove.model.subjects import covers, is_internal, matches

DEFAULT_MAX_PATHS = 4


class Late(StrEnum):
    """What happens to a message that has missed its deadline."""

    DELIVER = "deliver"
    DROP = "drop"


class Order(StrEnum):
    """What order subscribers see: that of each publisher on each subject, or whatever order comes."""

    NONE = "none"
    PUBLISHER = "publisher"


class Queue(StrEnum):
    """Who serves a queue group whose members are in several domains: one of them, or one in each domain."""

    ONCE = "once"
    LOCAL_EACH = "local-each"


class Scope(StrEnum):
    """How far a topic travels."""

    FEDERATION = "federation"
    DOMAIN = "domain"


class Mirror(StrEnum):
    """Whether a topic's messages have a second broker, and since when (GEMOM §V).

    `both`: every message is published to primary and mirror at once, with one id. `standby`: to the primary
    alone, while a session stands ready at the mirror and what may be lost with the primary is kept to be
    said again.
    """

    NONE = "none"
    STANDBY = "standby"
    BOTH = "both"

    def __bool__(self) -> bool:
        return self is not Mirror.NONE


class SessionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much more than the contract one publisher or subscriber may ask for; None is nothing more."""

    deadline_ms: float | None = None
    paths: int | None = None
    resiliency: float | None = None


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """What the messages of a topic are owed. The default is best effort over one path, in order.

    `paths` are used at the same time whatever happens; with `resiliency` as many more, up to `max_paths`, as
    make it probable enough that one of them is up. `apart_from` names regions, or the `match` of other
    contracts, from which the paths keep `separation_km`.
    """

    match: str
    deadline_ms: float | None = None
    paths: int = 1
    resiliency: float | None = None
    max_paths: int = DEFAULT_MAX_PATHS
    max_hops: int | None = None
    rate_mbps: float | None = None
    separation_km: float = 0.0
    apart_from: tuple[str, ...] = ()
    limits: SessionLimits = SessionLimits()
    mirror: Mirror = Mirror.NONE
    durable: bool = False
    order: Order = Order.PUBLISHER
    queue: Queue = Queue.ONCE
    late: Late = Late.DELIVER
    scope: Scope = Scope.FEDERATION
    rate_msg_s: float | None = None
    rate_bytes_s: float | None = None
    """What all publishers of one domain together may publish on each subject in a second."""
    slow: Slow = Slow.DROP_OLDEST
    always_send: bool = False
    """Whether publishers send even when nobody in the federation subscribes."""
    protected: bool = False
    """Whether congestion control leaves it alone."""
    confidential: bool = False
    """Whether bodies are sealed between the gateways of publishers and subscribers."""
    sample_text: bool = False
    """Whether the recorder may keep words of some messages."""
    transform: TransformUse | None = None
    """What a gateway makes of its messages."""

    @property
    def always_routed(self) -> bool:
        """Whether it needs paths of its own, however the tables lead."""
        return self.paths > 1 or self.resiliency is not None or self.rate_mbps is not None

    @property
    def may_need_routes(self) -> bool:
        """Whether it asks for something that the way by table may not give."""
        limited = self.deadline_ms is not None or self.max_hops is not None
        return self.always_routed or limited or bool(self.apart_from)


BEST_EFFORT = Contract(match=">")


class Withdrawn(msgspec.Struct, frozen=True):
    """A contract that no longer governs anything, while frames under it may still be on their way."""

    topic_class: int
    contract: Contract


class TopicRules(msgspec.Struct, frozen=True):
    """The contracts of a federation in file order; the first match wins, and none means best effort.

    Each has a number, its *class*, by which frames name it. In a federation that was never changed that is
    its position, and what no contract governs has the number after the last. A class always names the same
    words: a contract that is changed gets another one (see `model.versions`).
    """

    contracts: tuple[Contract, ...] = ()
    ids: tuple[int, ...] = ()
    """The classes of the contracts; none: their positions."""
    rest: int | None = None
    """The class of what no contract governs; None: the number of contracts."""
    withdrawn: tuple[Withdrawn, ...] = ()

    @property
    def unmatched(self) -> int:
        """The class of what no contract governs."""
        return len(self.contracts) if self.rest is None else self.rest

    def numbered(self) -> Iterator[tuple[int, Contract]]:
        """The classes in the order in which they are tried, with their contracts."""
        return zip(self.ids or range(len(self.contracts)), self.contracts, strict=True)

    def known(self) -> dict[int, Contract]:
        """All classes that a frame may name, but for that of what no contract governs."""
        found = {each.topic_class: each.contract for each in self.withdrawn}
        found.update(self.numbered())
        return found

    def account_of(self, topic_class: int) -> int:
        """Under which class a frame is counted: one of an unknown class as what no contract governs."""
        return topic_class if topic_class in self.known() else self.unmatched

    def class_of(self, subject: str) -> int:
        """The class of the contract that governs a literal subject; `unmatched` means best effort."""
        for topic_class, contract in self.numbered():
            if matches(contract.match, subject):
                return topic_class
        return self.unmatched

    def index_of(self, subject: str) -> int:
        """Position of the contract that governs a literal subject; `len(contracts)` means best effort."""
        for index, contract in enumerate(self.contracts):
            if matches(contract.match, subject):
                return index
        return len(self.contracts)

    def contract_of(self, subject: str) -> Contract:
        """The contract that governs a literal subject."""
        index = self.index_of(subject)
        return self.contracts[index] if index < len(self.contracts) else BEST_EFFORT

    def contract_at(self, topic_class: int) -> Contract:
        """The contract of a class, also of one that was withdrawn; best effort if there is none."""
        if self.ids:
            return self.known().get(topic_class, BEST_EFFORT)
        return self.contracts[topic_class] if 0 <= topic_class < len(self.contracts) else BEST_EFFORT

    @property
    def any_confidential(self) -> bool:
        """Whether any topic is: then requests, replies and letters, which name no topic, are so too."""
        return any(contract.confidential for contract in self.contracts)

    @property
    def ever_confidential(self) -> bool:
        """Whether any topic is, or was."""
        return any(contract.confidential for contract in self.known().values())

    def may_sample_text(self, subject: str) -> bool:
        """Whether words of its messages may be kept: where a contract says so, and never what is confidential
        or internal."""
        contract = self.contract_of(subject)
        return contract.sample_text and not contract.confidential and not is_internal(subject)

    def terms(self) -> tuple[TopicTerms, ...]:
        """What clients must know of the contracts."""
        return tuple(
            TopicTerms(
                match=contract.match,
                rate_msg_s=contract.rate_msg_s,
                rate_bytes_s=contract.rate_bytes_s,
                slow=contract.slow,
                always_send=contract.always_send,
                mirror=contract.mirror.value,
                deadline_ms=contract.deadline_ms,
                late=contract.late.value,
            )
            for contract in self.contracts[:MAX_TERMS]
        )

    def stays_home(self, pattern: str) -> bool:
        """Whether every subject under `pattern` is certain to stay in its domain.

        True when the first rule that could match any part of `pattern` covers all of it with scope `domain`.
        A wider pattern (`>` over a domain-scoped `plant.>`) is federated, and its messages judged one by one.
        """
        for contract in self.contracts:
            if covers(contract.match, pattern):
                return contract.scope is Scope.DOMAIN
            if overlaps(contract.match, pattern):
                return False
        return False


def overlaps(first: str, second: str) -> bool:
    """Whether some subject falls under both patterns."""
    first_tokens, second_tokens = first.split("."), second.split(".")
    for left, right in zip(first_tokens, second_tokens, strict=False):
        if ">" in (left, right):
            return True
        if "*" not in (left, right) and left != right:
            return False
    return len(first_tokens) == len(second_tokens)
