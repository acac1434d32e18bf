"""Federations with keys, for tests of what is done with them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mangrove.host.keys.directory import DomainKeys, KeyDirectory
from mangrove.host.keys.files import change as change_module
from mangrove.host.keys.making import make_keys
from mangrove.host.keys.ring import KeyRing
from mangrove.model.federation import Domain, Edge, Federation, Link

FEDERATION = Federation(
    name="ring",
    domains={
        "a": Domain(name="a", base_port=7000, edges=(Edge(),)),
        "b": Domain(name="b", base_port=7100),
    },
    links=(Link(between=("a", "b")),),
)


def made(directory: Path, federation: Federation = FEDERATION) -> KeyDirectory:
    """A key directory with everything in it."""
    return make_keys(federation, directory)


def ring_of(directory: KeyDirectory, domain: str) -> KeyRing:
    """The keys of a domain as they are."""
    return KeyRing.read(directory.domain(domain).path)


def secrets_in(keys: KeyDirectory) -> list[Path]:
    """All files that must not be known to anybody."""
    files = [path for path in keys.path.rglob("*") if path.is_file()]
    return [path for path in files if path.suffix in (".key", ".nk") or path.name in ("key.pem", "password")]


def all_files(keys: KeyDirectory | DomainKeys) -> dict[Path, bytes]:
    """Everything that is in a directory."""
    return {
        path.relative_to(keys.path): path.read_bytes()
        for path in sorted(keys.path.rglob("*"))
        if path.is_file()
    }


class CutError(BaseException):
    """The process ends here, as if by a power cut."""


def cut_after(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """End the process at the n-th time that a file is written or put in its place."""
    left = [calls]
    really_write, really_rename, really_remove = change_module._write, Path.rename, shutil.rmtree

    def count() -> None:
        if left[0] == 0:
            raise CutError
        left[0] -= 1

    def write(path: Path, content: bytes) -> None:
        count()
        really_write(path, content)

    def rename(path: Path, target: Path) -> Path:
        count()
        return really_rename(path, target)

    monkeypatch.setattr(change_module, "_write", write)
    monkeypatch.setattr(Path, "rename", rename)

    def rmtree(path: Path) -> None:
        if left[0]:  # who loses power cleans nothing up
            really_remove(path)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
