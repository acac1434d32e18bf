"""Logins that are read from key files, and read again when those have changed."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from mangrove.errors import InputError
from mangrove.host.keys.directory import ClientKeys, DomainKeys
from mangrove.host.keys.files.guarded_file import RESTORE, is_there, read_guarded
from mangrove.host.keys.login import BrokerLogin, LoginSource
from mangrove.model.security.identity import NAME
from mangrove.model.security.users import FIRST_CLIENT

log = logging.getLogger(__name__)

CREDENTIALS_VARIABLE = "MANGROVE_CREDENTIALS"


class _ReadLogin:
    """A user whose key, and whose brokers' authority, are in two files; and perhaps a password in a third."""

    def __init__(
        self, user: str, seed: Path, trusted: Path, root: Path, password: Path | None = None
    ) -> None:
        self._user = user
        self._seed = seed
        self._trusted = trusted
        self._root = root
        self._password = password
        self._seen: tuple[object, ...] = ()
        self._login: BrokerLogin | None = None

    def __call__(self) -> BrokerLogin:
        """The login as the files say it now; InputError if they are not as they should be.

        One that was good before is gone on with: who runs does not end because somebody touched a file.
        """
        seen = tuple(map(_look, (self._seed, self._trusted, self._password or self._seed)))
        if seen != self._seen:
            self._seen = seen
            try:
                self._login = self._read()
            except InputError as error:
                if self._login is None:
                    self._seen = ()
                    raise
                log.error("%s logs in with the key that it has: %s", self._user, error.message)
        assert self._login is not None, "read at the first call"
        return self._login

    def _read(self) -> BrokerLogin:
        from mangrove.host.keys.nkey import UserKey  # loads cryptography, which only secured processes need

        try:
            key = UserKey.from_seed(read_guarded(self._seed, self._root).decode().strip())
        except ValueError as problem:
            raise InputError(f"{self._seed} holds no seed of a user: {problem}", hint=RESTORE) from None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_verify_locations(cadata=read_guarded(self._trusted, self._root).decode())
        except (ValueError, ssl.SSLError):
            raise InputError(f"{self._trusted} holds no whole certificate", hint=RESTORE) from None
        password = ""
        if self._password is not None and is_there(self._password):
            password = read_guarded(self._password, self._root).decode(errors="replace").strip()
        return BrokerLogin(user=self._user, tls=context, nkey=key.public, key=key, password=password)


def login_of(keys: str, user: str) -> LoginSource | None:
    """How one of our users logs in at the brokers of the domain whose keys are in `keys`.

    None if there are no keys: then brokers let anybody in.
    """
    if not keys:
        return None
    folder = DomainKeys(Path(keys))
    root = folder.directory.path
    return _ReadLogin(user, folder.user_seed(user), folder.directory.trusted, root)


def client_login(folder: Path, *, password: bool = False) -> LoginSource:
    """How the client logs in whose folder this is; InputError if that is not what it should be.

    With `password`, it also has one to show, for brokers that know no NKEYs.
    """
    client = ClientKeys(folder.absolute())
    login = _ReadLogin(
        _name_in(client), client.seed, client.trusted, client.path, client.password if password else None
    )
    login()  # what is wrong with it is told before anything is begun
    return login


def _name_in(client: ClientKeys) -> str:
    """Whose folder it is; one that was made before names were kept in it has its client's name."""
    if not is_there(client.user):
        return client.name
    name = read_guarded(client.user, client.path).decode(errors="replace").strip()
    if not NAME.fullmatch(name):
        raise InputError(f"{client.user} holds no name of a client", hint=RESTORE)
    return name


def local_login(keys: str, *, password: bool = False) -> LoginSource | None:
    """The client that every domain has from the beginning, for who started the federation on this machine."""
    if not keys:
        return None
    client = DomainKeys(Path(keys)).client(FIRST_CLIENT)
    try:
        return client_login(client.path, password=password)
    except InputError as error:
        raise InputError(
            f"the brokers let in whom they know, and {error.message}",
            hint=f"give a client's folder as credentials, or in {CREDENTIALS_VARIABLE}",
        ) from None


def _look(path: Path) -> object:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
