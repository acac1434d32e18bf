"""Documents: what follows from what, which numbers contracts get, and what is refused."""

from __future__ import annotations

from itertools import pairwise
from time import process_time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import InputError
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.mediation.transform import Place, TransformUse
from mangrove.model.subjects import matches
from mangrove.model.topics import Contract, Mirror, Queue, TopicRules
from mangrove.model.versions import succession
from mangrove.model.versions.checking import content_problem, document_problem, kinship_problem
from mangrove.model.versions.document import (
    FederationDocument,
    WrittenDocument,
    first_document,
    in_force,
)
from mangrove.model.versions.moves import moves
from mangrove.model.versions.succession import MAX_CLASS, difference, successor

ALERT, SENSOR, PLANT = (Contract(match=match) for match in ("alert.>", "sensor.>", "plant.>"))
FASTER = msgspec.structs.replace(ALERT, deadline_ms=50.0)


def federation(*contracts: Contract, name: str = "pacific") -> Federation:
    return Federation(
        name=name,
        domains={name: Domain(name=name, base_port=1) for name in "ab"},
        links=(Link(between=("a", "b")),),
        topics=TopicRules(contracts),
    )


def following(before: FederationDocument, *contracts: Contract) -> FederationDocument:
    return successor(before, contracts, by="me", at="now")


def test_the_first_version_is_the_file_and_numbers_by_position() -> None:
    shape = federation(ALERT, SENSOR)
    first = first_document(shape)
    assert first.topics.known() == {0: ALERT, 1: SENSOR}
    assert (first.topics.unmatched, first.next_class) == (2, 3)
    assert in_force(shape, first) is shape
    assert first.line == shape.topology_hash()


def test_a_changed_contract_gets_another_number_and_the_old_one_keeps_its_meaning() -> None:
    first = first_document(federation(ALERT, SENSOR))
    second = following(first, PLANT, FASTER, SENSOR)
    assert second.topics.ids == (3, 4, 1)
    assert second.topics.contract_at(0) == ALERT
    assert second.topics.class_of("x") == first.topics.class_of("x") == 2
    assert document_problem(second, first) == ""
    third = following(second, ALERT, SENSOR)
    assert third.topics.ids == (0, 1), "the same words have the same number"
    assert third.topics.contract_at(4) == FASTER
    assert [each.version for each in third.past] == [2, 1]
    assert in_force(federation(ALERT, SENSOR), third).topics == third.topics


def test_a_document_survives_being_written_and_read() -> None:
    second = following(first_document(federation(ALERT)), FASTER)
    written = WrittenDocument(text=second.text())
    assert written.read() == second
    assert written.digest == second.digest
    with pytest.raises(ValueError, match="not written"):
        WrittenDocument(text=written.text + b" ").read()
    with pytest.raises(msgspec.DecodeError):
        WrittenDocument(text=written.text[:-10]).read()


def test_words_of_a_later_release_are_not_passed_over() -> None:
    """They would be in force in one domain, and unknown in another."""
    second = msgspec.json.decode(following(first_document(federation(ALERT)), FASTER).text())
    for holder in (second, second["topics"]["contracts"][0]):
        holder["a_later_word"] = True
        with pytest.raises(ValueError, match="only a later release knows"):
            WrittenDocument(text=msgspec.json.encode(second, order="deterministic")).read()
        del holder["a_later_word"]
    WrittenDocument(text=msgspec.json.encode(second, order="deterministic")).read()


def test_what_does_not_follow_is_refused() -> None:
    first = first_document(federation(ALERT))
    second = following(first, FASTER)
    assert "version 2 does not follow" in document_problem(second, second)
    assert "of federation 'other'" in document_problem(
        following(first_document(federation(ALERT, name="other")), FASTER), first
    )
    assert "another federation file" in kinship_problem(first_document(federation(SENSOR)), first)
    stranger = msgspec.structs.replace(second, domains=("b", "a"))
    assert "other domains" in document_problem(stranger, first)
    reused = msgspec.structs.replace(second, topics=TopicRules((FASTER,), (0,), 1))
    assert "another meaning" in document_problem(reused, first)
    again = msgspec.structs.replace(second, topics=TopicRules((FASTER,), (1,), 2))
    assert document_problem(again, first)
    twice = msgspec.structs.replace(second, topics=TopicRules((ALERT, FASTER), (0, 0), 1))
    assert "twice" in content_problem(twice)


@pytest.mark.parametrize(
    "contract",
    [
        Contract(match="a..b"),
        Contract(match="_MGR.a"),
        Contract(match="a", paths=0),
        Contract(match="a", paths=1_000_000),
        Contract(match="a", deadline_ms=float("nan")),
        Contract(match="a", rate_msg_s=-1),
        Contract(match="a", resiliency=1.5),
        Contract(match="a", max_hops=99),
        Contract(match="a", separation_km=-3),
    ],
)
def test_contracts_beyond_all_bounds_are_refused(contract: Contract) -> None:
    first = first_document(federation(ALERT))
    assert document_problem(following(first, ALERT, contract), first)


