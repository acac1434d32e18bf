"""What passes the filter before encoding, what is told of the rest, and what is in force."""

from __future__ import annotations

import asyncio
import math

import pytest

from mangrove.broker.client_connection import ConnectionCounts
from mangrove.broker.nats.client.outgoing import NatsOutlet, Outgoing
from mangrove.client.filtering.gate import seconds
from mangrove.client.filtering.publish_filter import ALL, PublishFilter, checked_callback, chosen_way
from mangrove.client.publishing import LimitedError, Outcome, WhenLimited
from mangrove.errors import InputError
from mangrove.model.congestion.rate_limit import LimitCause, Limits, RateLimit
from mangrove.model.congestion.terms import TopicTerms

SLOW = TopicTerms(match="slow.*", rate_msg_s=10.0)
CLOSED = RateLimit(msg_s=0.0, cause=LimitCause.CONGESTION, reason="no room")


def outlet(subject: str = "x") -> NatsOutlet:
    return NatsOutlet(Outgoing(ConnectionCounts()), subject, b"%d%d")


def passed(publishing: PublishFilter, subject: str, count: int, size_bytes: int = 10) -> list[Outcome]:
    return [publishing.judge(subject, size_bytes, awaited=False) for _ in range(count)]


class Clock:
    """Stands still until it is moved."""

    now_s = 1_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    for module in ("gate", "publish_filter"):
        monkeypatch.setattr(f"mangrove.client.filtering.{module}.seconds", lambda: found.now_s)
    return found


async def test_what_has_no_limit_is_not_in_the_way() -> None:
    publishing = PublishFilter([SLOW])
    publishing.add("free", outlet())
    assert "free" in publishing.outlets
    assert not publishing.gates
    assert publishing.limits == {}


async def test_the_first_contract_that_matches_counts() -> None:
    publishing = PublishFilter([TopicTerms(match="slow.a", rate_msg_s=50.0), SLOW, TopicTerms(match=">")])
    for subject in ("slow.a", "slow.b", "other"):
        publishing.add(subject, outlet())
    assert {subject: limit.msg_s for subject, limit in publishing.limits.items()} == {
        "slow.a": 50.0,
        "slow.b": 10.0,
    }
    assert publishing.limits["slow.b"].cause is LimitCause.CONTRACT
    assert "other" in publishing.outlets


@pytest.mark.usefixtures("clock")
async def test_beyond_the_limit_it_is_told_and_counted() -> None:
    publishing = PublishFilter([SLOW])
    publishing.add("slow.x", outlet())
    outcomes = passed(publishing, "slow.x", 5)
    assert outcomes[0] is Outcome.SENT
    assert set(outcomes[1:]) == {Outcome.LIMITED}
    assert publishing.withhold("slow.x", Outcome.LIMITED, 10) is Outcome.LIMITED
    counts = publishing.withheld["slow.x"]
    assert (counts.limited.messages, counts.limited.size_bytes, counts.unwanted.messages) == (1, 10, 0)


async def test_only_sent_is_true() -> None:
    assert [bool(outcome) for outcome in Outcome] == [True, False, False, False]


async def test_the_agents_limit_comes_and_goes() -> None:
    told: list[tuple[str, RateLimit | None]] = []
    publishing = PublishFilter(on_limit=lambda subject, limit: told.append((subject, limit)))
    publishing.add("a", outlet())
    publishing.order({"a": CLOSED, "unknown": CLOSED})
    assert passed(publishing, "a", 3) == [Outcome.LIMITED] * 3
    assert publishing.limits == {"a": CLOSED}
    publishing.order({"a": CLOSED})
    publishing.order({})
    assert "a" in publishing.outlets
    assert not publishing.gates
    assert publishing.limits == {}
    await asyncio.sleep(0)
    assert told == [("a", CLOSED), ("a", None)]


async def test_limits_ordered_before_the_first_message_hold_for_it() -> None:
    publishing = PublishFilter()
    publishing.order({"later": CLOSED})
    assert publishing.limited("later")
    publishing.add("later", outlet())
    assert passed(publishing, "later", 1) == [Outcome.LIMITED]


async def test_the_strictest_of_contract_and_agent_holds() -> None:
    publishing = PublishFilter([SLOW])
    publishing.add("slow.x", outlet())
    publishing.order({"slow.x": RateLimit(msg_s=3.0, cause=LimitCause.CONGESTION)})
    limit = publishing.limits["slow.x"]
    assert (limit.msg_s, limit.cause) == (3.0, LimitCause.CONGESTION)
    publishing.order({"slow.x": RateLimit(msg_s=30.0, cause=LimitCause.CONGESTION)})
    limit = publishing.limits["slow.x"]
    assert (limit.msg_s, limit.cause) == (10.0, LimitCause.CONTRACT)


@pytest.mark.usefixtures("clock")
async def test_all_subjects_of_a_client_share_its_limit() -> None:
    publishing = PublishFilter((), Limits(rate_msg_s=100.0))
    subjects = [f"s.{number}" for number in range(20)]
    for subject in subjects:
        publishing.add(subject, outlet())
    sent = sum(passed(publishing, subject, 5).count(Outcome.SENT) for subject in subjects)
    assert sent == 5, "half a burst of ten"
    assert publishing.limits[ALL].cause is LimitCause.CLIENT
    assert publishing.judge("_INBOX.x", 10, awaited=False), "what is internal is never filtered"
    assert not publishing.judge("beyond.those.kept", 10, awaited=False)


