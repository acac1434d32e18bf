"""MQTT clients of two makers behind one face: paho (Python) and mqtt (npm)."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from tests.kit.secured_runs import DeviceLogin, device_login

JS_FOLDER = Path(__file__).parent.parent / "integration" / "mqtt_js"
ANSWER_S = 20.0
REFUSED = 0x80


@dataclass(frozen=True)
class Arrival:
    """A message as a client's application got it."""

    topic: str
    payload: bytes
    qos: int
    retain: bool


@dataclass(frozen=True)
class Will:
    """What the broker shall publish when the client is gone without a word."""

    topic: str
    payload: bytes
    qos: int = 1
    retain: bool = False


class MqttClient(Protocol):
    """One client; every call returns when the broker has acknowledged it."""

    arrived: list[Arrival]

    async def connect(self, port: int, *, clean: bool = True, will: Will | None = None) -> bool:
        """Connect; whether the broker knew the session."""

    async def subscribe(self, topic: str, qos: int) -> int:
        """Subscribe; the QoS that was granted."""

    async def unsubscribe(self, topic: str) -> None:
        """Unsubscribe."""

    async def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None:
        """Publish, and wait for the acknowledgement that belongs to the QoS."""

    async def disconnect(self) -> None:
        """Say goodbye."""

    async def abort(self) -> None:
        """Go away without a word."""


class MqttError(Exception):
    """The broker, or the library, refused something."""


