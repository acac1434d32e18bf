"""Who can open what, while keys change and somebody on the way is not honest."""

from __future__ import annotations

import pickle

import pytest
from msgspec.structs import replace
from tests.kit.engines import federation
from tests.kit.sealing import Clock, SealingDomain, domains, frame_of, introduce, with_body

from mangrove.gateway.sealing import opener
from mangrove.gateway.sealing.content_keys import LIFE_S, ContentKeys
from mangrove.gateway.sealing.gateway_sealer import GatewaySealer
from mangrove.gateway.sealing.key_schedule import key_id
from mangrove.gateway.sealing.opener import UNDER_WAY_S
from mangrove.gateway.sealing.refusal import Refusal
from mangrove.gateway.sealing.sealing_keys import HEARD_S, OtherKey
from mangrove.gateway.stimuli_file import _state
from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.protocol.frames import Frame
from mangrove.overlay.sealing.sealed_body import read_envelope, take_apart
from mangrove.overlay.sealing.sealer import BlankSealer
from mangrove.overlay.stimuli.recorded_engine import RecordedEngine


@pytest.fixture
def clock() -> Clock:
    return Clock(1000.0)


@pytest.fixture
def sites(clock: Clock) -> dict[str, SealingDomain]:
    return domains("a", "b", "c", clock=clock)


# -- keys change ------------------------------------------------------------------------------------------


def test_a_destination_opens_with_the_key_before_until_the_origin_has_heard(
    sites: dict[str, SealingDomain],
) -> None:
    a, b = sites["a"], sites["b"]
    b.rotate()
    assert b.open(a.sealed(frame_of(a, b"old", b))) == b"old"
    introduce(sites, 2.0)
    assert b.open(a.sealed(frame_of(a, b"new", b, sequence=2))) == b"new"


def test_an_origin_seals_with_its_new_key_only_when_others_can_have_heard_of_it(
    sites: dict[str, SealingDomain], clock: Clock
) -> None:
    a, b = sites["a"], sites["b"]
    before = a.keys.sealing_id
    a.rotate()
    assert b.open(a.sealed(frame_of(a, b"1", b))) == b"1", "with the key that b knows"
    clock.now = clock() + HEARD_S
    introduce(sites, 2.0)
    under_way = a.sealed(frame_of(a, b"2", b, sequence=2))
    assert a.keys.sealing_id != before
    assert b.open(under_way) == b"2"


def test_an_origin_whose_key_was_ended_does_not_wait(sites: dict[str, SealingDomain]) -> None:
    a = sites["a"]
    before = a.private
    a.rotate()
    assert a.keys.sealing_id == key_id(before.public_key().public_bytes_raw())
    a.keys.take_own(a.private)
    assert a.keys.sealing_id == key_id(a.public)


def test_keys_are_looked_at_again_before_one_is_said_to_be_unknown(sites: dict[str, SealingDomain]) -> None:
    a, b = sites["a"], sites["b"]
    old = b.private
    b.rotate()
    introduce(sites, 2.0)
    sealed = a.sealed(frame_of(a, b"x", b))
    fresh = domains("a", "b", "c")["b"]
    fresh.keys.take_other("a", OtherKey(a.public, 1.0))
    assert fresh.open(sealed) is Refusal.OWN_KEY_UNKNOWN
    assert fresh.looked_again == 1
    fresh.found_later = lambda: fresh.keys.take_own(b.private, old)
    assert fresh.open(sealed) == b"x"


def test_an_older_certificate_that_comes_later_changes_nothing(sites: dict[str, SealingDomain]) -> None:
    a, b = sites["a"], sites["b"]
    first = b.public
    b.rotate()
    introduce(sites, 2.0)
    newest = a.keys.newest_id_of("b")
    a.keys.take_other("b", OtherKey(first, 1.0))
    assert a.keys.newest_id_of("b") == newest


def test_what_rests_on_a_key_that_is_not_believed_any_more_opens_nothing(
    sites: dict[str, SealingDomain],
) -> None:
    a, b = sites["a"], sites["b"]
    first, second = (a.sealed(frame_of(a, b"x", b, sequence=number)) for number in (1, 2))
    assert b.open(first) == b"x"
    b.keys.forget_other("a", a.keys.sealing_id)
    assert b.open(second) is Refusal.ORIGIN_KEY_UNKNOWN


def test_a_domain_whose_key_is_not_known_is_told_apart_and_the_others_are_served(clock: Clock) -> None:
    sites = domains("a", "b", "c", clock=clock)
    a, b, c = sites.values()
    a.keys.forget_other("c", a.keys.newest_id_of("c") or b"")
    sealed = a.sealed(frame_of(a, b"x", b, c))
    assert (b.open(sealed), c.open(sealed)) == (b"x", Refusal.OWN_KEY_UNKNOWN)
    assert a.content.without_key == {"c"}
    introduce(sites, 2.0)
    assert c.open(a.sealed(frame_of(a, b"y", b, c, sequence=2))) == b"y"
    assert a.content.without_key == set()


