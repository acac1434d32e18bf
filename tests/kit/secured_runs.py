"""Has live tests run with keys: `MANGROVE_TEST_SECURED=1 pytest tests/integration`.

Every federation that a test starts is secured then, and connections to its brokers log in: those of the
SDK, of nats-py, of both MQTT libraries and of `bare_sockets`, as the client that every domain has from the
beginning. Tests that start brokers by themselves, or forge what only an agent may say, are not made for it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import nats
import paho.mqtt.client as paho
from nats.aio.client import Client

from mangrove.client import connecting
from mangrove.host.keys.directory import DomainKeys
from mangrove.host.keys.logins.user_login import local_login
from mangrove.host.nats_connecting import connect_or_close
from mangrove.testbed.local_federation import LocalFederation

WANTED = os.environ.get("MANGROVE_TEST_SECURED") == "1"

_keys_by_port: dict[int, str] = {}


def keys_at(servers: object) -> str:
    """The keys of the domain that a broker belongs to; empty if it is none of a secured federation."""
    urls = (
        [servers] if isinstance(servers, str) else list(servers) if isinstance(servers, list | tuple) else []
    )
    found = (_keys_by_port.get(urlsplit(str(url)).port or 0, "") for url in urls)
    return next(filter(None, found), "")


def keys_at_port(port: int) -> str:
    """The same, by a port of a broker: that of NATS clients or of MQTT clients."""
    return _keys_by_port.get(port, "")


class DeviceLogin(NamedTuple):
    """What an MQTT client has to be told."""

    user: str
    password: str
    trusted: str
    """The file with the certificates by which it knows brokers."""


def device_login(port: int) -> DeviceLogin | None:
    """How an MQTT client logs in at a broker; None: it is let in as it is."""
    keys = keys_at_port(port)
    if not keys:
        return None
    folder = DomainKeys(Path(keys)).client("client")
    return DeviceLogin(folder.name, folder.password.read_text().strip(), str(folder.trusted))


def secure_all() -> None:
    """From here on federations of tests have keys."""
    initialise, start = LocalFederation.__init__, LocalFederation.start
    connect, connect_device, open_sdk = nats.connect, paho.Client.connect, connecting._connect

    def with_keys(self: LocalFederation, *arguments: Any, **options: Any) -> None:
        initialise(self, *arguments, **{"secured": True, **options})

    async def noted(self: LocalFederation) -> None:
        await start(self)
        for domain in self.endpoints.values():
            for broker in (*domain.brokers(), *domain.spares):
                if not broker.external:
                    _keys_by_port[broker.client_port] = domain.keys
                    _keys_by_port[broker.mqtt_port or 0] = domain.keys

    async def logged_in(servers: Any = "nats://localhost:4222", **options: Any) -> Client:
        keys = keys_at(servers)
        if not keys:
            return await connect(servers, **options)
        return await connect_or_close(servers, login=local_login(keys), **options)

    def mqtt(self: paho.Client, host: str, port: int = 1883, *arguments: Any, **options: Any) -> Any:
        login = device_login(port)
        if login is not None:
            self.username_pw_set(login.user, login.password)
            self.tls_set(ca_certs=login.trusted)
        return connect_device(self, host, port, *arguments, **options)

    async def sdk(place: connecting._Place, *arguments: Any) -> Any:
        keys = keys_at(place.servers)
        if keys and place.credentials is None:
            place = place._replace(credentials=DomainKeys(Path(keys)).client("client").path)
        return await open_sdk(place, *arguments)

    for owner, name, instead in (
        (LocalFederation, "__init__", with_keys),
        (LocalFederation, "start", noted),
        (nats, "connect", logged_in),
        (paho.Client, "connect", mqtt),
        (connecting, "_connect", sdk),
    ):
        setattr(owner, name, instead)
