"""What each domain wants: versions, epochs, gaps, and hostile subjects."""

from __future__ import annotations

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
