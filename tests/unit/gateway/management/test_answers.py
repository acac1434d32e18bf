"""Who may ask a gateway what: sessions belong to the user on whose subject they are asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec

from mangrove.gateway.management.answers import Answers
from mangrove.gateway.management.voucher import Voucher
from mangrove.model.questions.session_quality import AskAnswer, AskRequest, Quality
from mangrove.model.shared_names import gateway_asks_subject, gateway_status_subject


class ScriptedEngine:
    """Remembers what it was asked for."""

    domain = "here"

    def __init__(self) -> None:
        self.asked: list[AskRequest] = []

    def ask(self, request: AskRequest, now: float) -> list[object]:
        self.asked.append(request)
        return []


def answers(engine: ScriptedEngine) -> Answers:
    nothing = cast("Any", SimpleNamespace())
    return Answers(
        cast("Any", engine),
        nothing,
        nothing,
        started=0.0,
        status=lambda: nothing,
        carry_out=lambda _: None,
        voucher=Voucher([], None),
        versions=nothing,
        teller=nothing,
    )


def test_a_session_is_its_users_own() -> None:
    engine = ScriptedEngine()
    ask = answers(engine).by_subject(users=True)[gateway_asks_subject("here", "*")]
    request = msgspec.json.encode(AskRequest(session="s", subject="a", quality=Quality(paths=2)))
    assert msgspec.json.decode(ask(request, "pump"), type=AskAnswer) == AskAnswer()
    ask(msgspec.json.encode(AskRequest(session="s", end=True)), "thief")
    assert [(each.session, each.end) for each in engine.asked] == [("pump/s", False), ("thief/s", True)]


def test_where_nobody_logs_in_everybody_asks_on_the_same_subject() -> None:
    engine = ScriptedEngine()
    by_subject = answers(engine).by_subject()
    by_subject[gateway_asks_subject("here")](msgspec.json.encode(AskRequest(session="s", subject="a")), "")
    assert engine.asked[0].session == "s"
    assert gateway_status_subject("here") in by_subject
