"""Headers of the federation's messages against AMQP's properties and header tables.

Each property has a header of its own; all other headers stand in the table, as text. Names that begin with
`x-`, and `CC` and `BCC`, tell RabbitMQ and its plugins what to do, and cross no border in either direction.
The QoS that an MQTT client published with has a header at brokers of either kind, and is translated.
"""

from __future__ import annotations

import hashlib
import struct
from datetime import UTC, datetime

import msgspec
from pamqp import commands
from pamqp.common import FieldValue

from mangrove.broker.message_heads import decode_head, encode_head, header_problem
from mangrove.broker.rabbitmq.wire.frames import shortstr
from mangrove.model.shared_names import ID_HEADER

VIA_HEADER = "Mangrove-Via"
"""Every message that a gateway publishes has it: so the broker does not hand it back to the gateway."""
GROUP_PREFIX = "Mangrove-Group-"
"""Names a queue group that a message is to be served by."""
NATS_ID_HEADER = "Nats-Msg-Id"
CORRELATION_HEADER = "Correlation-Id"
MQTT_QOS, NATS_MQTT_QOS = "x-mqtt-publish-qos", "Nmqtt-Pub"
_FROM_MQTT = b"NATS/1.0\r\nNmqtt-Pub:1\r\n\r\n"
"""As nats-server itself writes it: MQTT subscribers of NATS are served by this head alone."""
_QOS_DIGITS = ("0", "1", "2")
_MAX_MQTT_QOS = 1
"""RabbitMQ's plugin has no more."""
MAX_SHORT = 255
PERSISTENT = b"\x02"

# Bits of the property flags, in the order in which properties stand.
CONTENT_TYPE, CONTENT_ENCODING, HEADERS, DELIVERY_MODE, PRIORITY = (1 << bit for bit in range(15, 10, -1))
CORRELATION_ID, REPLY_TO, EXPIRATION, MESSAGE_ID, TIMESTAMP, TYPE = (1 << bit for bit in range(10, 4, -1))
APP_ID = 1 << 3

_TEXTS = {
    "Content-Type": CONTENT_TYPE,
    "Content-Encoding": CONTENT_ENCODING,
    CORRELATION_HEADER: CORRELATION_ID,
    NATS_ID_HEADER: MESSAGE_ID,
    "Amqp-Type": TYPE,
    "Amqp-App-Id": APP_ID,
}
_NUMBERS = {
    "Amqp-Expiration": (EXPIRATION, 1 << 32),
    "Amqp-Priority": (PRIORITY, 1 << 8),
    "Amqp-Timestamp": (TIMESTAMP, 1 << 63),
}
"""Properties that are numbers, and what they must be below: RabbitMQ closes a channel for others."""
_LENGTH = struct.Struct(">L")
_FLAGS = struct.Struct(">H")


class Described(msgspec.Struct, frozen=True):
    """What stands beside the body of a message of the domain."""

    head: bytes = b""
    reply_to: str = ""
    correlation_id: str = ""
    message_id: str = ""
    left_out: int = 0
    """Headers that are not text, or not such as can travel."""


class PropertyWriter:
    """Makes the properties of messages that come into a domain, or that a client of the SDK publishes."""

    def __init__(self, gateway: str) -> None:
        """Messages of a `gateway` are marked; a client has none."""
        self._via = [_entry(VIA_HEADER.encode(), gateway.encode())] if gateway else []

    def properties(
        self,
        head: bytes = b"",
        *,
        reply_to: str = "",
        correlation_id: str = "",
        groups: tuple[str, ...] = (),
    ) -> bytes:
        """Flags and properties for a header frame; who asks is told by `reply_to` and `correlation_id`.

        One member of each of these `groups` gets the message.
        """
        texts: dict[int, bytes] = {DELIVERY_MODE: PERSISTENT}
        table = [*self._via, *(_entry(group_header(each).encode(), each.encode()) for each in groups)]
        identity = ""
        for name, value in decode_head(head).items() if head else ():
            if name == ID_HEADER:
                identity = value
            flag = _TEXTS.get(name, 0)
            if name in _NUMBERS and (number := _number(name, value)):
                texts[_NUMBERS[name][0]] = number
            elif flag and len(value.encode()) <= MAX_SHORT and not (flag == CORRELATION_ID and reply_to):
                texts[flag] = shortstr(value.encode())
            elif name == NATS_MQTT_QOS and value in _QOS_DIGITS:
                table.append(shortstr(MQTT_QOS.encode()) + b"b" + bytes((min(int(value), _MAX_MQTT_QOS),)))
            elif not is_brokers_own(name) and len(name.encode()) <= MAX_SHORT:
                table.append(_entry(name.encode(), value.encode()))
        if identity and MESSAGE_ID not in texts and len(identity.encode()) <= MAX_SHORT:
            texts[MESSAGE_ID] = shortstr(identity.encode())
        if reply_to:
            texts[REPLY_TO] = shortstr(reply_to.encode())
        if correlation_id:
            texts[CORRELATION_ID] = shortstr(correlation_id.encode())
        entries = b"".join(table)
        texts[HEADERS] = _LENGTH.pack(len(entries)) + entries
        flags = sum(texts)
        return _FLAGS.pack(flags) + b"".join(texts[flag] for flag in sorted(texts, reverse=True))


