"""Asks for more than a contract: leases that outlive what a gateway says amiss."""

from __future__ import annotations

import logging
from typing import cast

import msgspec
import pytest
from tests.kit.waiting import eventually

from mangrove.client import asks as module
from mangrove.client.asks import Asks
from mangrove.client.gateway_questions import ANSWER_S, GatewayQuestions
from mangrove.errors import MangroveError
from mangrove.model.questions.session_quality import AskAnswer, AskRequest, Quality, Role


class Gateway:
    """Grants everything; answers nonsense while it is `confused`."""

    domain, user = "here", ""

    def __init__(self) -> None:
        self.confused = False
        self.asked: list[AskRequest] = []

    async def ask(
        self, subject: str, question: AskRequest, answer: type[msgspec.Struct], timeout_s: float = ANSWER_S
    ) -> AskAnswer:
        self.asked.append(question)
        if self.confused:
            raise MangroveError("the gateway of here answered nonsense")
        return AskAnswer()

    async def asked_of_both(self) -> bool:
        return len({each.session for each in self.asked}) == 2


async def test_nonsense_ends_neither_renewals_nor_what_is_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RENEW_S", 0.005)
    gateway = Gateway()
    asks = Asks(cast("GatewayQuestions", gateway))
    leases = [await asks.take(Role.SUBSCRIBER, subject, Quality(paths=2)) for subject in ("a", "b")]
    gateway.confused = True
    gateway.asked.clear()
    with caplog.at_level(logging.WARNING):
        await eventually(gateway.asked_of_both, "both are asked for again")
    assert "the ask on a was not renewed" in caplog.text
    gateway.confused = False
    gateway.asked.clear()
    await eventually(gateway.asked_of_both, "they are asked for after that, too")
    gateway.confused = True
    await asks.end(leases[0])
    await asks.close()
    assert {each.session for each in gateway.asked if each.end} == set(leases)
