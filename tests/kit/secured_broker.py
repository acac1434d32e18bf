"""A nats-server that encrypts, and lets in only those whom it was told of."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path

from mangrove.broker.nats.server import nats_server
from mangrove.config import parse_federation
from mangrove.host.keys.directory import DomainKeys
from mangrove.host.keys.making import make_keys
from mangrove.host.keys.ring import KeyRing

HOST = "127.0.0.1"
SITE = "federation: one\ndomains:\n  here: {edges: 1}\n"
RELOAD_S = 10.0
EVERYTHING = '{ publish: ">", subscribe: ">" }'


def keys_of_a_site(directory: Path) -> DomainKeys:
    """Keys of a federation of one domain, `here`."""
    return make_keys(parse_federation(SITE, "one").require(), directory).domain("here")


class SecuredBroker:
    """One server by the keys of a domain; `permissions` are those of its users, by name, others have all."""

    def __init__(self, keys: DomainKeys, port: int, directory: Path) -> None:
        self.keys = keys
        self.url = f"nats://{HOST}:{port}"
        self._port = port
        self._directory = directory
        self.process = nats_server(f"secured-{port}", self._config({}), directory)

    def _config(self, permissions: Mapping[str, str]) -> str:
        users = []
        for user in KeyRing.read(self.keys.path).users():
            allowed = f"permissions: {permissions.get(user.name, EVERYTHING)}"
            users += [f'{{ nkey: "{nkey}", {allowed} }}' for nkey in user.nkeys]
            if user.password_hash:
                users.append(f'{{ user: "{user.name}", password: "{user.password_hash}", {allowed} }}')
        certificate = self.keys.broker_certificate("here-head")
        return (
            f'listen: "{HOST}:{self._port}"\n'
            f'tls {{ cert_file: "{certificate}", key_file: "{self.keys.broker_key("here-head")}" }}\n'
            f"accounts {{ APP {{ users: [ {', '.join(users)} ] }} }}\n"
        )

    def change(self, permissions: Mapping[str, str] | None = None) -> None:
        """Have it read its users and their permissions anew, while it runs; they are in force then."""
        nats_server(f"secured-{self._port}", self._config(permissions or {}), self._directory)
        before = self._reloads()
        self.process.signal(signal.SIGHUP)
        deadline = time.monotonic() + RELOAD_S
        while self._reloads() == before:
            assert time.monotonic() < deadline, f"not reloaded: {self.process.log_path}"
            time.sleep(0.002)

    def _reloads(self) -> int:
        return self.process.log_path.read_bytes().count(b"Reloaded server configuration")
