"""What one site, or one host of it, needs of a key directory, as an archive to be unpacked there."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

from mangrove.errors import InputError
from mangrove.host.keys.checking import brokers_on, check_site, runs_gateway
from mangrove.host.keys.directory import DomainKeys, KeyDirectory
from mangrove.host.keys.files.change import FOLDER_MODE
from mangrove.host.keys.files.guarded_file import is_there, read_guarded
from mangrove.host.private_file import OWNER_ALONE
from mangrove.model.federation import Federation
from mangrove.model.security.users import USER_ROLES


def export_site(
    path: Path, federation: Federation, domain: str, host: str | None, to: Path
) -> tuple[str, ...]:
    """Write the archive, which only its owner can read; returns what is in it.

    `keys.json` is last, as in the directory itself: processes that run take over what is unpacked under them
    when all of it is there. The clients' own folders go with the site, and not with single hosts.
    """
    check_site(path, federation, domain, host)
    directory = KeyDirectory(path)
    files = [*_site_files(directory.domain(domain), federation, host), *directory.watched]
    folders = sorted({parent for file in files for parent in file.relative_to(path).parents})
    try:
        descriptor = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, OWNER_ALONE)
    except OSError as error:
        raise InputError(f"cannot write {to}: {error.strerror}", hint="name another file with --to") from None
    try:
        with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w") as archive:
            for folder in folders:
                entry = tarfile.TarInfo(str(folder))
                entry.type, entry.mode = tarfile.DIRTYPE, FOLDER_MODE
                archive.addfile(entry)
            for each in files:
                content = read_guarded(each, path)
                entry = tarfile.TarInfo(str(each.relative_to(path)))
                entry.size, entry.mode, entry.mtime = len(content), OWNER_ALONE, each.stat().st_mtime
                archive.addfile(entry, io.BytesIO(content))
    except BaseException:
        to.unlink()
        raise
    return tuple(str(each.relative_to(path)) for each in files)


def _site_files(keys: DomainKeys, federation: Federation, host: str | None) -> Iterator[Path]:
    domain = federation.domains[keys.domain]
    if runs_gateway(domain, host):
        yield from (keys.gateway_certificate, keys.gateway_key, keys.sealing_key)
        if is_there(keys.previous_sealing_key):
            yield keys.previous_sealing_key
    for broker in brokers_on(domain, host):
        yield from (keys.broker_certificate(broker), keys.broker_key(broker))
    yield keys.users
    if is_there(keys.guests):
        yield keys.guests
    for user in USER_ROLES:
        yield keys.user_seed(user)
    if host is None and is_there(keys.clients):
        for client in sorted(keys.clients.iterdir()):
            yield from sorted(client.iterdir())
