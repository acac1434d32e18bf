"""Which messages are transformed, and how dead letters are written."""

from __future__ import annotations

import pytest

from mangrove.broker.message_heads import decode_head
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.mediation.job import Job, Named, dead_letter, split, written
from mangrove.gateway.mediation.mediation import Mediation
from mangrove.model.federation import Domain, Federation
from mangrove.model.mediation.transform import Format, Place, Transform, TransformUse
from mangrove.model.subjects import MAX_SUBJECT_BYTES, matches
from mangrove.model.topics import Contract, TopicRules
from mangrove.model.versions.document import first_document
from mangrove.model.versions.rules_in_force import RulesInForce
from mangrove.model.versions.succession import fixed_mistakes, successor
from mangrove.overlay.protocol.bodies import Message, parse_message_line

USE = TransformUse(use="compact")
SENT = TransformUse(use="compact", at=Place.SENDING)
FEDERATION = Federation(
    name="f",
    domains={name: Domain(name=name, base_port=1) for name in "ab"},
    topics=TopicRules((Contract(match="x.>", transform=USE), Contract(match="y.>", transform=SENT))),
    transforms={"compact": Transform(encode=Format.MSGPACK)},
)
HEAD = b"NATS/1.0\r\nMangrove-Id: abcdefghijkl.00000000001\r\nA: b\r\n\r\n"


def mediation(rules: RulesInForce) -> Mediation:
    found = Mediation(FEDERATION, rules, Ledger("a", 1))
    found.join(lambda body, origin: None, lambda body: None, lambda subject: ())
    return found


async def test_messages_come_in_by_the_class_of_their_frame() -> None:
    """Also under contracts that were withdrawn, or that do not hold here yet."""
    first = first_document(FEDERATION)
    rules = RulesInForce(first.topics)
    mediated = mediation(rules)
    assert mediated.way_in(0) is not None
    assert mediated.way_in(1) is None, "it is transformed where it is sent"
    assert mediated.way_in(first.topics.unmatched) is None
    again = successor(
        first,
        (Contract(match="x.>"), Contract(match="y.>"), Contract(match="z", transform=USE)),
        by="",
        at="",
    )
    new = again.topics.class_of("z")
    assert mediated.way_in(new) is None
    rules.understand(again.topics)
    assert mediated.way_in(new) is not None
    rules.adopt(again.topics)
    mediated.contracts_changed()
    assert mediated.way_in(0) is not None, "frames under the old contract may still come"
    assert mediated.way_in(again.topics.class_of("x.1")) is None


async def test_messages_leave_by_the_contract_that_holds() -> None:
    mediated = mediation(RulesInForce(FEDERATION.topics))
    assert mediated.way_out("x.1") is None
    assert mediated.way_out("y.1") is not None
    assert mediated.way_out("z") is None
    everything = RulesInForce(TopicRules((Contract(match=">", transform=SENT),)))
    assert mediation(everything).way_out("dead.letter.x") is None, "or they would have dead letters"
    assert mediation(everything).way_out("_INBOX.x") is None


def test_a_transform_cannot_move_to_the_receiving_gateway_while_messages_flow() -> None:
    before = TopicRules((Contract(match="x.>", transform=USE),))
    sent = TopicRules((Contract(match="x.>", transform=SENT),))
    assert fixed_mistakes(sent, before), "what waits at the sending gateway would be transformed twice"
    assert not fixed_mistakes(before, sent)
    assert not fixed_mistakes(before, TopicRules((Contract(match="x.>"),)))
    other = TransformUse(use="other")
    assert not fixed_mistakes(before, TopicRules((Contract(match="x.>", transform=other),)))


