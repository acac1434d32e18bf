"""Federations with keys, for tests of what is done with them."""

from __future__ import annotations

from pathlib import Path

from mangrove.host.keys.directory import DomainKeys, KeyDirectory
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
