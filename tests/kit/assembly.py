"""Domains that agree on versions, without a network: who hears whom is what a test says."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from mangrove.model.federation import Domain, Federation
from mangrove.model.topics import Contract
from mangrove.model.versions.document import WrittenDocument, first_document
from mangrove.model.versions.kept import KeptVersions
from mangrove.model.versions.succession import successor
from mangrove.overlay.versions.council import Council
from mangrove.overlay.versions.messages import VersionNotice

NAMES = ("a", "b", "c", "d", "e")


@dataclass
class Assembly:
    """Councils that hear each other as far as the partition lets them."""

    members: tuple[str, ...] = NAMES[:3]
    now: float = 0.0
    epochs: int = 0
    councils: dict[str, Council] = field(default_factory=dict)
    disk: dict[str, KeptVersions] = field(default_factory=dict)
    apart: list[set[str]] = field(default_factory=list)
    ever: dict[int, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        domains = {name: Domain(name=name, base_port=1) for name in self.members}
        self.first = first_document(Federation(name="f", domains=domains))
        for name in self.members:
            self.start(name)

    def start(self, name: str) -> None:
        self.epochs += 1
        kept = self.disk.get(name)
        self.councils[name] = Council(name, self.epochs, self.first, kept)

    def reach(self, name: str) -> set[str]:
        return {
            other
            for other in self.councils
            if other != name and not any((name in side) != (other in side) for side in self.apart)
        }

    def change(self, name: str, topic: str) -> WrittenDocument:
        """A document that follows from what is in force somewhere."""
        before = self.councils[name].document
        contracts = (*before.topics.contracts, Contract(match=topic))
        return WrittenDocument(text=successor(before, contracts, by=name, at="").text())

    def advance(self, name: str) -> None:
        council = self.councils[name]
        council.advance(self.now, self.reach(name))
        kept = council.take_kept()
        if kept is not None:
            self.disk[name] = kept
        self.ever.setdefault(council.document.version, set()).add(council.document.digest)
        assert council.problems() == []

    def tell(self, source: str, target: str) -> bool:
        """One hears all that another knows; whether any of it is news."""
        here, there = self.councils[source], self.councils[target]
        news = False
        for notice in list(here.notices()):
            for digest in notice.named():
                written = here.held(digest)
                if written is not None:
                    there.take(written)
            news |= there.hear(msgspec.convert(msgspec.to_builtins(notice), VersionNotice))
        self.advance(target)
        return news

    def settle(self, seconds: float = 0.0) -> None:
        """Let everybody hear everybody that can, until nothing is new, and time pass."""
        until = self.now + seconds
        while True:
            news = True
            while news:
                for name in self.councils:
                    self.advance(name)
                pairs = [(name, other) for name in self.councils for other in sorted(self.reach(name))]
                news = sum(self.tell(*pair) for pair in pairs) > 0
            due = min((council.timer() for council in self.councils.values()), default=until)
            if due > until:
                self.now = until
                return
            self.now = max(due, self.now + 0.001)

    def versions(self) -> set[int]:
        return {council.document.version for council in self.councils.values()}
