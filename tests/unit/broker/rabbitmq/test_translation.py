"""Headers, ways back, bindings and repetitions, without a broker."""

from __future__ import annotations

import pytest
from pamqp import commands, header

from mangrove.broker.message_heads import encode_head
from mangrove.broker.rabbitmq.address import parse_address
from mangrove.broker.rabbitmq.exchange.bindings import Binding, BindingBook, event_binding
from mangrove.broker.rabbitmq.exchange.patterns import is_exact
from mangrove.broker.rabbitmq.messages.inbound import ODD_HEADER, Inbound
from mangrove.broker.rabbitmq.messages.properties import PropertyWriter, read_properties, read_table
from mangrove.broker.rabbitmq.messages.repeats import Repeats
from mangrove.broker.rabbitmq.messages.replies import ReplyTokens, is_way_back
from mangrove.broker.rabbitmq.watching.refusals import read_refusal
from mangrove.broker.rabbitmq.wire.frames import Delivery
from mangrove.model.audit.entry import AuditKind
from mangrove.overlay.protocol.bodies import Entry


def raw(**properties: object) -> bytes:
    """Properties as a client of another maker would send them."""
    made = header.ContentHeader(0, 0, commands.Basic.Properties(**properties))  # type: ignore[arg-type]
    return made.marshal()[12:]


def test_headers_go_into_the_domain_and_out_again() -> None:
    head = encode_head(
        {
            "Mangrove-Id": "abc.1",
            "Content-Type": "text/plain",
            "Correlation-Id": "c",
            "Amqp-Expiration": "5000",
            "Amqp-Priority": "7",
            "Colour": "grün",
        }
    )
    described = read_properties(PropertyWriter("gateway-a").properties(head))
    assert described.message_id == "abc.1"
    assert described.correlation_id == "c"
    text = described.head.decode()
    for line in ("Colour: grün", "Content-Type: text/plain", "Amqp-Expiration: 5000", "Amqp-Priority: 7"):
        assert f"{line}\r\n" in text
    assert "Mangrove-Via" not in text


@pytest.mark.parametrize(
    ("name", "value"),
    [("Amqp-Expiration", "soon"), ("Amqp-Priority", "256"), ("Amqp-Timestamp", "-1"), ("Amqp-Priority", "")],
)
def test_a_number_that_is_none_is_an_ordinary_header(name: str, value: str) -> None:
    """RabbitMQ closes the channel of who sends such a property."""
    properties = PropertyWriter("g").properties(encode_head({name: value}))
    found = commands.Basic.Properties()
    found.unmarshal(int.from_bytes(properties[:2]), properties[2:])
    assert found.expiration is None
    assert found.priority is None
    assert found.timestamp is None
    assert (found.headers or {})[name] == value


def test_what_tells_a_broker_what_to_do_crosses_no_border() -> None:
    head = encode_head(
        {"CC": "everybody", "x-mqtt-publish-qos": "1", "X-Delay": "9", "bcc": "me", "Kept": "1"}
    )
    found = commands.Basic.Properties()
    properties = PropertyWriter("g").properties(head)
    found.unmarshal(int.from_bytes(properties[:2]), properties[2:])
    assert found.headers == {"Mangrove-Via": "g", "Kept": "1"}

    out = read_properties(raw(headers={"x-death": "y", "CC": "z", "Mangrove-Via": "g", "Kept": "1"}))
    assert out.head == encode_head({"Kept": "1"})
    assert out.left_out == 0


def test_headers_that_are_not_text_are_left_out_and_counted() -> None:
    out = read_properties(raw(headers={"list": [1], "table": {"a": 1}, "flag": True, "many words": "x"}))
    assert out.head == encode_head({"flag": "true"})
    assert out.left_out == 3


def test_headers_are_counted_of_each_message_from_which_they_were_left_out() -> None:
    counted: list[str] = []
    taken: list[bytes] = []

    class Sorter:
        def __init__(self) -> None:
            self.known: dict[bytes, Entry] = {}

        def resolve(self, line: bytes) -> Entry:
            raise NotImplementedError

        def take(self, body: bytes) -> None:
            taken.append(body)

    inbound = Inbound(Sorter(), counted.append, ReplyTokens())
    properties = raw(headers={"list": [1], "flag": True})
    for tag in range(3):
        inbound.published(Delivery(b"out", tag, False, b"a.b", properties, b"body"))
    inbound.hand_over()
    assert taken[0].count(b"flag: true") == 3
    assert counted == [ODD_HEADER] * 3


def test_a_way_back_is_only_believed_by_who_made_it() -> None:
    tokens, others = ReplyTokens(), ReplyTokens()
    subject = tokens.subject("amq.gen-x", "7")
    assert subject.startswith("_AMQP.")
    assert " " not in subject
    assert tokens.queue_of(subject) == ("amq.gen-x", "7")
    assert others.queue_of(subject) is None
    for forged in ("_AMQP.", "_AMQP.x", "_AMQP.%%%", subject[:-2], subject.lower()):
        assert tokens.queue_of(forged) is None


def test_the_qos_of_mqtt_is_told_to_brokers_of_either_kind() -> None:
    head = b"NATS/1.0\r\nNmqtt-Pub:1\r\n\r\n"
    assert read_properties(raw(headers={"x-mqtt-publish-qos": 1, "x-mqtt-dup": False})).head == head
    assert read_properties(raw(headers={"x-mqtt-publish-qos": 0, "x-mqtt-dup": False})).head == b""
    for qos, told in ((b"0", 0), (b"1", 1), (b"2", 1)):
        made = PropertyWriter("").properties(head.replace(b":1", b":" + qos))
        assert read_table(made) == {"x-mqtt-publish-qos": told}
    for odd in ("²", "9" * 5_000, "-1", ""):
        made = PropertyWriter("").properties(head.replace(b":1", b":" + odd.encode()))
        assert read_table(made) == {"Nmqtt-Pub": odd}