def test_content_keys_last_for_a_while_and_not_longer(sites: dict[str, SealingDomain], clock: Clock) -> None:
    a, b = sites["a"], sites["b"]
    for number in range(5):
        a.sealed(frame_of(a, b"x", b, sequence=number))
    assert a.content.made == 1
    clock.now = clock() + LIFE_S
    a.sealed(frame_of(a, b"x", b))
    assert a.content.made == 2


def test_a_public_key_that_is_good_for_nothing_is_none(sites: dict[str, SealingDomain]) -> None:
    a, b = sites["a"], sites["b"]
    a.keys.take_other("b", OtherKey(bytes(32), 9.0))
    assert b.open(a.sealed(frame_of(a, b"x", b))) is Refusal.OWN_KEY_UNKNOWN


# -- somebody on the way ----------------------------------------------------------------------------------


def test_a_repeated_body_is_refused_also_under_a_new_name(sites: dict[str, SealingDomain]) -> None:
    a, b = sites["a"], sites["b"]
    sealed = a.sealed(frame_of(a, b"x", b))
    assert b.open(sealed) == b"x"
    assert b.open(sealed) is Refusal.REPEATED
    assert b.open(replace(sealed, sequence=2)) is Refusal.BROKEN
    assert b.open(sealed) is Refusal.REPEATED, "a broken one does not make it forget"


def test_what_was_kept_for_long_is_refused_though_its_key_is_forgotten(
    sites: dict[str, SealingDomain], clock: Clock
) -> None:
    a, b = sites["a"], sites["b"]
    kept = a.sealed(frame_of(a, b"old", b))
    clock.now = clock() + LIFE_S + UNDER_WAY_S + 1
    assert b.open(a.sealed(frame_of(a, b"new", b, sequence=2))) == b"new"
    assert b.open(kept) is Refusal.TOO_OLD


LONG_S = LIFE_S + UNDER_WAY_S + 1


def later_life(site: SealingDomain, clock: Clock) -> None:
    """A gateway with another clock takes over."""
    site.content = ContentKeys(
        "test", tuple("abc"), site.name, site.keys, clock=clock, wall_clock_ns=clock.wall_ns
    )
    site.sealer = GatewaySealer(site.content)


def sealed_in(life: int, a: SealingDomain, body: bytes, b: SealingDomain) -> Frame:
    """In a life of a gateway, under a content key of its own."""
    return a.sealed(replace(frame_of(a, body, b, flow=body[0]), epoch=life))