def group_header(group: str) -> str:
    """The header that names a queue group; names of headers are short."""
    if len(group.encode()) <= MAX_SHORT - len(GROUP_PREFIX):
        return GROUP_PREFIX + group
    return GROUP_PREFIX + hashlib.sha256(group.encode()).hexdigest()


def is_brokers_own(name: str) -> bool:
    """Whether a header tells a broker what to do, and so stays in its domain."""
    lowered = name.lower()
    return (
        lowered.startswith("x-")
        or lowered in ("cc", "bcc")
        or name == VIA_HEADER
        or name.startswith(GROUP_PREFIX)
    )


def read_properties(raw: bytes) -> Described:
    """What a header frame says, flags first; ValueError if it cannot be read."""
    if raw == b"\x00\x00":
        return Described()
    found = _unmarshalled(raw)
    headers: dict[str, str] = {}
    left_out = 0
    for name, value in (found.headers or {}).items():
        if is_brokers_own(name):
            continue
        text = _text(value)
        if text is None or header_problem(name, text):
            left_out += 1
        else:
            headers[name] = text
    known = {
        "Content-Type": found.content_type,
        "Content-Encoding": found.content_encoding,
        CORRELATION_HEADER: found.correlation_id,
        NATS_ID_HEADER: None if found.message_id == headers.get(ID_HEADER) else found.message_id,
        "Amqp-Type": found.message_type,
        "Amqp-App-Id": found.app_id,
        "Amqp-Expiration": found.expiration,
        "Amqp-Priority": None if found.priority is None else str(found.priority),
        "Amqp-Timestamp": None if found.timestamp is None else str(_seconds(found.timestamp)),
    }
    headers |= {name: text for name, text in known.items() if text and not header_problem(name, text)}
    head = encode_head(headers) if headers else b""
    if not head and (found.headers or {}).get(MQTT_QOS) == _MAX_MQTT_QOS:
        head = _FROM_MQTT
    return Described(
        head,
        found.reply_to or "",
        found.correlation_id or "",
        found.message_id or "",
        left_out,
    )


def read_table(raw: bytes) -> dict[str, FieldValue]:
    """The header table alone, as RabbitMQ's events have it; ValueError if it cannot be read."""
    return _unmarshalled(raw).headers or {}


def _unmarshalled(raw: bytes) -> commands.Basic.Properties:
    """Any client of the broker may have made it: tables in tables without end, names that are no text."""
    found = commands.Basic.Properties()
    try:
        found.unmarshal(_FLAGS.unpack_from(raw)[0], raw[2:])
    except (LookupError, TypeError, ArithmeticError, RecursionError, struct.error) as error:
        raise ValueError(f"properties that cannot be read: {error}") from error
    return found


def _seconds(moment: datetime) -> int:
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def _text(value: FieldValue) -> str | None:
    """A value of a table as a header's; None for what has parts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, datetime):
        return str(_seconds(value))
    return None


def _number(name: str, value: str) -> bytes:
    flag, most = _NUMBERS[name]
    if not (value.isascii() and value.isdigit() and len(value) < 20 and int(value) < most):
        return b""
    if flag == PRIORITY:
        return bytes((int(value),))
    return struct.pack(">Q", int(value)) if flag == TIMESTAMP else shortstr(value.encode())


def _entry(name: bytes, value: bytes) -> bytes:
    return shortstr(name) + b"S" + _LENGTH.pack(len(value)) + value
