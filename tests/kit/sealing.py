"""Domains with sealing keys of their own, without files: what they seal and open."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, time_ns

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from msgspec.structs import replace

from mangrove.gateway.sealing.content_keys import ContentKeys
from mangrove.gateway.sealing.gateway_sealer import GatewaySealer
from mangrove.gateway.sealing.opener import Opener
from mangrove.gateway.sealing.refusal import Refusal, UnopenedError
from mangrove.gateway.sealing.sealing_keys import OtherKey, SealingKeys
from mangrove.overlay.protocol.frames import Frame, FrameType


class SealingDomain:
    """One domain that seals and opens."""

    def __init__(self, name: str, order: tuple[str, ...], federation: str, clock: Clock) -> None:
        self.name = name
        self.index = order.index(name)
        self.bit = 1 << self.index
        self.private = X25519PrivateKey.generate()
        self.keys = SealingKeys(self.private, clock)
        content = ContentKeys(federation, order, name, self.keys, clock=clock, wall_clock_ns=clock.wall_ns)
        self.content = content
        self.sealer = GatewaySealer(content)
        self.looked_again = 0
        self.opener = Opener(federation, order, name, self.keys, self._look_again)
        self.found_later: Callable[[], None] = lambda: None

    @property
    def public(self) -> bytes:
        return self.private.public_key().public_bytes_raw()

    def rotate(self) -> None:
        """A new key of its own; nobody is told."""
        before, self.private = self.private, X25519PrivateKey.generate()
        self.keys.take_own(self.private, before)

    def _look_again(self) -> None:
        self.looked_again += 1
        self.found_later()

    def sealed(self, frame: Frame) -> Frame:
        return with_body(frame, self.sealer.seal(frame))

    def open(self, frame: Frame) -> bytes | Refusal:
        """The body, or why not."""
        try:
            return self.opener.open(frame)
        except UnopenedError as error:
            return error.refusal


class Clock:
    """Stands still until it is moved; without that, the real one."""

    def __init__(self, now: float | None = None) -> None:
        self.now = now

    def __call__(self) -> float:
        return monotonic() if self.now is None else self.now

    def wall_ns(self) -> int:
        return time_ns() if self.now is None else int(self.now * 1e9)


def domains(*names: str, federation: str = "test", clock: Clock | None = None) -> dict[str, SealingDomain]:
    """Domains that know each other's keys."""
    made = {name: SealingDomain(name, names, federation, clock or Clock()) for name in names}
    introduce(made)
    return made


def introduce(made: dict[str, SealingDomain], since_s: float = 1.0) -> None:
    """Everybody hears of everybody's newest key."""
    for each in made.values():
        for other in made.values():
            if other is not each:
                each.keys.take_other(other.name, OtherKey(other.public, since_s))


def frame_of(
    origin: SealingDomain, body: bytes, *to: SealingDomain, sequence: int = 1, flow: int = 1
) -> Frame:
    """A frame as it begins."""
    return Frame(
        FrameType.DATA,
        body,
        hop_limit=32,
        origin=origin.index,
        topic_class=0,
        epoch=7,
        destinations=sum(each.bit for each in to),
        flow_id=flow,
        sequence=sequence,
    )


def with_body(frame: Frame, body: bytes) -> Frame:
    """The same frame around another body."""
    return replace(frame, body=body)
