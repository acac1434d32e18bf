"""The contracts that hold at present, where they may change while messages flow.

All parts of an engine share one of these. What they make of the contracts beforehand they make anew when they
are told; all else they ask here each time, and so cannot be behind.
"""

from __future__ import annotations

from collections.abc import Iterator

from mangrove.model.topics import BEST_EFFORT, Contract, TopicRules


class RulesInForce:
    """Answers as `TopicRules` do, by those that were adopted last."""

    def __init__(self, rules: TopicRules) -> None:
        self.adopt(rules)

    def adopt(self, rules: TopicRules) -> None:
        """These hold from now on."""
        self.rules = rules
        self.contracts = rules.contracts
        self.unmatched = rules.unmatched
        self.any_confidential = rules.any_confidential
        self._known = rules.known()
        self._seal()

    def _seal(self) -> None:
        self.ever_confidential = any(contract.confidential for contract in self._known.values())
        """Whether a frame that is sealed may be on its way, also of a contract that was withdrawn."""

    def understand(self, rules: TopicRules) -> None:
        """Frames may name the classes of these, which do not hold here yet."""
        self._known = {**rules.known(), **self._known}
        self._seal()

    def numbered(self) -> Iterator[tuple[int, Contract]]:
        """The classes in the order in which they are tried, with their contracts."""
        return self.rules.numbered()

    def knows(self, topic_class: int) -> bool:
        """Whether a class has a contract, or had one."""
        return topic_class in self._known

    def known(self) -> dict[int, Contract]:
        """All classes that a frame may name, but for that of what no contract governs."""
        return self._known

    def account_of(self, topic_class: int) -> int:
        """Under which class a frame is counted: one of an unknown class as what no contract governs."""
        return topic_class if topic_class in self._known else self.unmatched

    def class_of(self, subject: str) -> int:
        """The class of the contract that governs a literal subject; `unmatched` means best effort."""
        return self.rules.class_of(subject)

    def index_of(self, subject: str) -> int:
        """Position of the contract that governs a literal subject."""
        return self.rules.index_of(subject)

    def contract_of(self, subject: str) -> Contract:
        """The contract that governs a literal subject."""
        return self.rules.contract_of(subject)

    def contract_at(self, topic_class: int) -> Contract:
        """The contract of a class, also of one that was withdrawn; best effort if there is none."""
        return self._known.get(topic_class, BEST_EFFORT)

    def stays_home(self, pattern: str) -> bool:
        """Whether every subject under `pattern` is certain to stay in its domain."""
        return self.rules.stays_home(pattern)


Rules = TopicRules | RulesInForce