def send(publishing: PublishFilter, subject: str, size_bytes: int) -> bool:
    """As `PublishingConnection.publish` does."""
    gate = publishing.gates[subject]
    sure = gate.outlet.messages < gate.until and size_bytes <= gate.most_bytes
    if sure or publishing.judge(subject, size_bytes, awaited=False):
        gate.outlet.messages += 1
        gate.outlet.size_bytes += size_bytes
        return True
    return False


@pytest.mark.parametrize(
    ("terms", "client"),
    [
        (TopicTerms(match="x", rate_msg_s=10_000.0), None),
        (TopicTerms(match="x", rate_bytes_s=1_000_000.0), None),
        (TopicTerms(match="x", rate_msg_s=10_000.0, rate_bytes_s=1e9), Limits(rate_bytes_s=1_000_000.0)),
        (TopicTerms(match="y"), Limits(rate_msg_s=10_000.0)),
    ],
)
@pytest.mark.parametrize("changing", [False, True])
async def test_what_is_taken_out_beforehand_neither_adds_nor_loses_anything(
    clock: Clock, terms: TopicTerms, client: Limits | None, changing: bool
) -> None:
    """10,000 messages of 100 bytes a second, tried five times as often, also while the limit changes."""
    publishing = PublishFilter([terms], client)
    publishing.add("x", outlet())
    sent = 0
    for number in range(25_000):
        clock.now_s += 1 / 50_000
        sent += send(publishing, "x", 100)
        if changing and not number % 100:
            publishing.order({"x": RateLimit(msg_s=20_000.0 + number)})
    assert 5_440 <= sent <= 5_570, "half a burst of a thousand to begin with"


@pytest.mark.usefixtures("clock")
async def test_bytes_are_limited_too() -> None:
    publishing = PublishFilter([TopicTerms(match="x", rate_bytes_s=1_000.0)])
    publishing.add("x", outlet())
    assert passed(publishing, "x", 3, size_bytes=100)[1:] == [Outcome.LIMITED] * 2


async def test_silence_ends_by_itself_and_when_somebody_listens() -> None:
    publishing = PublishFilter()
    publishing.add("x", outlet())
    publishing.silence("x", seconds() + 1_000)
    assert passed(publishing, "x", 2) == [Outcome.UNWANTED] * 2
    assert publishing.judge("x", 10, awaited=True), "a request is answered, if only by nobody"
    assert passed(publishing, "x", 1) == [Outcome.UNWANTED]
    publishing.speak("x")
    assert "x" in publishing.outlets
    publishing.silence("x", seconds() - 1)
    assert passed(publishing, "x", 1) == [Outcome.SENT]
    assert "x" in publishing.outlets
    publishing.silence("never published", math.inf)
    assert "never published" not in publishing.gates


async def test_a_silent_subject_keeps_its_limit(clock: Clock) -> None:
    publishing = PublishFilter([SLOW])
    publishing.add("slow.x", outlet())
    publishing.silence("slow.x", clock.now_s + 1_000)
    publishing.speak("slow.x")
    assert passed(publishing, "slow.x", 2) == [Outcome.SENT, Outcome.LIMITED]


async def test_who_waits_goes_on_when_the_limit_is_lifted() -> None:
    publishing = PublishFilter(when_limited=WhenLimited.WAIT)
    publishing.add("x", outlet())
    publishing.order({"x": CLOSED})
    waiting = asyncio.create_task(publishing.room("x"))
    await asyncio.sleep(0)
    publishing.order({})
    await asyncio.wait_for(waiting, 5)
    assert publishing.judge("x", 1, awaited=False)


async def test_who_wants_an_error_gets_one_that_says_why() -> None:
    publishing = PublishFilter(when_limited=WhenLimited.RAISE)
    publishing.add("x", outlet())
    publishing.order({"x": CLOSED})
    with pytest.raises(LimitedError, match="congestion: 0 messages/s, no room") as caught:
        publishing.withhold("x", publishing.judge("x", 1, awaited=False), 1)
    assert caught.value.limit == CLOSED
    assert publishing.withheld["x"].limited.messages == 1
    publishing.order({})
    publishing.silence("x", seconds() + 1_000)
    assert publishing.withhold("x", Outcome.UNWANTED, 1) is Outcome.UNWANTED, "nobody was hurt"


async def test_a_callback_that_fails_is_contained(caplog: pytest.LogCaptureFixture) -> None:
    def fail(subject: str, limit: RateLimit | None) -> None:
        raise RuntimeError("the user's own")

    publishing = PublishFilter([SLOW], on_limit=fail)
    publishing.add("slow.x", outlet())
    await asyncio.sleep(0)
    assert "the user's own" in caplog.text
    assert publishing.limits["slow.x"].msg_s == 10.0


async def test_nonsense_in_the_directions_is_no_limit() -> None:
    terms = [TopicTerms(match="x", rate_msg_s=-1.0), TopicTerms(match="y", rate_bytes_s=math.nan)]
    publishing = PublishFilter(terms, Limits(rate_msg_s=-5.0))
    for subject in "xy":
        publishing.add(subject, outlet())
    assert publishing.limits == {}
    assert set(publishing.outlets) == {"x", "y"}


def test_bad_options_are_refused_at_once() -> None:
    with pytest.raises(InputError, match="later"):
        chosen_way("later")

    async def coroutine(subject: str, limit: RateLimit | None) -> None:
        """Nobody would await it."""

    with pytest.raises(InputError, match="plain function"):
        checked_callback(coroutine)
