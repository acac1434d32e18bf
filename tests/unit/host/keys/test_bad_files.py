"""Key files that are missing, damaged, swapped, or open to others: one clear message, and nothing is used."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kit.keyed import FEDERATION, all_files, made, secrets_in

from mangrove.errors import InputError
from mangrove.host.keys.checking import check_site
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.making import make_keys
from mangrove.model.federation import Domain, Federation


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> KeyDirectory:
    return made(tmp_path_factory.mktemp("template") / "keys")


@pytest.fixture
def keys(template: KeyDirectory, tmp_path: Path) -> KeyDirectory:
    """To be damaged."""
    shutil.copytree(template.path, tmp_path / "keys")
    return KeyDirectory(tmp_path / "keys")


def refused(keys: KeyDirectory, federation: Federation = FEDERATION) -> InputError:
    """Why a site with these keys does not start; the hint is part of it, and no secret is."""
    secrets = [path.read_bytes() for path in secrets_in(keys)]
    with pytest.raises(InputError) as caught:
        check_site(keys.path, federation, "a")
    text = f"{caught.value.message} {caught.value.hint}"
    assert caught.value.hint
    for secret in secrets:
        for line in secret.decode(errors="ignore").split("\n"):
            assert len(line) < 16 or line not in text
    return caught.value


FILES: list[Callable[[KeyDirectory], Path]] = [
    lambda keys: keys.about,
    lambda keys: keys.trusted,
    lambda keys: keys.revoked,
    lambda keys: keys.domain("a").gateway_key,
    lambda keys: keys.domain("a").gateway_certificate,
    lambda keys: keys.domain("a").sealing_key,
    lambda keys: keys.domain("a").users,
    lambda keys: keys.domain("a").broker_key("a-head"),
    lambda keys: keys.domain("a").broker_certificate("a-management"),
    lambda keys: keys.domain("a").user_seed("agent"),
]
every_file = pytest.mark.parametrize("which", FILES)


def test_good_keys_are_taken(keys: KeyDirectory) -> None:
    check_site(keys.path, FEDERATION, "a")
    check_site(keys.path, FEDERATION, "b")


@every_file
def test_a_missing_file_is_named(keys: KeyDirectory, which: Callable[[KeyDirectory], Path]) -> None:
    which(keys).unlink()
    message = refused(keys).message
    assert str(which(keys)) in message or "there are no keys" in message


@every_file
def test_a_truncated_file_is_named(keys: KeyDirectory, which: Callable[[KeyDirectory], Path]) -> None:
    path = which(keys)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert str(path) in refused(keys).message
    path.write_bytes(b"")
    assert refused(keys).message == f"{path} is empty"


@every_file
def test_a_file_of_something_else_is_named(keys: KeyDirectory, which: Callable[[KeyDirectory], Path]) -> None:
    path = which(keys)
    path.write_bytes(os.urandom(400))
    assert str(path) in refused(keys).message


@every_file
def test_a_file_that_others_can_read_is_refused(
    keys: KeyDirectory, which: Callable[[KeyDirectory], Path]
) -> None:
    path = which(keys)
    path.chmod(0o644)
    error = refused(keys)
    assert error.message == f"{path} is open to others (mode 644)"
    assert f"chmod 600 {path}" in error.hint
    path.chmod(0o620)
    assert "mode 620" in refused(keys).message


@every_file
def test_a_symbolic_link_is_refused(
    keys: KeyDirectory, which: Callable[[KeyDirectory], Path], tmp_path: Path
) -> None:
    path = which(keys)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert "is a symbolic link" in refused(keys).message
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    assert "is a symbolic link" in refused(keys).message


@pytest.mark.parametrize(
    "folder",
    [
        lambda keys: keys.path,
        lambda keys: keys.domains,
        lambda keys: keys.domain("a").path,
        lambda keys: keys.domain("a").brokers,
    ],
)
def test_a_folder_on_the_way_is_looked_at(
    keys: KeyDirectory, folder: Callable[[KeyDirectory], Path], tmp_path: Path
) -> None:
    path = folder(keys)
    path.chmod(0o755)
    assert refused(keys).message == f"{path} is open to others (mode 755)"
    path.chmod(0o700)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert "is a symbolic link" in refused(keys).message


@every_file
def test_no_file_but_a_file_is_read(keys: KeyDirectory, which: Callable[[KeyDirectory], Path]) -> None:
    path = which(keys)
    path.unlink()
    os.mkfifo(path, 0o600)
    assert refused(keys).message == f"{path} is no file"
    path.unlink()
    path.mkdir(mode=0o700)
    assert str(path) in refused(keys).message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_somebody_else_is_refused(keys: KeyDirectory) -> None:
    path = keys.domain("a").gateway_key
    os.chown(path, 12345, -1)
    assert f"{path} belongs to user 12345" in refused(keys).message


def swap(first: Path, second: Path) -> None:
    """Two files in each other's places."""
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


