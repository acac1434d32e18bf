"""What each domain wants: versions, epochs, gaps, and hostile subjects."""

from __future__ import annotations

import pytest

from mangrove.overlay.interest.interest_database import InterestDatabase
from mangrove.overlay.protocol.control_messages import (
    Digest,
    InterestUpdate,
)


def update(version: int, added: list[str], epoch: int = 1, snapshot: bool = False) -> InterestUpdate:
    return InterestUpdate(origin="b", epoch=epoch, version=version, snapshot=snapshot, added=added)


def test_interest_follows_versions_and_epochs() -> None:
    database = InterestDatabase("a", "ab", epoch=1)
    assert database.receive(update(1, ["x"]))[1], "a change without its base is a gap"
    change, gap = database.receive(update(1, ["x"], snapshot=True))
    assert change is not None
    assert (change.added, gap) == ({"x"}, False)
    assert database.receive(update(1, ["x"], snapshot=True)) == (None, False), "no news"
    assert database.receive(update(3, ["z"]))[1], "version 2 is missing"
    change, _ = database.receive(update(1, ["y"], epoch=2, snapshot=True))
    assert change is not None
    assert (change.added, change.removed) == ({"y"}, {"x"}), "a restarted gateway replaces what was known"
    assert database.receive(update(9, ["old"], epoch=1, snapshot=True)) == (None, False)


def test_nobody_speaks_for_another_domain() -> None:
    database = InterestDatabase("b", "ab", epoch=1)
    assert database.receive(update(5, ["x"], snapshot=True)) == (None, False)
    stranger = InterestDatabase("a", "ac", epoch=1)
    assert stranger.receive(update(5, ["x"], snapshot=True)) == (None, False)
    assert database.ignored_updates == stranger.ignored_updates == 1


def test_hostile_subjects_are_not_passed_to_the_broker() -> None:
    database = InterestDatabase("a", "ab", epoch=1)
    change, _ = database.receive(
        update(1, ["ok", "bad subject here", "a\r\nPUB x 1", "$SYS.>", ""], snapshot=True)
    )
    assert change is not None
    assert change.added == {"ok"}
    assert database.refused_subjects == 4


def test_groups_with_odd_names_are_refused_and_counted() -> None:
    database = InterestDatabase("a", "ab", epoch=1)
    good = ["x g", "x.> a.*", "x *"]
    bad = ["x ", "x g h", "x " + "g" * 256, "x \x07", "x g\r\nLS+", "_x g", " g"]
    change, _ = database.receive(update(1, good + bad, snapshot=True))
    assert change is not None
    assert change.added == set(good)
    assert database.refused_subjects == len(bad)


def test_digest_shows_what_is_missing() -> None:
    database = InterestDatabase("a", "ab", epoch=7)
    database.change_local(["x"], [])
    missing = [database.snapshot(domain) for domain in database.missing_from(Digest(known={}))]
    assert [snapshot.next_part().added for snapshot in missing] == [["x"]]
    assert database.missing_from(Digest(known={"a": (7, 1)})) == []
    assert database.missing_from(Digest(known={"a": (8, 0)})) == []


def test_a_gap_that_others_closed_does_not_hide_the_next_one() -> None:
    """Two neighbours: one skips a version, the other has it, and the answer of the first comes too late."""
    database = InterestDatabase("a", "abcd", epoch=1)
    database.receive(update(1, ["x"], snapshot=True), "c")
    assert database.receive(update(3, ["z"]), "c") == (None, True)
    assert database.receive(update(2, ["y"]), "d")[0]
    assert database.receive(update(3, ["z"]), "d")[0]
    assert database.receive(update(3, ["x", "y", "z"], snapshot=True), "c") == (None, False), "no news"
    assert database.receive(update(5, ["v"]), "c") == (None, True), "version 4 must be asked for"
    assert database.receive(update(6, ["w"]), "c") == (None, False), "once is enough"


def test_an_odd_snapshot_does_not_hide_the_next_gap() -> None:
    database = InterestDatabase("a", "ab", epoch=1)
    assert database.receive(update(2, ["x"]), "c") == (None, True)
    odd = InterestUpdate(origin="b", epoch=1, version=2, snapshot=True, added=["x"], part=3, last=True)
    assert database.receive(odd, "c") == (None, False)
    assert database.ignored_updates == 1
    assert database.receive(update(3, ["y"]), "c") == (None, True)


def test_changes_that_wait_are_bounded_by_what_they_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by what is withdrawn, which nobody need ever have wanted."""
    monkeypatch.setattr("mangrove.overlay.interest.interest_database.MAX_LATER_BYTES", 1000)
    database = InterestDatabase("a", "ab", epoch=1)
    for version in (3, 4, 5):
        withdrawn = InterestUpdate(
            origin="b", epoch=1, version=version, snapshot=False, added=[], removed=["x" * 400]
        )
        database.receive(withdrawn, "c")
    assert [len(each.updates) for each in database._later.values()] == [2]
    change, gap = database.receive(update(1, ["v1"], snapshot=True), "c")
    assert change is not None
    assert gap, "version 5 came, and was not kept"


def test_changes_that_found_no_room_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mangrove.overlay.interest.interest_database.MAX_LATER", 2)
    database = InterestDatabase("a", "ab", epoch=1)
    for version in (2, 3, 4):
        database.receive(update(version, [f"v{version}"]), "c")
    change, gap = database.receive(update(1, ["v1"], snapshot=True), "c")
    assert change is not None
    assert change.added == {"v1", "v2", "v3"}
    assert gap, "version 4 came, and was not kept"
