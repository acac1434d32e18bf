"""Who vouches for an attachment has the key that is believed, and was asked."""

from __future__ import annotations

import msgspec

from mangrove.agent.hosting.vouching import proven
from mangrove.gateway.management.voucher import Voucher
from mangrove.host.keys.login import BrokerLogin
from mangrove.host.keys.nkey import UserKey
from mangrove.model.questions.vouching import AttachedPlace, AttachmentsAnswer, AttachmentsQuestion

KEY = UserKey.make()
PLACES = [AttachedPlace("SERVER", 7), AttachedPlace("OTHER", 3)]


def answer(key: UserKey, nonce: str = "now") -> AttachmentsAnswer:
    login = BrokerLogin("gateway", nkey=key.public, key=key)
    voucher = Voucher([lambda: PLACES[0], lambda: None, lambda: PLACES[1]], lambda: login)
    request = msgspec.json.encode(AttachmentsQuestion(nonce=nonce))
    return msgspec.json.decode(voucher.answer(request), type=AttachmentsAnswer)


def test_a_gateway_vouches_for_where_it_is_attached() -> None:
    assert proven(answer(KEY), "now", KEY.public) == set(PLACES)


def test_the_key_of_before_vouches_for_nothing() -> None:
    assert proven(answer(UserKey.make()), "now", KEY.public) == set()


def test_neither_does_the_answer_to_another_question_or_for_other_places() -> None:
    told = answer(KEY, "before")
    assert proven(told, "now", KEY.public) == set()
    more = msgspec.structs.replace(told, places=(*told.places, AttachedPlace("OTHER", 8)))
    assert proven(more, "before", KEY.public) == set()
    assert proven(AttachmentsAnswer(), "now", KEY.public) == set()
    assert proven(told, "before", "nobody") == set()


def test_questions_that_cannot_be_read_are_about_nothing() -> None:
    login = BrokerLogin("gateway", nkey=KEY.public, key=KEY)
    for request in (b"", b"\xff", b"{}", b'{"nonce": 1}'):
        told = msgspec.json.decode(Voucher([], lambda: login).answer(request), type=AttachmentsAnswer)
        assert told == AttachmentsAnswer()
    asked = msgspec.json.encode(AttachmentsQuestion(nonce="now"))
    assert msgspec.json.decode(Voucher([], None).answer(asked), type=AttachmentsAnswer) == AttachmentsAnswer()