def test_what_both_ends_must_know_beforehand_does_not_change_live() -> None:
    mirrored = Contract(match="alert.>", mirror=Mirror.BOTH)
    first = first_document(federation(mirrored, SENSOR))
    faster = msgspec.structs.replace(mirrored, deadline_ms=50.0)
    assert document_problem(following(first, faster, SENSOR), first) == ""
    shadow = Contract(match="alert.fire")
    assert document_problem(following(first, mirrored, shadow, SENSOR), first) == "", "it governs nothing"
    for contracts in (
        (ALERT, SENSOR),
        (SENSOR,),
        (shadow, mirrored, SENSOR),
    ):
        assert "needs a restart" in document_problem(following(first, *contracts), first)
    for contract in (
        Contract(match="sensor.>", queue=Queue.LOCAL_EACH),
        Contract(match="sensor.>", confidential=True),
        Contract(match="sensor.>", transform=TransformUse(use="t", at=Place.RECEIVING)),
    ):
        assert document_problem(following(first, mirrored, contract), first) == "", "told by the class"


def test_what_is_transformed_where_it_is_sent_may_not_be_once_more_where_it_is_received() -> None:
    sending, receiving = (
        Contract(match="x", transform=TransformUse(use="t", at=place))
        for place in (Place.SENDING, Place.RECEIVING)
    )
    first = first_document(federation(sending))
    assert "place of `transform` of x" in document_problem(following(first, receiving), first)
    first = first_document(federation(receiving))
    assert document_problem(following(first, sending), first) == ""


def test_what_differs_is_told() -> None:
    first = first_document(federation(ALERT, SENSOR))
    changes = difference(first, following(first, SENSOR, FASTER, PLANT))
    assert changes.summary() == "contracts: 1 new, 1 changed; contracts in another order"
    assert list(changes.sentences()) == [
        "new contract plant.>: best effort",
        "contract alert.>: deadline_ms None → 50.0",
        "contracts are tried in another order",
    ]
    assert not difference(first, first)


def test_numbers_run_out_with_a_message() -> None:
    full = msgspec.structs.replace(first_document(federation(ALERT)), next_class=MAX_CLASS)
    with pytest.raises(InputError, match="no number is left"):
        following(full, FASTER)


def test_withdrawn_contracts_are_kept_as_long_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(succession, "MAX_WITHDRAWN", 8)
    document = first_document(federation())
    for number in range(20):
        document = following(document, Contract(match=f"t{number}"))
    kept = [each.topic_class for each in document.topics.withdrawn]
    assert len(kept) == 8
    assert kept == sorted(kept)
    assert kept[-1] == document.next_class - 2


TOKENS = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=3)
PATTERNS = st.builds(lambda tokens, rest: ".".join([*tokens, *[">"] * rest]), TOKENS, st.booleans())
RULES = st.lists(
    st.builds(Contract, match=PATTERNS, deadline_ms=st.sampled_from([None, 1.0])),
    max_size=5,
    unique_by=lambda contract: contract.match,
)
SUBJECTS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4).map(".".join)


@given(RULES, RULES, RULES, SUBJECTS)
def test_every_number_keeps_its_meaning_and_every_move_is_foreseen(
    one: list[Contract], two: list[Contract], three: list[Contract], subject: str
) -> None:
    first = first_document(federation(*one))
    versions = [first, following(first, *two)]
    versions.append(following(versions[-1], *three))
    meaning: dict[int, Contract] = {}
    for before, after in pairwise(versions):
        assert document_problem(after, before) == ""
        foreseen = {(old.topic_class, new.topic_class) for old, new in moves(before.topics, after.topics)}
        was, now = before.topics.class_of(subject), after.topics.class_of(subject)
        assert was == now or (was, now) in foreseen
    for version in versions:
        for topic_class, contract in version.topics.known().items():
            assert meaning.setdefault(topic_class, contract) == contract
        governing = version.topics.contract_at(version.topics.class_of(subject))
        assert governing == version.topics.contract_of(subject)
        assert governing.match == ">" or matches(governing.match, subject)


def test_thousands_of_contracts_may_be_tried_in_another_order_or_made_at_once() -> None:
    """Every gateway looks at that between two frames."""
    many = [Contract(match=f"plant.{number}.>", deadline_ms=100.0) for number in range(3000)]
    half = following(first_document(federation(ALERT)), *many[::2])
    whole = following(half, *many)
    turned = following(whole, *reversed(many))
    began = process_time()
    assert document_problem(whole, half) == document_problem(turned, whole) == ""
    assert process_time() - began < 3.0
