"""A gateway says which attachments to its domain's brokers are its own, and signs it by its present key."""

from __future__ import annotations

import msgspec

from mangrove.broker.attachment import Places
from mangrove.errors import InputError
from mangrove.host.keys.login import LoginSource
from mangrove.model.questions.vouching import (
    MAX_PLACES,
    AttachedPlace,
    AttachmentsAnswer,
    AttachmentsQuestion,
    vouched_text,
)
from mangrove.model.unreadable import UNREADABLE


class Voucher:
    """Answers those who supervise the domain's brokers."""

    def __init__(self, places: Places, login: LoginSource | None) -> None:
        """Without a `login` there are no keys, and nothing to vouch for."""
        self._places = places
        self._login = login

    def answer(self, request: bytes) -> bytes:
        """What is to be answered; a question that cannot be read is about nothing."""
        return msgspec.json.encode(self._answer(request))

    def _answer(self, request: bytes) -> AttachmentsAnswer:
        try:
            nonce = msgspec.json.decode(request, type=AttachmentsQuestion).nonce
            login = None if self._login is None else self._login()
        except (*UNREADABLE, InputError):
            return AttachmentsAnswer()
        if login is None:
            return AttachmentsAnswer()
        places: tuple[AttachedPlace, ...] = tuple(
            sorted(place for ask in self._places if (place := ask()) is not None)
        )[:MAX_PLACES]
        return AttachmentsAnswer(places=places, signature=login.sign(vouched_text(nonce, places)))
