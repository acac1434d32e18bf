"""A client's connection to one of several nats-servers; it comes back by itself, for ever."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Container, Iterable, Sequence
from enum import Enum, auto
from typing import Any

from mangrove.broker.client_connection import (
    BrokerAwayError,
    ClientConnectionOwner,
    ConnectionCounts,
    Denial,
    Form,
    LoginRefusedError,
    OnDenied,
    Outlet,
    RawMessage,
    Sink,
    Subscribed,
)
from mangrove.broker.nats.client.denials import parse_denial
from mangrove.broker.nats.client.greeting import ServerAddress, ServerInfo
from mangrove.broker.nats.client.outgoing import NatsOutlet, Outgoing
from mangrove.broker.nats.client.protocol import ClientProtocol, open_socket
from mangrove.broker.nats.client.renewal import Renewal, RenewalError
from mangrove.broker.nats.client.scanner import Inlet, no_message, no_sink
from mangrove.broker.nats.client.servers import Servers
from mangrove.broker.requests import Requests
from mangrove.errors import InputError, MangroveError
from mangrove.host.keys.login import INBOX_PREFIX, BrokerLogin, LoginSource

log = logging.getLogger(__name__)

RECONNECT_S = 0.25
ACCEPT_S = 2.0
CLOSE_S = 2.0
MIN_REFUSALS = 2
"""A login that is refused so often, and by every server, is not tried again: one may be reading new keys."""
LOOK_S = 1.0
"""A key that was replaced is shown after once or twice as long: brokers look for it more often."""
MAX_ERROR_WORDS = 32
MAX_DENIALS = 1_000
"""Subjects whose denials are counted one by one."""


class State(Enum):
    """Of a connection."""

    NEW = auto()
    CONNECTED = auto()
    AWAY = auto()
    CLOSED = auto()


class NatsClientConnection:
    """See `mangrove.broker.client_connection.ClientConnection`."""

    def __init__(
        self,
        urls: Sequence[str],
        name: str,
        owner: ClientConnectionOwner | None = None,
        *,
        login: LoginSource | None = None,
        tls: ssl.SSLContext | None = None,
        marker_prefix: str = "",
    ) -> None:
        """Servers are tried in the order of their URLs.

        A `login` is asked for at every attempt. Without one, servers that want TLS are judged by `tls`. When
        it shows another key, the connection logs in anew; `marker_prefix` is where this user may publish
        markers, by which messages that look the same are told apart meanwhile.
        """
        try:
            self._servers = Servers(urls)
        except ValueError as error:
            raise InputError(f"cannot connect to {', '.join(urls)}: {error}") from None
        self._name = name
        self._owner = owner
        self._login = login
        self._tls = tls
        self._marker_prefix = marker_prefix
        self._shown = ""
        """The key by which the present server let us in."""
        self._watching: asyncio.Task[None] | None = None
        self._renewal: Renewal | None = None
        self._steady = asyncio.Event()
        """Cleared while what is said waits for another socket."""
        self._steady.set()
        self._told_denials: OnDenied | None = None
        self._state = State.NEW
        self._protocol: ClientProtocol | None = None
        self._inlets: dict[int, Inlet] = {}
        self._next_sid = 1
        self._returning: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._there = asyncio.Event()
        self._url = ""
        self._info = ServerInfo()
        self._received_before = (0, 0)
        self._connection_counts = ConnectionCounts()
        self._outgoing = Outgoing(self._connection_counts)
        self._requests = Requests(self, INBOX_PREFIX if login is None else login().inbox)

    # -- what it is ---------------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        """Whether a broker is there."""
        return self._state is State.CONNECTED

    @property
    def closed(self) -> bool:
        """Whether it was ended for good."""
        return self._state is State.CLOSED

    @property
    def url(self) -> str:
        """The broker that is, or was last, connected."""
        return self._url

    @property
    def max_payload(self) -> int:
        """The largest message that the broker takes."""
        return self._info.max_payload

    @property
    def client_id(self) -> int:
        """The number by which the broker's own pages call this connection; 0 if it does not say."""
        return self._info.client_id

    @property
    def server_id(self) -> str:
        """The broker's own name for itself."""
        return self._info.server_id

    @property
    def full(self) -> bool:
        """Whether publishers should wait for `drained`."""
        return self._outgoing.full

    @property
    def counts(self) -> ConnectionCounts:
        """What happened so far."""
        counts = self._connection_counts
        counts.received_messages, counts.received_bytes = self._received()
        return counts

    def _received(self) -> tuple[int, int]:
        messages, size_bytes = self._received_before
        if self._protocol is not None:
            messages += self._protocol.received_messages
            size_bytes += self._protocol.received_bytes
        return messages, size_bytes

    # -- life ---------------------------------------------------------------------------------------------

    async def connect(self, timeout_s: float) -> None:
        """Connect to the first server that takes us; all are tried again until the time is over."""
        failed = BrokerAwayError("no answer")
        refusals = 0
        try:
            async with asyncio.timeout(timeout_s):
                while not self.connected:
                    failed = await self._try_next() or failed
                    refusals = refusals + 1 if isinstance(failed, LoginRefusedError) else 0
                    if refusals >= max(len(self._servers), MIN_REFUSALS):
                        break
        except TimeoutError:
            pass
        if not self.connected:
            tried = ", ".join(map(str, self._servers))
            raise type(failed)(f"cannot connect to {tried}: {failed.message}", hint=failed.hint) from None

    def begin(self) -> None:
        """Look for a broker from now on."""
        if self._state is State.NEW:
            self._state = State.AWAY
            self._returning = asyncio.get_running_loop().create_task(self._come_back(), name="first connect")

    def go_on_at(self, urls: Iterable[str]) -> None:
        """Try these, too, when the broker is lost."""
        self._servers.add(urls)

    async def close(self) -> None:
        """Send what waits, disconnect, and end everything."""
        if not self.closed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self._steady.wait()
        if self.closed:
            return
        protocol, self._protocol = self._protocol, None
        self._state = State.CLOSED
        if protocol is not None:
            self._outgoing.write()
            try:
                async with asyncio.timeout(CLOSE_S):
                    await protocol.ping()
            except (TimeoutError, BrokerAwayError) as error:
                log.warning("messages may be unsent: %s", str(error) or "the broker does not answer")
        for task in (self._watching, self._returning, self._leaving):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        self._outgoing.close()
        self._requests.close()
        self._inlets.clear()
        self._there.set()
        if protocol is not None:
            await protocol.close()

    async def _try_next(self) -> BrokerAwayError | None:
        """One attempt at the next server; why it failed, if it did."""
        address = await self._servers.next(RECONNECT_S)
        try:
            login = None if self._login is None else self._login()
            protocol = await self._socket(address, login)
            self._info = protocol.info
            self._servers.learn(address, protocol.info.connect_urls)
            protocol.serve(self._all_subscriptions())
        except (OSError, MangroveError) as error:  # TimeoutError and ssl.SSLError are OSErrors
            log.debug("%s: %s", address, str(error) or "no answer")
            return error if isinstance(error, BrokerAwayError) else BrokerAwayError(str(error) or "no answer")
        self._protocol = protocol
        self._url = str(address)
        self._state = State.CONNECTED
        self._connection_counts.connects += 1
        self._there.set()
        self._shown = "" if login is None else login.nkey
        if self._shown and self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watch_login(), name="watch login")
        return None

    async def _socket(self, address: ServerAddress, login: BrokerLogin | None) -> ClientProtocol:
        return await open_socket(
            address, self._name, self._inlets, self._outgoing, self, ACCEPT_S, login=login, tls=self._tls
        )

    async def _come_back(self) -> None:
        warned = False
        while self._state is State.AWAY:
            failed = await self._try_next()
            if isinstance(failed, LoginRefusedError) and not warned:
                warned = True
                log.warning("%s: %s", self._servers.present, failed.message)
        if self.connected:
            log.info("connected to %s", self.url)
            if self._owner is not None:
                self._owner.back(self.url)

    def _all_subscriptions(self) -> bytes:
        return b"".join([inlet.sub_line for inlet in self._inlets.values()])

    # -- logging in anew ----------------------------------------------------------------------------------

    async def _watch_login(self) -> None:
        """Look for another key, and show it when brokers have had the time to learn of it."""
        assert self._login is not None, "who has none has nothing to watch"
        seen = self._shown
        while True:
            await asyncio.sleep(LOOK_S)
            present = self._login()
            if present.nkey not in (self._shown, "") and present.nkey == seen and self.connected:
                await self._log_in_anew(present)
            seen = present.nkey

    async def _log_in_anew(self, login: BrokerLogin) -> None:
        """Change to a socket that shows this login; the present one goes on if that does not come about."""
        old = self._protocol
        assert old is not None, "the connection is there"
        new: ClientProtocol | None = None
        try:
            new = await self._socket(self._servers.present, login)
            self._renewal = Renewal(self, self._inlets, old, new, self._marker_prefix)
            repeated = await self._renewal.run()
        except (OSError, MangroveError, RenewalError) as error:
            log.info("%s: still logged in by the key of before: %s", self.url, error)
            self._connection_counts.not_renewed += 1
        else:
            self._shown = login.nkey
            self._connection_counts.renewals += 1
            log.info("logged in anew at %s, %d messages came by both sockets", self.url, repeated)
        finally:
            self._renewal = None
            if new is not None and self._protocol is not new:
                new.end("not needed")

    def inlet(self, subject: str, sink: Sink, form: Form) -> Inlet:
        """A subscription that the server is not told of yet."""
        inlet = Inlet(self._next_sid, subject, "", sink, form, None)
        self._next_sid += 1
        self._inlets[inlet.sid] = inlet
        return inlet

    def forget(self, inlets: Iterable[Inlet]) -> None:
        """End subscriptions that nobody but the connection itself has."""
        for inlet in inlets:
            if self._inlets.pop(inlet.sid, None) is not None:
                self._outgoing.say(b"UNSUB %d\r\n" % inlet.sid)

    def serves(self, protocol: ClientProtocol) -> bool:
        """Whether a socket is the connection's at the moment."""
        return self.connected and self._protocol is protocol

    def hold_for(self, new: ClientProtocol) -> None:
        """What is said from now on waits for another socket."""
        self._steady.clear()
        self._outgoing.hold()
        self._received_before = self._received()
        self._protocol = new

    def go_on_with(self, new: ClientProtocol, first: bytes) -> None:
        """The other socket is the connection's from now on; `first` is said before what has waited."""
        self._info = new.info
        self._steady.set()
        try:
            new.serve(first)
        except BrokerAwayError as error:
            self.socket_lost(new, "the broker closed the connection", error.message)
            raise

    # -- what a socket tells ------------------------------------------------------------------------------

    def socket_lost(self, protocol: ClientProtocol, reason: str, why: str) -> None:
        """Look for another server."""
        self._received_before = self._received()
        self._protocol = None
        self._outgoing.detach()
        for inlet in self._inlets.values():
            inlet.denial = None  # the next broker may see it otherwise
        if self._state is State.CLOSED:
            return
        self._state = State.AWAY
        self._there.clear()
        self._connection_counts.lost[reason] += 1
        log.info("lost %s: %s", self.url, why)
        self._returning = asyncio.get_running_loop().create_task(self._come_back(), name="reconnect")
        if self._owner is not None:
            self._owner.lost(self.url, reason)

    def complained(self, what: str) -> None:
        """Count it, and say so; what is not allowed is told to who asked for it."""
        denial = parse_denial(what)
        if denial is not None:
            self._denied(denial)
        word = what.partition(" for ")[0].partition('"')[0].strip()[:60]
        errors = self._connection_counts.errors
        if word not in errors and len(errors) >= MAX_ERROR_WORDS:
            word = "other"
        errors[word] += 1
        if errors[word] == 1:
            log.warning("the broker %s complains: %s", self.url, what)

    def _denied(self, denial: Denial) -> None:
        denied = self._connection_counts.denied
        key = str(denial)
        denied[key if key in denied or len(denied) < MAX_DENIALS else "other"] += 1
        inlet = None if denial.publishing else self._inlet_of(denial)
        if inlet is not None:
            inlet.denial = denial
        self._requests.denied(denial)
        if self._told_denials is not None:
            self._told_denials(denial, inlet)

    def _inlet_of(self, denial: Denial) -> Inlet | None:
        """The subscription that is meant: by its number, or the last one that was asked for so."""
        if denial.sid is not None:
            return self._inlets.get(denial.sid)
        for inlet in reversed(self._inlets.values()):
            if (inlet.subject, inlet.queue) == (denial.subject, denial.queue) and inlet.denial is None:
                return inlet
        return None

    def denial(self, subscribed: Subscribed) -> Denial | None:
        """Why the broker does not serve a subscription, if it does not."""
        assert isinstance(subscribed, Inlet), "a subscription of this connection"
        return subscribed.denial

    def when_denied(self, told: OnDenied | None) -> None:
        """Whom to tell."""
        self._told_denials = told

    def informed(self, info: ServerInfo) -> None:
        """Take in what is new; a server that is about to go is left, if there is another."""
        self._info = info
        self._servers.learn(self._servers.present, info.connect_urls)
        if info.ldm and len(self._servers) > 1 and self._leaving is None and self._protocol is not None:
            self._leaving = asyncio.get_running_loop().create_task(self._leave(self._protocol), name="leave")

    async def _leave(self, protocol: ClientProtocol) -> None:
        """Go elsewhere when the server has taken what was said so far."""
        try:
            async with asyncio.timeout(ACCEPT_S):
                await protocol.ping()
        except (TimeoutError, BrokerAwayError):
            pass
        finally:
            self._leaving = None
        protocol.end("the broker asked its clients to leave")

    # -- publishing ---------------------------------------------------------------------------------------

    def publish(self, subject: str, payload: bytes, *, reply: str = "", head: bytes = b"") -> None:
        """Publish; it leaves at the end of the event loop's turn."""
        to = f"{subject} {reply}" if reply else subject
        size_bytes = len(head) + len(payload)
        line = f"HPUB {to} {len(head)} {size_bytes}\r\n" if head else f"PUB {to} {size_bytes}\r\n"
        self._outgoing.add(b"".join((line.encode(), head, payload, b"\r\n")))

    def recall(self, subjects: Container[bytes]) -> None:
        """Forget what waits for the next broker of these subjects."""
        self._outgoing.recall(subjects)

    def outlet(self, subject: str, head_form: bytes) -> Outlet:
        """A quick way to publish on a subject."""
        return NatsOutlet(self._outgoing, subject, head_form)

    async def drained(self) -> None:
        """Wait until there is room."""
        await self._outgoing.drained()

    # -- subscribing --------------------------------------------------------------------------------------

    def subscribe(
        self, subject: str, sink: Sink, *, queue: str = "", form: Form = RawMessage, origin: Any = None
    ) -> Inlet:
        """Ask for the messages of a subject or pattern."""
        if self._state is State.CLOSED:
            raise BrokerAwayError("the connection is closed")
        inlet = Inlet(self._next_sid, subject, queue, sink, form, origin)
        self._next_sid += 1
        self._inlets[inlet.sid] = inlet
        self._outgoing.say(inlet.sub_line)
        return inlet

    def redirect(
        self, subscribed: Subscribed, sink: Sink, *, form: Form = RawMessage, origin: Any = None
    ) -> None:
        """Hand what comes from the next buffer on to another sink."""
        inlet = subscribed
        assert isinstance(inlet, Inlet), "a subscription of this connection"
        if self._renewal is None or not self._renewal.redirect(inlet, sink, form, origin):
            self.redirect_at_once(inlet, sink, form, origin)

    def redirect_at_once(self, inlet: Inlet, sink: Sink, form: Form, origin: Any) -> None:
        """The same, whatever else is going on."""
        if self._inlets.get(inlet.sid) is inlet:
            inlet.sink, inlet.form, inlet.origin = sink, form, origin

    def unsubscribe(self, subscribed: Subscribed) -> None:
        """End a subscription."""
        inlet = subscribed
        assert isinstance(inlet, Inlet), "a subscription of this connection"
        if self._inlets.get(inlet.sid) is not inlet:
            return
        del self._inlets[inlet.sid]
        # Lines that are known still lead to it.
        inlet.sink, inlet.form, inlet.origin = no_sink, no_message, None
        self._outgoing.say(b"UNSUB %d\r\n" % inlet.sid)

    # -- asking -------------------------------------------------------------------------------------------

    async def flush(self, timeout_s: float) -> None:
        """Wait until the broker has taken all that was said so far."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._there.wait()
                if self._protocol is None:
                    raise BrokerAwayError("the connection is closed")
                await self._protocol.ping()
        except TimeoutError:
            raise TimeoutError(f"the broker {self.url} did not confirm within {timeout_s:g} s") from None

    def probe(self) -> None:
        """Have the broker say something, if it is there."""
        if self._protocol is not None:
            self._protocol.probe()

    def abandon(self, reason: str) -> None:
        """Take the broker for dead and look for the next one."""
        if self._protocol is not None:
            self._protocol.end(reason)

    async def request(
        self,
        subject: str,
        payload: bytes,
        *,
        timeout_s: float,
        head: bytes = b"",
        form: Form = RawMessage,
        origin: Any = None,
    ) -> Any:
        """The first answer."""
        return await self._requests.ask(subject, payload, head, timeout_s, form, origin)