def test_an_answer_leads_where_a_gateway_asked_from() -> None:
    assert is_way_back("_MGR.geneva._INBOX.x")
    assert not is_way_back("orders.new")
    assert not is_way_back("_MGR.geneva._INBOX.x y")
    assert not is_way_back("")


def test_interest_begins_with_the_first_binding_and_ends_with_the_last() -> None:
    told: list[tuple[str, bool]] = []
    unheard: list[int] = []
    book = BindingBook(lambda pattern, _, wanted: told.append((pattern, wanted)), lambda: unheard.append(1))
    book.begin([Binding("queue", "q1", "a.#"), Binding("queue", "q2", "a"), Binding("queue", "q3", "a..b")])
    assert told == [("a", True), ("a.>", True)]
    assert unheard == [1]
    told.clear()
    book.created(Binding("queue", "q2", "a"))
    book.deleted(Binding("queue", "q1", "a.#"))
    assert told == [("a.>", False)]
    book.deleted(Binding("queue", "q1", "a.#"))
    book.deleted(Binding("queue", "q2", "a"))
    assert told == [("a.>", False), ("a", False)]
    told.clear()
    book.begin([Binding("queue", "q2", "a")])
    assert told == [("a", True)]


def test_a_queue_is_the_group_of_its_name_where_groups_are_bound() -> None:
    told: list[tuple[str, str, bool]] = []
    book = BindingBook(lambda *what: told.append(what), lambda: None)
    book.created(Binding("queue", "q", "a"))
    book.created(Binding("queue", "q", "a", "", "q"))
    book.deleted(Binding("queue", "q", "a"))
    assert told == [("a", "", True), ("a", "q", True), ("a", "", False)]


@pytest.mark.parametrize("key", ["a.b", "a.*", "#", "a.#", "a.*.#", "#.*", "a.#.#.*"])
def test_keys_that_patterns_say_exactly(key: str) -> None:
    assert is_exact(key)


@pytest.mark.parametrize("key", ["#.b", "a.#.b", "a.#.*.b"])
def test_keys_that_patterns_say_more_widely(key: str) -> None:
    assert not is_exact(key)


def test_events_at_other_exchanges_are_not_ours() -> None:
    event = {
        "source_name": "amq.topic",
        "vhost": "/",
        "destination_kind": "queue",
        "destination_name": "q",
        "routing_key": "a.*",
        "arguments": {"b": 1, "a": "x"},
    }
    assert event_binding(event, "amq.topic", "mangrove.groups", "/") == Binding(
        "queue", "q", "a.*", "a=x,b=1"
    )
    assert event_binding(
        {**event, "source_name": "mangrove.groups", "arguments": {}}, "amq.topic", "mangrove.groups", "/"
    ) == Binding("queue", "q", "a.*", "", "q")
    assert event_binding({**event, "source_name": "orders"}, "amq.topic", "mangrove.groups", "/") is None
    assert event_binding({**event, "vhost": "other"}, "amq.topic", "mangrove.groups", "/") is None


def test_only_what_is_marked_and_was_handed_on_is_a_repetition() -> None:
    repeats = Repeats(most=2)
    assert not repeats.is_repeated("1", b"k", b"x", marked=False)
    assert not repeats.is_repeated("1", b"k", b"x", marked=False), "another publisher's first"
    assert repeats.is_repeated("1", b"k", b"x", marked=True)
    assert not repeats.is_repeated("1", b"k", b"y", marked=True)
    assert not repeats.is_repeated("2", b"k", b"x", marked=True), "it never came here"
    assert not repeats.is_repeated("1", b"k", b"x", marked=True), "that is too long ago"
    assert repeats.found == 1


def test_a_url_tells_all_that_is_used_of_a_broker() -> None:
    address = parse_address("amqps://anna:p%40ss@[::1]:5671/plant%2Fa?exchange=orders&management=https://h:1")
    assert (address.host, address.port, address.encrypted) == ("::1", 5671, True)
    assert (address.user, address.password, address.vhost) == ("anna", "p@ss", "plant/a")
    assert (address.exchange, address.management) == ("orders", "https://h:1")
    assert "p@ss" not in repr(address)
    plain = parse_address("amqp://host")
    assert (plain.port, plain.user, plain.vhost, plain.exchange) == (5672, "guest", "/", "amq.topic")
    assert plain.management == "http://host:15672"


def test_refusals_are_read_from_the_log() -> None:
    line = (
        b"2026-11-18 02:22:24.1+00:00 [error] <0.9.0> Error on AMQP connection <0.9.0> (127.0.0.1:5 -> "
        b"127.0.0.1:6, state: starting): PLAIN login refused: user 'anna' - invalid credentials"
    )
    found = read_refusal(line)
    assert found is not None
    assert (found.host, found.user, found.way) == ("127.0.0.1", "anna", "client")
    line = (
        b"2026-11-18 03:08:43.5+00:00 [error] <0.1378.0> operation basic.publish caused a channel exception "
        b"access_refused: access to topic 'secret.x' in exchange 'amq.topic' in vhost '/' "
        b"refused for user 'ben'"
    )
    found = read_refusal(line)
    assert found is not None
    assert (found.kind, found.user) == (AuditKind.SUBJECT_REFUSED, "ben")
    assert found.what.startswith("topic 'secret.x'")
    assert read_refusal(b"2026 [info] <0.9.0> user 'anna' authenticated") is None
