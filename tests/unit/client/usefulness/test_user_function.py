"""A user's utility function: whatever it does, nobody waits for it."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import threading
from collections.abc import Sequence

import pytest
from tests.kit.received import Fed, received
from tests.kit.waiting import eventually

from mangrove.client import Message
from mangrove.client.usefulness import user_function
from mangrove.client.usefulness.user_function import STRIKES, UserFunction, UtilityThread
from mangrove.errors import InputError


async def judged(
    function: UserFunction, count: int = 1, timeout_s: float = 10.0
) -> Sequence[float | None] | None:
    """What the function says of some messages; None if it is not called."""
    told: asyncio.Future[Sequence[float | None]] = asyncio.get_running_loop().create_future()
    if not function.begin([received("s", b"%d" % number) for number in range(count)], told.set_result):
        return None
    return await asyncio.wait_for(told, timeout_s)


async def test_whatever_a_function_returns_or_raises_is_contained(caplog: pytest.LogCaptureFixture) -> None:
    answers = [0.5, 1, 3.0, -2, math.nan, math.inf, None, "0.5", True, 10**400, KeyError("k"), SystemExit(3)]

    def utility(message: Message) -> float:
        answer = answers[int(message.data)]
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[return-value]

    thread = UtilityThread()
    function = UserFunction("s", utility, thread)
    for _ in range(2):
        assert await judged(function, len(answers)) == [0.5, 1.0, 1.0, 0.0, *([None] * 8)]
    assert function.problems == {"out of range": 4, "not a number": 10, "raised": 6}
    assert caplog.text.count("it raised an error") == 1
    assert not function.given_up
    thread.close()


def test_functions_that_cannot_be_called_are_refused() -> None:
    async def utility(message: Message) -> float:
        return 1.0

    for wrong in (utility, "0.5"):
        with pytest.raises(InputError):
            UserFunction("s", wrong, UtilityThread())  # type: ignore[arg-type]


async def test_a_function_that_hangs_holds_up_nobody_and_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(user_function, "BATCH_S", 0.02)
    monkeypatch.setattr(user_function, "STUCK_S", 0.3)
    gates = [threading.Event() for _ in range(STRIKES)]
    calls = iter(gates)

    def hang(message: Message) -> float:
        next(calls).wait()
        return 1.0

    thread = UtilityThread()
    hanging = UserFunction("hangs", hang, thread)
    other = UserFunction("other", lambda _: 0.25, thread)
    for strike, gate in enumerate(gates, 1):
        first = asyncio.ensure_future(judged(hanging))
        await asyncio.sleep(0)
        assert await judged(other) == [0.25], "in another thread"
        assert await first == [None]
        assert hanging.problems["hangs"] == strike
        assert await judged(hanging) is None, "not called while it hangs"
        gate.set()
        if strike < STRIKES:

            async def is_back() -> bool:
                return not hanging._hangs

            await eventually(is_back, "the call comes back")
    assert hanging.given_up
    assert await judged(hanging) is None
    assert caplog.text.count("is not called any more") == 1
    thread.close()


async def test_a_slow_function_judges_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_function, "BATCH_S", 0.05)
    pause = threading.Event()

    def slow(message: Message) -> float:
        pause.wait(0.02)
        return 1.0

    thread = UtilityThread()
    function = UserFunction("s", slow, thread)
    utilities = await judged(function, 20)
    assert utilities is not None
    known = [utility for utility in utilities if utility is not None]
    assert 0 < len(known) < 20
    assert function.problems["too slow"] == 20 - len(known)
    thread.close()


def test_a_function_that_hangs_does_not_keep_the_process_from_ending() -> None:
    code = """
import asyncio, time
from mangrove.client.usefulness.user_function import UserFunction, UtilityThread
async def main():
    function = UserFunction("s", lambda message: time.sleep(3600), UtilityThread())
    assert function.begin([None], print)
    await asyncio.sleep(0.2)
asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


async def test_what_the_function_has_judged_decides_what_is_left_out() -> None:
    fed = Fed(slow="drop-least-useful", max_pending=8, utility=lambda message: int(message.data) % 2)
    fed.feed(*(received("s", b"%d" % number) for number in range(8)))
    waiting = fed.subscription._waiting

    async def all_judged() -> bool:
        return set(waiting._utilities.values()) == {0.0, 1.0}  # type: ignore[attr-defined]

    await eventually(all_judged, "the function has judged what waits")
    fed.feed(*(received("s", b"%d" % number) for number in range(8, 12)))
    fed.subscription.finish()
    assert [int(message.data) async for message in fed.subscription] == [1, 3, 5, 7, 8, 9, 10, 11]
    fed.thread.close()