class PahoClient:
    """A client of the Python library."""

    def __init__(self, client_id: str) -> None:
        self.arrived: list[Arrival] = []
        self._id = client_id
        self._client: paho.Client | None = None
        self._waiting: dict[tuple[str, int], asyncio.Future[Any]] = {}

    async def connect(
        self,
        port: int,
        *,
        clean: bool = True,
        will: Will | None = None,
        login: DeviceLogin | None = None,
    ) -> bool:
        loop = asyncio.get_running_loop()
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=self._id,
            clean_session=clean,
            protocol=paho.MQTTv311,
            reconnect_on_failure=False,
        )
        self._client = client
        if will is not None:
            client.will_set(will.topic, will.payload, will.qos, will.retain)
        if login is not None:
            client.username_pw_set(login.user, login.password)
            client.tls_set(ca_certs=login.trusted)

        def in_loop(kind: str) -> Any:
            return lambda *args: loop.call_soon_threadsafe(self._done, kind, args)

        client.on_connect = in_loop("connect")
        client.on_subscribe = in_loop("subscribe")
        client.on_unsubscribe = in_loop("unsubscribe")
        client.on_publish = in_loop("publish")
        client.on_message = self._arrived
        answer = self._expect("connect", 0)
        await asyncio.to_thread(client.connect, "127.0.0.1", port, 60)
        client.loop_start()
        flags, reason = await asyncio.wait_for(answer, ANSWER_S)
        if reason.is_failure:
            raise MqttError(str(reason))
        return bool(flags.session_present)

    async def subscribe(self, topic: str, qos: int) -> int:
        _, number = self._made.subscribe(topic, qos)
        (granted,) = await asyncio.wait_for(self._expect("subscribe", number or 0), ANSWER_S)
        return int(granted.value)

    async def unsubscribe(self, topic: str) -> None:
        _, number = self._made.unsubscribe(topic)
        await asyncio.wait_for(self._expect("unsubscribe", number or 0), ANSWER_S)

    async def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None:
        number = self._made.publish(topic, payload, qos, retain).mid
        await asyncio.wait_for(self._expect("publish", number), ANSWER_S)

    async def disconnect(self) -> None:
        self._made.disconnect()
        await asyncio.to_thread(self._made.loop_stop)

    async def abort(self) -> None:
        socket = self._made.socket()
        assert socket is not None
        socket.close()
        await asyncio.to_thread(self._made.loop_stop)

    def _arrived(self, _client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        # In the library's thread; appending to a list needs no lock.
        self.arrived.append(Arrival(message.topic, bytes(message.payload), message.qos, message.retain))

    @property
    def _made(self) -> paho.Client:
        assert self._client is not None, "not connected"
        return self._client

    def _expect(self, kind: str, number: int) -> asyncio.Future[Any]:
        """The future of an answer, whichever of the two comes first: the question or the answer."""
        key = (kind, number)
        future = self._waiting.pop(key, None)
        if future is None:
            future = self._waiting[key] = asyncio.get_running_loop().create_future()
        return future

    def _done(self, kind: str, args: tuple[Any, ...]) -> None:
        number, result = (0, args[2:4]) if kind == "connect" else (args[2], args[3])
        self._expect(kind, number).set_result(result)


class JsClients:
    """A node process that holds clients of the npm library."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._last = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._clients: list[JsClient] = []

    def client(self, client_id: str) -> JsClient:
        """A new client."""
        made = JsClient(self, len(self._clients), client_id)
        self._clients.append(made)
        return made

    async def ask(self, **command: Any) -> Any:
        """Have the process do something."""
        assert self._process.stdin is not None
        self._last += 1
        future = self._waiting[self._last] = asyncio.get_running_loop().create_future()
        self._process.stdin.write(json.dumps({"number": self._last, **command}).encode() + b"\n")
        return await asyncio.wait_for(future, ANSWER_S)

    async def read(self) -> None:
        """Take in what the process says, until it ends."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said = json.loads(line)
            if "number" not in said:
                payload = base64.b64decode(said["payload"])
                arrival = Arrival(said["topic"], payload, said["qos"], said["retain"])
                self._clients[said["client"]].arrived.append(arrival)
            elif "error" in said:
                self._waiting.pop(said["number"]).set_exception(MqttError(said["error"]))
            else:
                self._waiting.pop(said["number"]).set_result(said["result"])


class JsClient:
    """A client of the npm library."""

    def __init__(self, process: JsClients, number: int, client_id: str) -> None:
        self.arrived: list[Arrival] = []
        self._process = process
        self._number = number
        self._id = client_id

    async def connect(self, port: int, *, clean: bool = True, will: Will | None = None) -> bool:
        told = None
        if will is not None:
            payload = base64.b64encode(will.payload).decode()
            told = {"topic": will.topic, "payload": payload, "qos": will.qos, "retain": will.retain}
        login = device_login(port)
        shown = None if login is None else login._asdict()
        return bool(await self._do("connect", port=port, id=self._id, clean=clean, will=told, login=shown))

    async def subscribe(self, topic: str, qos: int) -> int:
        (granted,) = await self._do("subscribe", topic=topic, qos=qos)
        return int(granted)

    async def unsubscribe(self, topic: str) -> None:
        await self._do("unsubscribe", topic=topic)

    async def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None:
        text = base64.b64encode(payload).decode()
        await self._do("publish", topic=topic, payload=text, qos=qos, retain=retain)

    async def disconnect(self) -> None:
        await self._do("disconnect")

    async def abort(self) -> None:
        await self._do("abort")

    async def _do(self, action: str, **arguments: Any) -> Any:
        return await self._process.ask(client=self._number, action=action, **arguments)


def _install() -> None:
    lock, installed = JS_FOLDER / "package-lock.json", JS_FOLDER / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        subprocess.run(
            ["npm", "ci", "--no-audit", "--no-fund"], cwd=JS_FOLDER, check=True, capture_output=True
        )


@asynccontextmanager
async def js_clients() -> AsyncIterator[JsClients]:
    """The node process, with the npm library as its lock file names it."""
    await asyncio.to_thread(_install)
    process = await asyncio.create_subprocess_exec(
        "node", str(JS_FOLDER / "clients.js"), stdin=PIPE, stdout=PIPE
    )
    clients = JsClients(process)
    reader = asyncio.create_task(clients.read())
    try:
        yield clients
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
        await reader