@pytest.mark.parametrize("behind_s", [0.0, 3600.0, -60.0])
def test_a_gateway_that_takes_over_is_believed_though_its_clock_is_behind(
    clock: Clock, behind_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was kept from before is refused after as much time as if it had not."""
    monkeypatch.setattr(opener, "MAX_KNOWN", 0)  # nothing is refused only because it is remembered
    clock.now = 1e6
    a, b, _ = domains("a", "b", "c", clock=clock).values()
    ages_ago = sealed_in(7, a, b"0", b)
    clock.now += LONG_S
    lately = sealed_in(7, a, b"1", b)
    assert b.open(sealed_in(7, a, b"2", b)) == b"2"
    assert b.open(ages_ago) is Refusal.TOO_OLD
    other = Clock(clock() - behind_s)
    later_life(a, other)
    first = sealed_in(8, a, b"3", b)
    assert b.open(first) == b"3"
    assert b.open(lately) == b"1", "it was under way meanwhile"
    assert b.open(ages_ago) is Refusal.TOO_OLD
    other.now = other() + LONG_S
    assert b.open(sealed_in(8, a, b"4", b)) == b"4"
    for kept in (ages_ago, lately, first):
        assert b.open(kept) is Refusal.TOO_OLD
    later_life(a, clock)
    assert b.open(sealed_in(9, a, b"5", b)) == b"5", "the one before is back"
    later_life(a, other)
    assert b.open(sealed_in(10, a, b"6", b)) == b"6"
    for kept in (ages_ago, lately, first):
        assert b.open(kept) is Refusal.TOO_OLD


def test_a_life_that_is_over_is_not_begun_anew_by_who_kept_what_it_sealed(clock: Clock) -> None:
    """Its clock was ahead, and whoever opens has begun since then: nothing tells how old its keys are."""
    clock.now = 1e6
    a, b, _ = domains("a", "b", "c", clock=clock).values()
    kept = sealed_in(7, a, b"1", b)
    later_life(a, Clock(clock() - 3600))
    assert b.open(sealed_in(8, a, b"2", b)) == b"2"
    assert b.open(kept) is Refusal.TOO_OLD
    assert b.open(sealed_in(8, a, b"3", b)) == b"3"


def test_what_an_earlier_life_sealed_does_not_make_later_ones_old_however_late_it_comes(clock: Clock) -> None:
    clock.now = 1e6
    a, b, _ = domains("a", "b", "c", clock=clock).values()
    assert b.open(sealed_in(7, a, b"1", b)) == b"1"
    clock.now += 10 * LONG_S
    under_way = sealed_in(7, a, b"2", b)
    later_life(a, Clock(clock() - 3600))
    assert b.open(sealed_in(8, a, b"3", b)) == b"3"
    assert b.open(under_way) == b"2"
    assert b.open(sealed_in(8, a, b"4", b)) == b"4"


def test_what_an_earlier_life_sealed_lately_opens_also_where_only_the_later_one_is_known(
    clock: Clock,
) -> None:
    clock.now = 1e6
    a, b, _ = domains("a", "b", "c", clock=clock).values()
    under_way = sealed_in(7, a, b"1", b)
    clock.now += 1
    later_life(a, clock)
    assert b.open(sealed_in(8, a, b"2", b)) == b"2"
    assert b.open(under_way) == b"1"


def test_a_wrapped_key_fits_into_no_other_envelope(sites: dict[str, SealingDomain]) -> None:
    a, b, c = sites.values()
    sealed = a.sealed(frame_of(a, b"x", b, c))
    parts = take_apart(sealed.body)
    envelope = read_envelope(parts.envelope)
    for changed in (
        envelope._replace(recipients=envelope.recipients[:1]),
        envelope._replace(number=envelope.number + 1),
        envelope._replace(recipients=envelope.recipients[::-1]),
    ):
        body = parts._replace(envelope=changed.encode()).encode()
        assert b.open(with_body(sealed, body)) is Refusal.BROKEN
    assert b.open(sealed) == b"x"


def test_another_domain_cannot_seal_in_the_name_of_the_origin(sites: dict[str, SealingDomain]) -> None:
    b, c = sites["b"], sites["c"]
    sealed = c.sealed(frame_of(c, b"x", b))
    assert b.open(replace(sealed, origin=sites["a"].index)) is Refusal.ORIGIN_KEY_UNKNOWN


def test_a_frame_of_this_domain_itself_is_not_taken_for_one_from_elsewhere(
    sites: dict[str, SealingDomain],
) -> None:
    """What a sealed for b cannot be sent to a as if b had sealed it: both have the same secret in common."""
    a, b = sites["a"], sites["b"]
    sealed = a.sealed(frame_of(a, b"x", b))
    assert a.open(replace(sealed, origin=b.index)) is Refusal.NOT_FOR_US


# -- what is written down ---------------------------------------------------------------------------------


def test_a_sealer_is_never_written_down(sites: dict[str, SealingDomain]) -> None:
    assert type(pickle.loads(pickle.dumps(sites["a"].sealer))) is BlankSealer


def test_a_recording_holds_no_keys(sites: dict[str, SealingDomain]) -> None:
    shape = federation(("a", "b"), ("b", "c"), topics=TopicRules((Contract(match=">", confidential=True),)))
    engine = RecordedEngine(shape, "a", 1, lambda *_: None)
    engine.seal_with(sites["a"].sealer)
    flow = engine.route_reply("b")
    assert flow is not None
    flow.take(b"LMSG x 9\r\nplaintext\r\n")
    engine.flush(1.0)
    state = _state(engine.plain())
    assert b"plaintext" not in state
    assert b"BlankSealer" in state
    assert b"X25519" not in state
    assert sites["a"].private.private_bytes_raw() not in state


def test_nothing_secret_shows(sites: dict[str, SealingDomain]) -> None:
    a = sites["a"]
    a.sealed(frame_of(a, b"x", sites["b"]))
    secrets = [a.private.private_bytes_raw(), *a.keys._secrets.values()]
    shown = repr((a.keys, a.sealer, a.opener, a.content, *a.content._kept.values()))
    assert not any(secret.hex() in shown or repr(secret) in shown for secret in secrets)


def test_messages_are_counted_for_those_who_cannot_look_into_them(sites: dict[str, SealingDomain]) -> None:
    a, b = sites["a"], sites["b"]
    body = b"LMSG x 1\r\ny\r\n" * 3 + b"HMSG y 12 13\r\nNATS/1.0\r\n\r\nz\r\n" + b"LMSG x 1\r\ny\r\n"
    for _ in range(2):
        assert take_apart(a.sealed(frame_of(a, body, b)).body).messages == 5
    odd = b"LMSG x 12\r\nLMSG x 12\r\n!\r\n" * 2
    assert take_apart(a.sealed(frame_of(a, odd, b)).body).messages == 2, "payloads may look like lines"
