"""Sealed bodies: any body for any domains opens exactly there, whatever happens to the frame on its way."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.kit.sealing import Clock, domains, frame_of, introduce, with_body

from mangrove.gateway.sealing import content_keys, opener
from mangrove.gateway.sealing.content_keys import ContentKeys
from mangrove.gateway.sealing.gateway_sealer import GatewaySealer
from mangrove.gateway.sealing.refusal import Refusal
from mangrove.gateway.sealing.sealing_keys import HEARD_S
from mangrove.overlay.protocol.frames import Frame, FrameDecoder, FrameType, Predecessor
from mangrove.overlay.protocol.pieces import Cutting, Joining
from mangrove.overlay.sealing.sealed_body import is_sealed, read_envelope, sealed_bytes, take_apart
from mangrove.overlay.sealing.sealer import BlankSealer

NAMES = ("a", "b", "c", "d", "e")
SITES = domains(*NAMES)
STRANGERS = domains(*NAMES, federation="another")

bodies = st.binary(max_size=400)
before = st.builds(Predecessor, st.integers(1, 9), st.integers(1, 9), st.just(2))
receivers = st.sets(st.sampled_from(NAMES[1:]), min_size=1).map(sorted)


def in_pieces(frame: Frame, size_bytes: int) -> Frame:
    """Cut between two neighbours and joined again, and once through bytes."""
    if size_bytes >= len(frame.body):
        return FrameDecoder().feed(frame.encode())[0]
    cutting = Cutting(frame, 0.0, 3, 0.0)
    joining = Joining(1 << 20)
    while True:
        piece, last = cutting.cut(size_bytes, 0.0)
        (piece,) = FrameDecoder().feed(piece.encode())
        if last:
            return joining.join(piece)
        joining.add(piece)


@st.composite
def parts(draw: st.DrawFn, names: list[str]) -> list[list[str]]:
    """Destinations split at transit gateways: any partition of them."""
    places = [draw(st.integers(0, 2)) for _ in names]
    split = [[name for name, at in zip(names, places, strict=True) if at == part] for part in range(3)]
    return [part for part in split if part]


@given(bodies, receivers, st.data())
@settings(max_examples=60)
def test_a_body_opens_exactly_at_its_destinations(body: bytes, to: list[str], data: st.DataObject) -> None:
    origin = SITES["a"]
    sequence = data.draw(st.integers(1, 1 << 40))
    predecessors = tuple(
        data.draw(st.lists(st.builds(Predecessor, st.integers(1, 9), st.integers(1, 9), st.just(2))))
    )
    plain = replace(
        frame_of(
            origin, body, *(SITES[name] for name in to), sequence=sequence, flow=data.draw(st.integers(1, 5))
        ),
        predecessors=predecessors,
        type=data.draw(st.sampled_from([FrameType.DATA, FrameType.JOBS])),
    )
    sealed = origin.sealed(plain)
    assert is_sealed(sealed.body)
    assert len(body) < 16 or body not in sealed.body
    assert len(sealed.body) == sealed_bytes(len(body), len(to)) == len(BlankSealer().seal(plain))
    for part in data.draw(parts(to)):
        on_the_way = sealed.towards(sum(SITES[name].bit for name in part), data.draw(st.integers(0, 9)))
        on_the_way = on_the_way.onward(on_the_way.destinations, 0, 3).older(data.draw(st.floats(0, 10)))
        on_the_way = in_pieces(on_the_way, data.draw(st.integers(1, 5000)))
        for name in part:
            assert SITES[name].open(on_the_way) == body
            assert SITES[name].open(on_the_way) is Refusal.REPEATED
    for name, site in SITES.items():
        if name not in to and name != "a":
            assert site.open(sealed) is Refusal.NOT_FOR_US
    for name in to:
        assert STRANGERS[name].open(sealed) is Refusal.OWN_KEY_UNKNOWN
    assert origin.opener.look_into(sealed) == body, "who sealed it can look into it"


@given(st.binary(min_size=1, max_size=60), receivers, st.data())
@settings(max_examples=150)
def test_flipped_bits_never_open(body: bytes, to: list[str], data: st.DataObject) -> None:
    origin = SITES["a"]
    sealed = origin.sealed(frame_of(origin, body, *(SITES[name] for name in to)))
    bit = data.draw(st.integers(0, 8 * len(sealed.body) - 1))
    changed = bytearray(sealed.body)
    changed[bit // 8] ^= 1 << bit % 8
    victim = SITES[data.draw(st.sampled_from(to))]
    assert isinstance(victim.open(with_body(sealed, bytes(changed))), Refusal)


CHANGES = {
    "type": FrameType.JOBS,
    "origin": 1,
    "topic_class": 1,
    "epoch": 8,
    "flow_id": 2,
    "sequence": 2,
    "predecessors": (Predecessor(1, 1, 2),),
}


@pytest.mark.parametrize("field", CHANGES)
def test_what_a_frame_says_of_its_body_cannot_be_changed(field: str) -> None:
    origin, other = SITES["a"], SITES["c"]
    sealed = origin.sealed(frame_of(origin, b"body", other))
    changed = {"type": sealed.type, field: CHANGES[field]}
    assert isinstance(other.open(replace(sealed, **changed)), Refusal)
    assert other.open(sealed) == b"body"


@given(st.lists(st.sampled_from(["seal", "seal", "seal", "later", "rotate", "other"]), max_size=60))
@settings(max_examples=30)
def test_no_key_is_used_twice_with_one_nonce(acts: list[str]) -> None:
    used: list[tuple[bytes, bytes]] = []
    clock = Clock(1000.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content_keys, "AESGCM", lambda key: _Noting(key, used))
        patch.setattr(content_keys, "MAX_BODIES", 3)
        lives = domains("a", "b", "c", clock=clock)
        a, b, c = lives.values()
        for number, act in enumerate(acts):
            match act:
                case "seal":
                    to = (b, c) if number % 3 else (b,)
                    sealed = a.sealed(frame_of(a, b"x", *to, sequence=1, flow=number % 2))
                    assert b.open(sealed) == b"x", "whatever the keys did"
                case "later":
                    clock.now = clock() + 301
                case "rotate":
                    a.rotate()
                    introduce(lives, clock())
                    clock.now = clock() + HEARD_S
                case _:
                    b.rotate()
                    introduce(lives, clock())
    assert len(set(used)) == len(used)


steps = st.one_of(
    st.just(("seal", 0.0)),
    st.just(("seal", 0.0)),
    st.just(("hold up", 0.0)),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 100.0, 400.0, opener.TOO_OLD_NS / 1e9])),
    st.tuples(st.just("take over"), st.sampled_from([-7200.0, -1000.0, -1.0, 0.0, 1.0, 1000.0])),
    st.tuples(st.just("repeat"), st.floats(0, 1)),
)


@given(st.lists(steps, max_size=40))
@settings(max_examples=150)
def test_what_is_under_way_opens_and_what_is_old_does_not_whatever_clocks_later_lives_have(
    acts: list[tuple[str, float]],
) -> None:
    now, apart_s, life, ahead = 1e6, 0.0, 1, False
    clock = Clock(now)
    sealed: list[tuple[Frame, int, float]] = []
    opened: dict[int, list[int]] = {}
    refused: set[int] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opener, "MAX_KNOWN", 0)  # nothing is refused only because it is remembered
        a, b = domains("a", "b", clock=clock).values()

        def come(frame: Frame, number: int) -> bool:
            believed = not isinstance(b.open(frame), Refusal)
            if believed:
                opened.setdefault(frame.epoch, []).append(number)
            return believed

        for act, amount in acts:
            if act in ("seal", "hold up"):
                frame = a.sealed(replace(frame_of(a, b"x", b, flow=len(sealed) + 1), epoch=life))
                sealed.append((frame, read_envelope(take_apart(frame.body).envelope).number, now))
                assert act == "hold up" or come(*sealed[-1][:2]), "just sealed"
            elif act == "wait":
                now += amount
                clock.now = now + apart_s
            elif act == "take over":
                apart_s, life, ahead = apart_s + amount, life + 1, amount > 0
                clock.now = now + apart_s
                keys = ContentKeys("test", ("a", "b"), "a", a.keys, clock=clock, wall_clock_ns=clock.wall_ns)
                a.sealer = GatewaySealer(keys)
            elif sealed:
                frame, number, at = sealed[int(amount * (len(sealed) - 1))]
                old = any(
                    max(each) - (number if epoch == frame.epoch else each[0]) > opener.TOO_OLD_NS
                    for epoch, each in opened.items()
                    if epoch >= frame.epoch
                )
                believed = come(frame, number)
                assert not (old and believed)
                if frame.epoch == life or (frame.epoch == life - 1 in opened and not ahead):
                    assert believed or now - at > opener.UNDER_WAY_S
                assert not (believed and frame.flow_id in refused), "once refused is refused for good"
                if not believed:
                    refused.add(frame.flow_id)


class _Noting:
    """AES-GCM that notes what it was used with."""

    def __init__(self, key: bytes, used: list[tuple[bytes, bytes]]) -> None:
        self._key = key
        self._used = used
        self._cipher = AESGCM(key)

    def encrypt(self, nonce: bytes, plain: bytes, authenticated: bytes) -> bytes:
        self._used.append((self._key, nonce))
        return self._cipher.encrypt(nonce, plain, authenticated)


@given(st.binary(max_size=300))
def test_any_bytes_that_begin_as_a_sealed_body_are_refused(rest: bytes) -> None:
    site = SITES["b"]
    assert isinstance(site.open(with_body(frame_of(SITES["a"], b"", site), b"SEL1" + rest)), Refusal)
