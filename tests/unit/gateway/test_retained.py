"""Retained messages kept in step, with stores in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from tests.kit.access import rule, rules
from tests.kit.waiting import eventually

from mangrove.broker.retained import RetainedMessage, RetainedStoreOwner, StoreError
from mangrove.gateway.access.border_book import BorderBook
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.letters import (
    Ask,
    Letter,
    Listing,
    Retained,
    Summary,
    read_letters,
    write_letter,
)
from mangrove.gateway.retained import (
    FOREIGN,
    NOT_ALLOWED,
    SESSION_KEPT,
    TOO_MANY,
    UNREADABLE,
    RetainedMirror,
)
from mangrove.model.access.refusals import Crossing
from mangrove.model.access.rules import AccessRules, Action
from mangrove.model.subjects import LETTER_SUBJECT
from mangrove.model.topics import Contract, Scope, TopicRules
from mangrove.overlay.forwarding.border import border_of

RULES = TopicRules((Contract(match="plant.>", scope=Scope.DOMAIN),))


@dataclass
class MemoryStore:
    """A store that keeps its messages in a dictionary."""

    owner: RetainedStoreOwner
    kept: dict[str, RetainedMessage] = field(default_factory=dict)
    broken: bool = False

    async def run(self) -> None:
        self.owner.store_attached()
        await asyncio.Event().wait()

    async def read(self) -> AsyncIterator[RetainedMessage]:
        for message in list(self.kept.values()):
            yield message

    async def write(self, message: RetainedMessage) -> None:
        if self.broken:
            raise StoreError("the store is full")
        self.kept[message.subject] = message

    def publish(self, subject: str, payload: bytes, version: int = 1) -> None:
        """A client of the own domain retains something; a deletion leaves nothing behind."""
        message = RetainedMessage(subject=subject, payload=payload, version=version)
        self.kept[subject] = message
        if not payload:
            del self.kept[subject]
        self.owner.retained(message)


class Domains:
    """Domains whose letters reach each other unless one of them is away."""

    def __init__(self, *names: str, access: dict[str, AccessRules] | None = None) -> None:
        """`access` are the rules of each domain's gateway, which may differ."""
        self.access = access or {}
        self.books = {name: BorderBook() for name in names}
        self.away: set[str] = set()
        self.ledgers = {name: Ledger(name, 1) for name in names}
        self.stores: dict[str, MemoryStore] = {}
        self.mirrors = {name: self._mirror(name) for name in names}

    def _mirror(self, name: str) -> RetainedMirror:
        def store(owner: RetainedStoreOwner) -> MemoryStore:
            self.stores[name] = MemoryStore(owner)
            return self.stores[name]

        def send(domain: str, letter: bytes) -> None:
            if domain not in self.away and name not in self.away:
                self.mirrors[domain].take_from(name, letter)

        def reachable() -> frozenset[str]:
            return frozenset() if name in self.away else frozenset(self.ledgers) - self.away - {name}

        return RetainedMirror(
            name,
            RULES,
            self.ledgers[name],
            max_message_bytes=100,
            store=store,
            send=send,
            reachable=reachable,
            border=border_of(name, tuple(sorted(self.ledgers)), self.access.get(name, AccessRules())),
            border_book=self.books[name],
        )

    def visible(self, name: str) -> dict[str, bytes]:
        return {m.subject: m.payload for m in self.stores[name].kept.values() if m.payload}

    async def see(self, **expected: dict[str, bytes]) -> None:
        async def so() -> bool:
            return all(self.visible(name) == kept for name, kept in expected.items())

        await eventually(so, f"{expected} should be kept")

    async def __aenter__(self) -> Domains:
        self._tasks = [asyncio.create_task(mirror.run()) for mirror in self.mirrors.values()]
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def test_set_replaced_and_deleted_everywhere() -> None:
    async with Domains("a", "b", "c") as domains:
        domains.stores["a"].publish("x", b"1", 1)
        await domains.see(a={"x": b"1"}, b={"x": b"1"}, c={"x": b"1"})
        domains.stores["b"].publish("x", b"2", 2)
        await domains.see(a={"x": b"2"}, b={"x": b"2"}, c={"x": b"2"})
        domains.stores["c"].publish("x", b"", 3)
        await domains.see(a={}, b={}, c={})


async def test_a_domain_that_has_too_many_is_cut_short_and_not_asked_for_them_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mangrove.gateway.retained_states.MAX_OF_DOMAIN", 3)
    async with Domains("a", "b") as domains:
        for number in range(5):
            domains.stores["a"].publish(f"s.{number}", b"x", 1)
        for number in range(50):  # nothing of these is there to be taken back
            gone = RetainedMessage(subject=f"never.{number}", payload=b"", origin="a", version=2)
            domains.mirrors["b"].take_from("a", write_letter(Retained(gone)))
        await domains.see(b={f"s.{number}": b"x" for number in range(3)})
        assert len(domains.mirrors["b"]._states) == 3
        counts = []
        for _ in range(4):  # it may have read its store anew at first, and so have asked once more
            await domains.mirrors["a"]._summarise_to(frozenset("b"))
            await asyncio.sleep(0.05)
            counts.append(domains.ledgers["b"].dropped[TOO_MANY])
        assert counts[0] >= 2
        assert len(set(counts[1:])) == 1


def test_values_in_values_without_end_are_unreadable() -> None:
    deep = b"\x93\xa3ask\xa1a" + b"\x91" * 5_000 + b"\xc0"
    line = f"LMSG {LETTER_SUBJECT} {len(deep)}\r\n".encode()
    assert read_letters(line + deep + b"\r\n") == ([], 1)