def test_swapped_files_are_noticed(keys: KeyDirectory) -> None:
    a, b = keys.domain("a"), keys.domain("b")
    swap(a.gateway_key, b.gateway_key)
    assert "does not belong to gateway.pem" in refused(keys).message
    swap(a.gateway_certificate, b.gateway_certificate)
    message = refused(keys).message
    assert "is about the gateway of b in ring, and should be about the gateway of a in ring" in message
    swap(a.gateway_key, b.gateway_key)
    swap(a.gateway_certificate, b.gateway_certificate)
    swap(a.sealing_key, b.sealing_key)
    assert "sealing.key does not belong to gateway.pem" in refused(keys).message
    swap(a.sealing_key, b.sealing_key)
    swap(a.sealing_key, a.gateway_key)
    assert "holds a key of another kind" in refused(keys).message
    swap(a.sealing_key, a.gateway_key)
    swap(a.broker_key("a-head"), a.broker_key("a-edge1"))
    assert "does not belong to a-head.pem" in refused(keys).message
    swap(a.broker_certificate("a-head"), a.broker_certificate("a-edge1"))
    assert "should be about the broker a-head of a in ring" in refused(keys).message
    swap(a.broker_key("a-head"), a.broker_key("a-edge1"))
    swap(a.broker_certificate("a-head"), a.broker_certificate("a-edge1"))
    swap(a.user_seed("agent"), a.user_seed("gateway"))
    assert "is not the seed of" in refused(keys).message
    swap(a.user_seed("agent"), a.user_seed("gateway"))
    check_site(keys.path, FEDERATION, "a")


def test_keys_of_another_federation_are_refused(keys: KeyDirectory, tmp_path: Path) -> None:
    other = Federation(name="other", domains={"a": Domain(name="a", base_port=7000)})
    message = "has the keys of the federation ring, not of other"
    assert message in refused(keys, other).message
    with pytest.raises(InputError, match=message):
        make_keys(other, keys.path)
    foreign = made(tmp_path / "foreign", other)
    keys.revoked.write_bytes(foreign.revoked.read_bytes())
    assert "is of the federation other" in refused(keys).message


def test_a_list_of_revocations_that_nobody_signed_is_refused(keys: KeyDirectory, tmp_path: Path) -> None:
    namesake = made(tmp_path / "namesake")
    keys.revoked.write_bytes(namesake.revoked.read_bytes())
    assert "is signed by no authority of this federation" in refused(keys).message


def test_a_gateway_whom_nobody_would_believe_does_not_start(keys: KeyDirectory, tmp_path: Path) -> None:
    namesake = made(tmp_path / "namesake")
    for path in ("gateway_key", "gateway_certificate", "sealing_key"):
        getattr(keys.domain("a"), path).write_bytes(getattr(namesake.domain("a"), path).read_bytes())
    assert "would be believed by nobody: its certificate is from another authority" in refused(keys).message


def test_keys_that_are_there_are_kept(keys: KeyDirectory) -> None:
    before = all_files(keys)
    make_keys(FEDERATION, keys.path)
    assert all_files(keys) == before


def test_damaged_keys_are_not_made_anew(keys: KeyDirectory) -> None:
    keys.domain("a").gateway_key.write_bytes(b"")
    with pytest.raises(InputError, match="is empty"):
        make_keys(FEDERATION, keys.path)
