"""Logins at brokers that somebody else runs, from files and the environment; read at every connection."""

from __future__ import annotations

import os
import ssl
import stat
from pathlib import Path

from mangrove.errors import InputError
from mangrove.host.keys.login import BrokerLogin, LoginSource
from mangrove.model.federation import External

MAX_SECRET_BYTES = 64 << 10
OTHERS = 0o077


def external_login(external: External | None) -> LoginSource | None:
    """How we log in at somebody else's brokers; None: there are none, or their URLs say it."""
    given = None if external is None else external.credentials
    if given is None:
        return None
    user, ca_file = given.user, given.ca_file

    def login() -> BrokerLogin:
        tls = None if not ca_file else _context(Path(ca_file))
        if given.nkey_file:
            from mangrove.host.keys.nkey import UserKey  # loads cryptography, which few need

            try:
                key = UserKey.from_seed(_secret(Path(given.nkey_file)))
            except ValueError as problem:
                raise InputError(f"{given.nkey_file} holds no seed of a user: {problem}") from None
            return BrokerLogin(user=user, tls=tls, nkey=key.public, key=key, ours=False)
        password = _variable(given.password_env) if given.password_env else _secret(Path(given.password_file))
        return BrokerLogin(user=user, tls=tls, password=password, ours=False)

    return login


def _variable(name: str) -> str:
    found = os.environ.get(name)
    if not found:
        raise InputError(f"the environment has no {name}, which a broker's password is to be in")
    return found


def _secret(path: Path) -> str:
    """The text of a file that only its owner can read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_SECRET_BYTES:
            raise InputError(f"{path} is no file with a secret")
        if found.st_mode & OTHERS or found.st_uid != os.geteuid():
            raise InputError(
                f"{path} is open to others, or not ours (mode {stat.S_IMODE(found.st_mode):03o})",
                hint=f"chmod 600 {path}; if others were on this machine, have the secret replaced",
            )
        try:
            text = file.read(MAX_SECRET_BYTES).decode().strip()
        except UnicodeDecodeError:
            raise InputError(f"{path} holds no text") from None
    if not text:
        raise InputError(f"{path} is empty")
    return text


def _context(ca_file: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"{ca_file} holds no certificates: {error.strerror or error}") from None
    return context
