"""A change of keys that is interrupted anywhere is in force as a whole, or not at all."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest
from tests.kit.keyed import FEDERATION, CutError, all_files, cut_after, made

from mangrove.errors import InputError, MangroveError
from mangrove.host.keys.checking import check_site
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.files.change import changing, complete_interrupted
from mangrove.host.keys.making import make_keys, rotate
from mangrove.host.keys.rotation import finish


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> KeyDirectory:
    return made(tmp_path_factory.mktemp("template") / "keys")


@pytest.fixture
def keys(template: KeyDirectory, tmp_path: Path) -> KeyDirectory:
    shutil.copytree(template.path, tmp_path / "keys")
    return KeyDirectory(tmp_path / "keys")


@pytest.mark.parametrize("calls", [*range(0, 30, 7), *range(40, 75, 2), 80, 100])
def test_a_rotation_is_in_force_or_never_was(keys: KeyDirectory, calls: int) -> None:
    before = all_files(keys)
    with pytest.MonkeyPatch.context() as patch:
        cut_after(calls, patch)
        with contextlib.suppress(CutError):
            rotate(keys.path)
    complete_interrupted(keys)
    after = all_files(keys)
    assert not keys.pending.exists()
    check_site(keys.path, FEDERATION, "a")
    check_site(keys.path, FEDERATION, "b")
    if after[Path("keys.json")] == before[Path("keys.json")]:
        assert after == before
    finish(keys.path)
    check_site(keys.path, FEDERATION, "a")


@pytest.mark.parametrize("calls", [0, 1, 10, 30, 60, 90])
def test_making_keys_is_begun_again(tmp_path: Path, calls: int) -> None:
    keys = KeyDirectory(tmp_path / "keys")
    with pytest.MonkeyPatch.context() as patch:
        cut_after(calls, patch)
        with pytest.raises(CutError):
            make_keys(FEDERATION, keys.path)
    make_keys(FEDERATION, keys.path)
    check_site(keys.path, FEDERATION, "a")


def test_a_change_that_fails_leaves_nothing(keys: KeyDirectory) -> None:
    before = all_files(keys)
    with contextlib.suppress(ZeroDivisionError), changing(keys) as change:
        change.write(keys.trusted, b"new")
        raise ZeroDivisionError
    assert all_files(keys) == before
    with changing(keys) as change:
        pass
    assert all_files(keys) == before


def test_two_do_not_change_keys_at_once(keys: KeyDirectory) -> None:
    with changing(keys), pytest.raises(MangroveError, match="somebody else changes the keys"):
        rotate(keys.path)
    rotate(keys.path)


def test_the_last_word_on_a_file_counts(keys: KeyDirectory) -> None:
    with changing(keys) as change:
        change.write(keys.domain("a").users, b"first")
        change.write(keys.domain("a").users, b"second")
    assert keys.domain("a").users.read_bytes() == b"second"


def test_what_is_watched_is_put_in_place_last(keys: KeyDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    placed: list[Path] = []
    really = Path.rename

    def rename(path: Path, target: Path) -> Path:
        placed.append(target)
        return really(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    rotate(keys.path)
    finish(keys.path)
    seen = [path for path in placed if path in keys.watched or "domains" in path.parts]
    first_watched = seen.index(keys.about)
    assert all("domains" in path.parts for path in seen[:first_watched])
    assert seen[-2:] == [keys.revoked, keys.about]


def test_an_open_folder_gets_no_keys(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir(mode=0o755)
    with pytest.raises(InputError, match="is open to others"):
        make_keys(FEDERATION, tmp_path / "keys")
    assert list((tmp_path / "keys").iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write to"):
        make_keys(FEDERATION, tmp_path / "file" / "keys")
