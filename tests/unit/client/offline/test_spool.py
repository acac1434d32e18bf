"""The folder of what waits: whom it belongs to, and what becomes of it when the disk fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mangrove.client.offline.kept import Kept
from mangrove.client.offline.settings import Offline, checked
from mangrove.client.offline.spool import Spool, in_use, look_into
from mangrove.errors import InputError


def test_a_folder_that_is_a_link_or_open_to_others_is_refused(tmp_path: Path) -> None:
    target, link, shared = tmp_path / "target", tmp_path / "link", tmp_path / "shared"
    target.mkdir(mode=0o700)
    link.symlink_to(target)
    shared.mkdir()
    shared.chmod(0o777)
    for folder in (link, shared):
        with pytest.raises(InputError, match=str(folder)):
            Spool(folder, 1 << 16)
    (target / "0000000001.spool").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match="0000000001"):
        Spool(target, 1 << 16)
    (target / "0000000001.spool").unlink()
    os.mkfifo(target / "0000000001.spool")
    with pytest.raises(InputError, match="no plain file"):
        Spool(target, 1 << 16)
    (target / "0000000001.spool").unlink()
    (target / "lock").unlink()
    (target / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="cannot be locked"):
        Spool(target, 1 << 16)
    assert not (tmp_path / "elsewhere").exists()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s", 1 << 16)
    assert in_use(tmp_path / "s")
    with pytest.raises(InputError, match="in use by another client"):
        Spool(tmp_path / "s", 1 << 16)
    spool.keep(Kept(1, 1, "a", b"x"))
    assert [kept.subject for kept in look_into(tmp_path / "s").waiting] == ["a"], "looking does no harm"
    spool.close()
    spool.close()
    assert not in_use(tmp_path / "s")
    Spool(tmp_path / "s", 1 << 16).close()


def test_a_disk_that_takes_half_a_record_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path / "s", 1 << 16)
    spool.keep(Kept(1, 1, "a", b"x"))
    write = os.write

    def half(descriptor: int, data: memoryview) -> int:
        if len(data) < 20:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[: len(data) // 2])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", half)
        with pytest.raises(OSError, match="No space"):
            spool.keep(Kept(2, 1, "b", bytes(100)))
    spool.keep(Kept(3, 1, "c", b"x"))
    spool.close()
    found = look_into(tmp_path / "s")
    assert [kept.number for kept in found.waiting] == [1, 3]
    assert not found.unreadable_bytes


def full_disk(descriptor: int, data: memoryview) -> int:
    raise OSError(28, "No space left on device")


def test_what_is_done_while_the_disk_is_full_is_told_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And segments in which nothing waits are removed at once: that needs no room."""
    folder = tmp_path / "s"
    spool = Spool(folder, 1 << 16)
    for number in range(1, 7):  # two in each segment
        spool.keep(Kept(number, 1, "a", bytes(30_000)))
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full_disk)
        with pytest.raises(OSError, match="No space"):
            spool.done([1, 2, 3])
        assert spool.behind
        assert [number for number, _ in look_into(folder).segments] == [2, 3]
        assert [number in spool for number in range(1, 7)] == [False] * 3 + [True] * 3
        with pytest.raises(OSError, match="No space"):
            spool.tell_done()
        spool.done([4])
        assert not spool.behind, "what is done went with its segment"
        with pytest.raises(OSError, match="No space"):
            spool.done([5])
    spool.keep(Kept(7, 1, "a", b"x"))
    assert not spool.behind, "it goes before what is kept next"
    spool.close()
    assert [kept.number for kept in look_into(folder).waiting] == [6, 7]


@pytest.mark.parametrize(
    "offline",
    [
        Offline(max_bytes=1),
        Offline(max_bytes=1 << 40),
        Offline(max_age_s=0),
        Offline(max_age_s=float("nan")),
        Offline(sync_s=-1),
        Offline(settle_s=float("inf")),
        "yes",
    ],
)
def test_settings_that_make_no_sense_are_refused(offline: object) -> None:
    with pytest.raises(InputError, match="offline"):
        checked(offline)  # type: ignore[arg-type]


def test_settings_may_be_left_out(tmp_path: Path) -> None:
    assert checked(None) is checked(False) is None
    assert checked(True) == Offline()
    kept = checked(Offline(directory=str(tmp_path)))  # type: ignore[arg-type]
    assert kept is not None
    assert kept.directory == tmp_path
