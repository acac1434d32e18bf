"""Samples what passes a head broker: a bare client connection that counts messages and reads their stamps.

The tap asks only for what somebody in the domain already asks for. A tap on `>` would look to the gateway
like a subscriber to everything, and the whole federation would send this domain all of its traffic
(docs/decisions/0301-the-tap-asks-for-what-is-wanted.md).

Its cost is bounded: each second it may take so many messages and bytes, and a message on a topic not met
before counts for several; when they are used up it unsubscribes until the next second, and what it counted is
scaled up. A quiet domain is counted completely. It follows a bounded number of patterns, those with the
greatest weight; how many it leaves out is known.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from heapq import nlargest
from typing import cast

import msgspec

from mangrove import __version__
from mangrove.broker.client_connection import BrokerAwayError
from mangrove.broker.nats.client.greeting import (
    ServerAddress,
    ServerInfo,
    connect_lines,
    parse_address,
    parse_info,
)
from mangrove.errors import MangroveError
from mangrove.host.keys.login import BrokerLogin, LoginSource
from mangrove.model.patterns.cover import PatternCover
from mangrove.model.patterns.trie import SubjectTrie
from mangrove.model.shared_names import KEYWORDS_HEADER, TAP_NAME, TIME_HEADER
from mangrove.model.telemetry import LATENCY_BINS, latency_bin
from mangrove.overlay.protocol.bodies import CRLF, Entry, WireError, scan

BUDGET_MESSAGES = 4000
BUDGET_BYTES = 8 << 20
CONNECT_TIMEOUT_S = 2.0
MAX_KNOWN_LINES = 1 << 14
MAX_PATTERNS = 1000
NEW_LINE_COST = 4
"""A control line not met before takes as long as so many that are known."""
MAX_TEXTS = 1000
TEXT_BYTES = 2048
"""So much is held of a text that may be sampled, until the second is over."""
_KEYWORDS = b"\r\n%b:" % KEYWORDS_HEADER.encode()
_STAMP = re.compile(rb"\r\n%s: ?(\d{1,20})\r\n" % TIME_HEADER.encode())


class TopicCount(msgspec.Struct):
    """What was seen of a topic in one second."""

    messages: int = 0
    size_bytes: int = 0
    latencies_ms: list[float] = msgspec.field(default_factory=list)

    def histogram(self) -> list[int]:
        """Measured messages by latency."""
        bins = [0] * LATENCY_BINS
        for latency in self.latencies_ms:
            bins[latency_bin(latency)] += 1
        return bins


class TextSample(msgspec.Struct, frozen=True):
    """Of one message, the beginning of its keywords header and of its body."""

    keywords: bytes
    body: bytes
    cut: bool
    """Whether the body goes on."""


class Slice(msgspec.Struct):
    """What the tap saw of one second, not yet scaled: `share` of it was listened to."""

    share: float
    topics: dict[str, TopicCount]
    texts: dict[str, TextSample] = {}
    """The last message of each topic whose text may be sampled."""

    @property
    def messages(self) -> int:
        """All messages counted."""
        return sum(topic.messages for topic in self.topics.values())

    @property
    def error_ratio(self) -> float | None:
        """Standard deviation of the scaled-up count over the count, for arrivals at random."""
        count = self.messages
        return None if not count or not self.share else float(((1.0 - self.share) / count) ** 0.5)

    def scaled(self, count: int) -> int:
        """A count of the whole second."""
        return round(count / self.share) if self.share else 0


class Tap(asyncio.Protocol):
    """One connection to a head broker. Subscribes by `follow`, is read by `take`."""

    def __init__(
        self,
        url: str,
        budget_messages: int = BUDGET_MESSAGES,
        *,
        max_patterns: int = MAX_PATTERNS,
        login: LoginSource | None = None,
        may_sample: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`may_sample` says of which topics texts may be kept."""
        self.left_out = 0
        """Patterns that are wanted and not followed, because there are too many."""
        self._url = url
        self._login = login
        self._budget_messages = budget_messages
        self._max_patterns = max_patterns
        self._transport: asyncio.Transport | None = None
        self._held = bytearray()
        self._known: dict[bytes, Entry] = {}
        self._topics: dict[str, TopicCount] = {}
        self._may_sample = may_sample
        self._texts: dict[str, TextSample] = {}
        self._patterns: frozenset[str] = frozenset()
        self._sids: dict[str, int] = {}
        self._wildcards: SubjectTrie[int] = SubjectTrie()
        self._next_sid = 1
        self._listening = False
        self._listened_s = 0.0
        self._since = 0.0
        self._started = 0.0
        self._work = 0
        self._bytes = 0
        self._ready = asyncio.Event()
        self._greeted: asyncio.Future[ServerInfo] | None = None

    # -- life ---------------------------------------------------------------------------------------------

    async def connect(self) -> bool:
        """Connect if needed; whether the tap is connected."""
        if self._transport is not None:
            return True
        address = parse_address(self._url)
        self._ready = asyncio.Event()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                loop = asyncio.get_running_loop()
                self._greeted = loop.create_future()
                await loop.create_connection(lambda: self, address.host, address.port)
                login = None if self._login is None else self._login()
                nonce = "" if login is None else await self._encrypted(address, login)
                self._write(connect_lines(TAP_NAME, address, __version__, login, nonce))
                await self._ready.wait()
        except (OSError, TimeoutError, MangroveError):
            self.close()
            return False
        self._started = time.monotonic()
        return True

    async def _encrypted(self, address: ServerAddress, login: BrokerLogin) -> str:
        """Encrypt as the login wants it; what the broker wants signed."""
        assert self._greeted is not None
        info = await self._greeted
        if login.tls is not None and self._transport is not None:
            if not (info.tls_required or info.tls_available):
                raise BrokerAwayError(f"{address} offers no TLS")
            loop = asyncio.get_running_loop()
            self._transport = await loop.start_tls(
                self._transport, self, login.tls, server_hostname=address.host
            )
        return info.nonce

    def close(self) -> None:
        """Let go of the connection."""
        if self._transport is not None:
            self._transport.close()
        self._transport = None
        self._patterns = frozenset()
        self._listening = False
        self._held.clear()

    # -- sampling -----------------------------------------------------------------------------------------

    @property
    def following(self) -> bool:
        """Whether it has been told what to listen to."""
        return bool(self._patterns)

    def follow(self, wanted: Mapping[str, int] | Iterable[str]) -> None:
        """Subscribe to these patterns, each with its weight or as often as it is named, and to no others.

        Only what differs from before is told to the broker. Also renews the budget.
        """
        weights: Mapping[str, int] = PatternCover(Counter(wanted)).weights
        patterns: Iterable[str] = weights
        if len(weights) > self._max_patterns:
            # Among equals those that are followed already stay.
            followed = self._patterns
            patterns = nlargest(self._max_patterns, weights, key=lambda p: 2 * weights[p] + (p in followed))
        self._patterns = frozenset(patterns)
        self.left_out = len(weights) - len(self._patterns)
        if self._listening:
            self._change()
        self.resume()

    def resume(self) -> None:
        """Go on listening, with a new budget; called once a second."""
        if not self._listening and self._patterns and self._transport is not None:
            self._sids.clear()
            self._wildcards = SubjectTrie()
            self._known.clear()
            self._change()
            self._listening = True
            self._since = time.monotonic()

    def rest(self) -> None:
        """Stop listening: the broker is busy."""
        self._stop()
        self._patterns = frozenset()

    def _change(self) -> None:
        """Bring the subscriptions in line with the patterns."""
        lines = []
        for pattern in self._sids.keys() - self._patterns:
            sid = self._sids.pop(pattern)
            self._wildcards.remove(pattern, sid)
            lines.append(f"UNSUB {sid}\r\n")
        if lines:
            # Messages that it was to count are now counted by another subscription. One that is added takes
            # no message from those before it, because the first that matches counts.
            self._known.clear()
        for pattern in sorted(self._patterns - self._sids.keys()):
            sid = self._sids[pattern] = self._next_sid
            self._next_sid += 1
            if "*" in pattern or ">" in pattern:
                self._wildcards.add(pattern, sid)
            lines.append(f"SUB {pattern} {sid}\r\n")
        self._write("".join(lines).encode())

    def take(self) -> Slice:
        """What was seen since the last call."""
        now = time.monotonic()
        if self._listening:
            self._listened_s += now - self._since
            self._since = now
        elapsed = max(now - self._started, 1e-9)
        share = min(1.0, self._listened_s / elapsed) if self._patterns else 0.0
        seen = Slice(1.0 if share > 0.98 else share, self._topics, self._texts)
        self._topics, self._texts = {}, {}
        self._started, self._listened_s = now, 0.0
        self._work = self._bytes = 0
        return seen

    def _stop(self) -> None:
        if self._listening:
            self._write("".join(f"UNSUB {sid}\r\n" for sid in self._sids.values()).encode())
            self._listening = False
            self._listened_s += time.monotonic() - self._since

    # -- receiving ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the broker's INFO, which needs no answer."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The broker is gone; `connect` tries again."""
        self.close()

    def data_received(self, data: bytes) -> None:
        """Count the messages of a buffer, and stop for this second when the budget is used up."""
        self._held += data
        try:
            consumed = scan(bytes(self._held), self._known, self._resolve)
        except WireError:
            self.close()
            return
        del self._held[:consumed]
        self._bytes += len(data)
        if self._listening and (self._work > self._budget_messages or self._bytes > BUDGET_BYTES):
            self._stop()
        if len(self._known) > MAX_KNOWN_LINES:
            self._known.clear()

    def _resolve(self, line: bytes) -> Entry:
        verb, _, rest = line.partition(b" ")
        if verb in (b"MSG", b"HMSG"):
            return self._message(verb, line, rest)
        if verb == b"PING":
            self._write(b"PONG\r\n")
        elif verb == b"PONG":
            self._ready.set()
        elif verb == b"INFO" and self._greeted is not None and not self._greeted.done():
            self._greeted.set_result(parse_info(rest))
        elif verb == b"-ERR":
            raise WireError(rest.decode(errors="replace"))
        return Entry(len(CRLF), None)

    def _message(self, verb: bytes, line: bytes, rest: bytes) -> Entry:
        parts = rest.decode(errors="replace").split(" ")
        try:
            subject, sid, size = parts[0], int(parts[1]), int(parts[-1])
        except (IndexError, ValueError):
            raise WireError(f"malformed control line {line[:80]!r}") from None
        self._work += NEW_LINE_COST
        # A message that several patterns match comes once for each; it counts once.
        sids = self._wildcards.match(subject)
        if subject in self._sids:
            sids.add(self._sids[subject])
        counted = bool(sids) and sid == min(sids)
        headed = verb == b"HMSG"
        flow = _Counting(self, subject if counted else "", len(line), size, stamped=headed)
        if counted and self._may_sample(subject):
            flow.sampled_from = len(line) + len(CRLF), _header_bytes(parts) if headed else 0
        entry = self._known[line] = Entry(size + 4, flow, subject)
        return entry

    def book(self, subject: str, messages: int, size_bytes: int, stamps: list[int]) -> None:
        """Count messages of a topic."""
        self._work += messages
        if not subject:
            return
        topic = self._topics.setdefault(subject, TopicCount())
        topic.messages += messages
        topic.size_bytes += messages * size_bytes
        if stamps:
            now_ns = time.time_ns()
            topic.latencies_ms += [(now_ns - stamp) / 1e6 for stamp in stamps]

    def keep_text(self, subject: str, head: bytes, body: bytes) -> None:
        """Keep the beginning of one message; of each topic the last of a second, of so many topics."""
        if subject in self._texts or len(self._texts) < MAX_TEXTS:
            at = head.find(_KEYWORDS)
            value = head[at + len(_KEYWORDS) : head.find(CRLF, at + 2)] if at >= 0 else b""
            if len(value) > TEXT_BYTES:
                value = value[:TEXT_BYTES].rpartition(b",")[0]  # the last may be half a word
            self._texts[subject] = TextSample(value, body[:TEXT_BYTES], cut=len(body) > TEXT_BYTES)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and data:
            self._transport.write(data)


class _Counting:
    """The flow of one control line: all its messages are equally long."""

    __slots__ = ("_length", "_size", "_stamped", "_subject", "_tap", "sampled_from")

    def __init__(self, tap: Tap, subject: str, line_bytes: int, size: int, *, stamped: bool) -> None:
        self._tap = tap
        self._subject = subject
        self._length = line_bytes + size + 4
        self._size = size
        self._stamped = stamped
        self.sampled_from: tuple[int, int] | None = None
        """Where payloads begin and how long their headers are, if their texts may be sampled."""

    def take(self, messages: bytes) -> None:
        """Count a run of whole messages."""
        stamps = [int(stamp) for stamp in _STAMP.findall(messages)] if self._stamped else []
        self._tap.book(self._subject, len(messages) // self._length, self._size, stamps)
        if self.sampled_from is not None:
            begin, head_bytes = self.sampled_from
            last = messages[begin - self._length : -len(CRLF)]
            self._tap.keep_text(self._subject, last[:head_bytes], last[head_bytes:])


def _header_bytes(parts: list[str]) -> int:
    try:
        return int(parts[-2])
    except ValueError:
        raise WireError(f"malformed header size {parts[-2][:20]!r}") from None