async def test_a_domain_that_was_away_catches_up_with_changes_and_deletions() -> None:
    async with Domains("a", "b") as domains:
        for number in range(1200):
            domains.stores["a"].publish(f"s.{number:04}", b"old")
        await domains.see(b=domains.visible("a"))
        domains.away.add("b")
        domains.stores["a"].publish("s.0700", b"", 2)
        domains.stores["a"].publish("s.0007", b"new", 2)
        domains.stores["a"].publish("t", b"more", 2)
        assert "t" not in domains.visible("b")
        domains.away.clear()
        await domains.see(b=domains.visible("a"))
        assert len(domains.visible("b")) == 1200


async def test_the_later_word_counts_on_both_sides_of_a_cut() -> None:
    async with Domains("a", "b") as domains:
        await asyncio.sleep(0.01)
        domains.away.add("b")
        domains.stores["a"].publish("x", b"later", 20)
        domains.stores["b"].publish("x", b"earlier", 10)
        domains.away.clear()
        await domains.see(a={"x": b"later"}, b={"x": b"later"})


async def test_what_stays_home_is_neither_told_nor_taken() -> None:
    async with Domains("a", "b") as domains:
        domains.stores["a"].publish("plant.valve", b"open")
        message = RetainedMessage(subject="plant.valve", payload=b"shut", origin="a", version=9)
        for forged in (message, RetainedMessage(subject="$JS.x", payload=b"y", origin="a", version=9)):
            domains.mirrors["b"].take_from("a", write_letter(Retained(forged)))
        await asyncio.sleep(0.05)
        assert domains.visible("b") == {}
        assert domains.ledgers["b"].dropped == {NOT_ALLOWED: 2}


NOT_TO_B = rules(rule("may_not", "news.>", actions=(Action.PUBLISH,), domain="a", to=("b",)))


async def test_what_may_not_leave_for_a_domain_is_told_to_the_others_alone() -> None:
    names = ("a", "b", "c")
    async with Domains(*names, access=dict.fromkeys(names, NOT_TO_B)) as domains:
        domains.stores["a"].publish("news.x", b"1")
        domains.stores["a"].publish("other", b"2")
        all_of_it = {"news.x": b"1", "other": b"2"}
        await domains.see(a=all_of_it, b={"other": b"2"}, c=all_of_it)
        (row,) = domains.books["a"].figures()
        assert (row.rule, row.crossing, row.domain, row.count) == ("access[0]", Crossing.LEAVE, "b", 1)
        await domains.mirrors["a"]._summarise_to(frozenset("bc"))
        await asyncio.sleep(0.05)
        assert domains.visible("b") == {"other": b"2"}, "nobody thinks that something got lost"
        assert not domains.books["b"].figures()


async def test_what_a_gateway_should_not_have_told_is_refused_and_not_asked_for_again() -> None:
    async with Domains("a", "b", access={"b": NOT_TO_B}) as domains:
        domains.stores["b"].publish("news.x", b"own", 1)
        domains.stores["a"].publish("news.x", b"1", 2)
        domains.stores["a"].publish("news.y", b"2", 2)
        await asyncio.sleep(0.05)
        assert domains.visible("b") == {"news.x": b"own"}, "it does not take the place of the own"
        before = domains.books["b"].total
        await domains.mirrors["a"]._summarise_to(frozenset("b"))
        await asyncio.sleep(0.05)
        assert domains.books["b"].total == before == 2
        domains.stores["a"].publish("news.y", b"", 3)
        await domains.mirrors["a"]._summarise_to(frozenset("b"))
        await asyncio.sleep(0.05)
        assert domains.mirrors["b"]._figures("a") == domains.mirrors["a"]._figures("a")


async def test_a_letter_speaks_for_the_domain_whose_frame_it_came_in() -> None:
    async with Domains("a", "b", "c") as domains:
        forged = RetainedMessage(subject="x", payload=b"y", origin="c", version=9)
        for letter in (Retained(forged), Summary("c", 1, 1), Ask("c"), Listing("c", "", "", [])):
            domains.mirrors["b"].take_from("a", write_letter(letter))
        await asyncio.sleep(0.05)
        assert domains.visible("b") == {}
        assert domains.ledgers["b"].dropped == {FOREIGN: 4}


async def test_what_cannot_be_kept_or_read_or_sent_is_counted() -> None:
    async with Domains("a", "b") as domains:
        domains.stores["b"].broken = True
        domains.stores["a"].publish("x", b"1")
        domains.mirrors["b"].take_from("a", b"LMSG _MGL 3\r\nabc\r\n")
        domains.stores["a"].publish("y", b"z" * 101)
        await asyncio.sleep(0.05)
        dropped = domains.ledgers["b"].dropped
        assert dropped[UNREADABLE] == 1
        assert dropped["the store is full"] >= 1, "every attempt counts"
        assert set(dropped) == {UNREADABLE, "the store is full"}
        assert sum(domains.ledgers["a"].dropped.values()) == 1


async def test_a_kept_session_is_warned_of_once() -> None:
    async with Domains("a", "b") as domains:
        for name in ("x", "y", "x"):
            domains.mirrors["a"].session_kept(name)
        assert domains.ledgers["a"].ignored == {SESSION_KEPT: 2}


def test_letters_are_read_as_they_were_written() -> None:
    message = RetainedMessage(subject="x", payload=b"\r\n1", origin="a", version=7, qos=1)
    letters: list[Letter] = [Retained(message), Summary("a", 1, 2), Ask("b"), Listing("a", "", "z", ["x"])]
    assert read_letters(b"".join(map(write_letter, letters))) == (letters, 0)
