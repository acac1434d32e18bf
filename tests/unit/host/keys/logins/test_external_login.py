"""Logins at somebody else's brokers: the secret is read where it is, and shown to nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from mangrove.config import parse_federation
from mangrove.errors import InputError
from mangrove.host.keys.logins.external_login import external_login
from mangrove.host.keys.nkey import UserKey
from mangrove.model.contract_warnings import federation_warnings
from mangrove.model.federation import Federation

FILE = """
federation: mixed
domains:
  theirs:
    external: {{head: "nats://{user}10.0.0.1:4222", credentials: {credentials}}}
"""


def federation(credentials: str, user: str = "") -> Federation:
    return parse_federation(FILE.format(credentials=credentials, user=user), "mixed").require()


def secret(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_password_is_read_from_a_file_or_the_environment_whenever_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = secret(tmp_path / "password", "one\n")
    described = federation(f"{{user: us, password_file: {path}}}")
    login = external_login(described.domains["theirs"].external)
    assert login is not None
    assert login().shown("nonce") == {"user": "us", "pass": "one"}
    secret(path, "two\n")
    assert login().shown("") == {"user": "us", "pass": "two"}
    assert login().inbox == "_INBOX"
    assert "two" not in repr(login())
    monkeypatch.setenv("THEIR_PASSWORD", "three")
    login = external_login(federation("{user: us, password_env: THEIR_PASSWORD}").domains["theirs"].external)
    assert login is not None
    assert login().password == "three"
    monkeypatch.delenv("THEIR_PASSWORD")
    with pytest.raises(InputError, match="THEIR_PASSWORD"):
        login()


def test_an_nkey_signs(tmp_path: Path) -> None:
    key = UserKey.make()
    path = secret(tmp_path / "user.nk", key.seed)
    login = external_login(federation(f"{{nkey_file: {path}}}").domains["theirs"].external)
    assert login is not None
    assert login().shown("nonce")["nkey"] == key.public


@pytest.mark.parametrize("how", ["open to others", "linked", "empty", "missing"])
def test_files_that_others_may_have_read_are_refused(tmp_path: Path, how: str) -> None:
    path = secret(
        tmp_path / "password", "" if how == "empty" else "x", 0o644 if how == "open to others" else 0o600
    )
    if how == "linked":
        path = path.rename(tmp_path / "elsewhere")
        (tmp_path / "password").symlink_to(path)
    elif how == "missing":
        path.unlink()
    login = external_login(
        federation(f"{{user: us, password_file: {tmp_path / 'password'}}}").domains["theirs"].external
    )
    assert login is not None
    with pytest.raises(InputError, match="password"):
        login()


@pytest.mark.parametrize(
    ("credentials", "problem"),
    [
        ("{user: us}", "exactly one of"),
        ("{user: us, password_file: a, password_env: B}", "exactly one of"),
        ("{password_file: a}", "a password needs a user"),
        ("{user: us, password_env: not-a-name}", "pattern"),
        ("{user: us, password: x}", "password"),
    ],
)
def test_what_cannot_be_meant_is_named(credentials: str, problem: str) -> None:
    reading = parse_federation(FILE.format(credentials=credentials, user=""), "mixed")
    assert any(problem in str(mistake) for mistake in reading.mistakes)


def test_hosts_agree_wherever_their_secrets_are_and_urls_with_passwords_are_warned_of() -> None:
    one, other = federation("{user: us, password_file: a}"), federation("{user: us, password_file: b}")
    assert one.digest() == other.digest()
    assert not any("credentials" in each for each in federation_warnings(one))
    inline = federation("{user: us, password_file: a}", user="us:secret@")
    [warning] = [each for each in federation_warnings(inline) if "credentials" in each]
    assert "secret" not in warning
