"""Logins from a key directory: as the files say it, and never less than what was good before."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.kit.keyed import made

from mangrove.errors import InputError
from mangrove.host.keys.logins.user_login import client_login, local_login, login_of
from mangrove.host.keys.rotation import Part, rotate
from mangrove.model.security.users import AGENT_USER


def test_a_key_that_is_replaced_is_the_next_that_is_shown(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys")
    login = login_of(str(keys.domain("a").path), AGENT_USER)
    assert login is not None
    before = login()
    assert login() is before, "nothing is read again without need"
    rotate(keys.path, parts=(Part.USERS,))
    after = login()
    assert after.nkey != before.nkey
    assert (after.user, after.inbox) == ("agent", "_INBOX.agent")
    assert set(after.shown("nonce")) == {"nkey", "sig"}


def test_who_runs_goes_on_with_the_key_that_was_good(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = made(tmp_path / "keys").domain("a")
    login = client_login(keys.client("client").path)
    before = login()
    seed = keys.client("client").seed
    seed.chmod(0o644)
    seed.write_text("no seed")
    with caplog.at_level(logging.ERROR):
        assert login() is before
        assert login() is before
    assert len(caplog.records) == 1
    with pytest.raises(InputError, match=r"client\.nk"):
        client_login(keys.client("client").path)


def test_without_keys_nobody_logs_in(tmp_path: Path) -> None:
    assert login_of("", AGENT_USER) is None
    assert local_login("") is None
    with pytest.raises(InputError, match="the brokers let in whom they know") as caught:
        local_login(str(tmp_path / "domains" / "a"))
    assert "MANGROVE_CREDENTIALS" in caught.value.hint


def test_a_folder_that_was_handed_over_may_be_called_as_one_likes(tmp_path: Path) -> None:
    folder = made(tmp_path / "keys").domain("a").client("client")
    handed_over = folder.path.rename(tmp_path / "my-keys")
    assert client_login(handed_over)().user == "client"
    (handed_over / "user").write_text("two words")
    with pytest.raises(InputError, match="no name of a client"):
        client_login(handed_over)
    (handed_over / "user").unlink()
    assert client_login(handed_over)().user == "my-keys", "as it was before names were kept in it"