def test_a_message_is_written_as_it_was_but_for_its_payload() -> None:
    payload = b"12345"
    message = Message("x.1", "_MGR.a._INBOX.1", len(HEAD), len(HEAD) + 5, ("g1", "g2"))
    line = message.line(message.subject, message.reply, message.groups)
    run = b"%b\r\n%b%b\r\n" % (line, HEAD, payload)
    jobs = split(run * 3, len(line), message, "b", None)
    assert [(job.head, job.payload) for job in jobs] == [(HEAD, payload)] * 3
    assert written(message, HEAD, payload) == run
    longer = written(message, HEAD, b"1234567")
    assert longer.endswith(HEAD + b"1234567\r\n")
    assert parse_message_line(longer.partition(b"\r\n")[0]).size_bytes == len(HEAD) + 7


def test_a_dead_letter_keeps_what_it_tells_of() -> None:
    use = Named("compact", None)
    job = Job(Message("x.1", "", len(HEAD), len(HEAD) + 5), "b", HEAD, b"12345", use)
    line, _, rest = dead_letter(job, "it\r\nfailed: \x00", ("g",), 1 << 16).partition(b"\r\n")
    message = parse_message_line(line)
    assert (message.subject, message.reply, message.groups) == ("dead.letter.x.1", "", ("g",))
    head, payload = rest[: message.header_bytes], rest[message.header_bytes :]
    assert head.startswith(HEAD.removesuffix(b"\r\n")), "the id stays in front"
    assert decode_head(head) == {
        "Mangrove-Id": "abcdefghijkl.00000000001",
        "A": "b",
        "Mangrove-Dead-Reason": "it failed:",
        "Mangrove-Dead-Transform": "compact",
        "Mangrove-Dead-Subject": "x.1",
    }
    assert payload == b"12345\r\n"


@pytest.mark.parametrize("end", ["\r\n", "\n"])
@pytest.mark.parametrize(
    "name", ["Mangrove-Dead-Cut", "mangrove-dead-cut", " MANGROVE-DEAD-CUT ", "Mangrove-Dead-X"]
)
def test_a_message_cannot_falsify_what_its_dead_letter_tells(name: str, end: str) -> None:
    head = f"NATS/1.0\r\nA: b{end}{name}: 99{end}{name}: 98\r\nMangrove-Dead: c\r\n\r\n".encode()
    for max_bytes in (1 << 16, 300):
        job = Job(
            Message("x.1", "", len(head), len(head) + 400), "b", head, b"1" * 400, Named("compact", None)
        )
        line, _, rest = dead_letter(job, "failed", (), max_bytes).partition(b"\r\n")
        told = rest[: parse_message_line(line).header_bytes]
        assert b"99" not in told
        assert b"98" not in told
        headers = decode_head(told)
        assert (headers["A"], headers["Mangrove-Dead"]) == ("b", "c")
        assert headers.get("Mangrove-Dead-Cut", "") == ("" if max_bytes > 300 else "400")
        assert told.endswith(b"\r\n\r\n")


def test_a_dead_letter_is_no_larger_than_a_message_may_be() -> None:
    for size in (0, 500, 900, 1000):
        job = Job(Message("x.1", "", -1, size), "b", b"", b"x" * size, Named("compact", None))
        line, _, rest = dead_letter(job, "failed", (), 1000).partition(b"\r\n")
        message = parse_message_line(line)
        assert message.size_bytes <= 1000
        assert len(rest) == message.size_bytes + 2
        headers = decode_head(rest[: message.header_bytes])
        assert headers.get("Mangrove-Dead-Cut", "") == ("" if size < 850 else str(size))


def test_what_has_too_long_a_subject_is_told_where_all_are_looked_for() -> None:
    long = "x." + "y" * (MAX_SUBJECT_BYTES - 4)
    job = Job(Message(long, "", -1, 1), "b", b"", b"1", Named("compact", None))
    line, _, rest = dead_letter(job, "failed", (), 1 << 16).partition(b"\r\n")
    message = parse_message_line(line)
    assert matches("dead.letter.>", message.subject)
    assert decode_head(rest[: message.header_bytes])["Mangrove-Dead-Subject"] == long
