"""Opens sealed bodies: those that are for this domain, and those that it has sealed itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mangrove.gateway.sealing.content_keys import LIFE_S
from mangrove.gateway.sealing.key_schedule import Parties, WrappingKey, nonce
from mangrove.gateway.sealing.refusal import Refusal, UnopenedError
from mangrove.gateway.sealing.sealing_keys import SealingKeys
from mangrove.overlay.delivery.seen_frames import SeenSequences, Verdict
from mangrove.overlay.protocol.frames import Frame
from mangrove.overlay.sealing.sealed_body import (
    Envelope,
    Recipient,
    SealedBody,
    SealFormatError,
    bound_facts,
    read_envelope,
    take_apart,
)

MAX_KNOWN = 4096
"""Envelopes that are remembered, of all origins."""
WINDOW = 1 << 14
"""Bodies under one content key of which it is known whether they came before."""
UNDER_WAY_S = 120.0
"""No frame is under way for longer."""
TOO_OLD_NS = int((LIFE_S + UNDER_WAY_S) * 1e9)
LIVES = 2
"""Of an origin, so many may have something under way: the present one and the one before it."""


class _Known:
    """A content key that opened a body: it is its origin's."""

    __slots__ = ("cipher", "number", "opened", "other", "other_id")

    def __init__(self, cipher: AESGCM, number: int, other: str, other_id: bytes) -> None:
        self.cipher = cipher
        self.number = number
        self.other = other
        self.other_id = other_id
        """The other domain's key that it rests on."""
        self.opened = SeenSequences(WINDOW)


class _KeyTime:
    """How far the content keys of an origin have come: they are numbered by a clock.

    A gateway that takes over begins a later life, and its clock may be behind. Its keys then begin where the
    newest of the life before was, and go on by its clock: they are not old, and those from before it grow
    older all the same. What an earlier life has sealed moves nothing on, however late it comes. No clock is
    compared with that of another domain.
    """

    __slots__ = ("_began", "_behind", "_newest")

    def __init__(self) -> None:
        self._behind: dict[int, int] = {}
        """By epoch, how much the clock of a life is behind; the latest life at the end."""
        self._began = 0
        """Where the latest life began."""
        self._newest = 0

    def is_old(self, epoch: int, number: int) -> bool:
        """Whether nothing can be under way any more that was sealed under a content key."""
        return self._moment(epoch, number) < self._newest - TOO_OLD_NS

    def opened(self, epoch: int, number: int) -> None:
        """A body that was sealed in this life under this content key is believed."""
        moment = self._moment(epoch, number)
        if epoch > self._latest:
            self._began = moment
            self._behind[epoch] = moment - number
            if len(self._behind) > LIVES:
                del self._behind[next(iter(self._behind))]
        self._newest = max(self._newest, moment)

    def _moment(self, epoch: int, number: int) -> int:
        if epoch > self._latest:
            return max(number, self._newest)
        moment = number + self._behind.get(epoch, 0)
        if epoch == self._latest:
            return moment
        if epoch in self._behind:
            return min(moment, self._began)
        # A life that was over when this opener began; of one whose clock was ahead it is not known when.
        return moment if len(self._behind) < LIVES and moment <= self._began else 0

    @property
    def _latest(self) -> int:
        return next(reversed(self._behind), -1)


class Opener:
    """Opens bodies and remembers which. What it knows of an origin it has from bodies that it opened."""

    def __init__(
        self,
        federation: str,
        order: tuple[str, ...],
        domain: str,
        keys: SealingKeys,
        look_again: Callable[[], None] = lambda: None,
    ) -> None:
        """`look_again` is called when a key is not known: it may have come since keys were looked at last."""
        self._federation = federation
        self._order = order
        self._index = order.index(domain)
        self._keys = keys
        self._look_again = look_again
        self._known: dict[tuple[int, bytes], _Known] = {}
        self._times: defaultdict[int, _KeyTime] = defaultdict(_KeyTime)
        """By origin."""
        self._version = keys.version

    def adopt(self, order: tuple[str, ...]) -> None:
        """Other domains are members."""
        self._order = order

    def open(self, frame: Frame) -> bytes:
        """The body of a frame for this domain, once; UnopenedError says why not."""
        parts, known, plain = self._decrypt(frame)
        time = self._times[frame.origin]
        if time.is_old(frame.epoch, known.number):
            raise UnopenedError(Refusal.TOO_OLD)
        verdict = known.opened.check(parts.counter)
        if verdict is not Verdict.NEW:
            raise UnopenedError(Refusal.REPEATED if verdict is Verdict.DUPLICATE else Refusal.TOO_OLD)
        time.opened(frame.epoch, known.number)
        return plain

    def look_into(self, frame: Frame) -> bytes:
        """The body of a frame for this domain or from it, though it may have been opened before."""
        return self._decrypt(frame)[2]

    def _decrypt(self, frame: Frame) -> tuple[SealedBody, _Known, bytes]:
        try:
            parts = take_apart(frame.body)
        except SealFormatError:
            raise UnopenedError(Refusal.MALFORMED) from None
        if self._version != self._keys.version:
            self._forget_unbelieved()
        name = (frame.origin, parts.envelope)
        known = self._known.get(name) or self._unwrapped(frame.origin, parts.envelope)
        authenticated = parts.envelope + parts.counts + bound_facts(frame)
        try:
            plain = known.cipher.decrypt(nonce(parts.counter), parts.ciphertext, authenticated)
        except InvalidTag:
            raise UnopenedError(Refusal.BROKEN) from None
        self._known.pop(name, None)
        self._known[name] = known  # only what opened a body is remembered, the latest at the end
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]
        return parts, known, plain

    def _unwrapped(self, origin: int, envelope: bytes) -> _Known:
        """The content key of an envelope, by the keys that two domains share."""
        try:
            read = read_envelope(envelope)
        except SealFormatError:
            raise UnopenedError(Refusal.MALFORMED) from None
        recipient = self._entry(origin, read)
        destination = self._order[recipient.domain]
        own_id, other, other_id = recipient.key_id, self._order[origin], read.origin_key_id
        if origin == self._index:
            own_id, other, other_id = read.origin_key_id, destination, recipient.key_id
        secret = self._secret(own_id, other, other_id)
        parties = Parties(
            self._federation, self._order[origin], destination, read.origin_key_id, recipient.key_id
        )
        try:
            content_key = WrappingKey(secret, read.salt, parties).unwrap(recipient.wrapped_key, read.audience)
        except InvalidTag:
            raise UnopenedError(Refusal.BROKEN) from None
        return _Known(AESGCM(content_key), read.number, other, other_id)

    def _forget_unbelieved(self) -> None:
        """Keys have changed: what rests on one that is not believed any more opens nothing."""
        self._version = self._keys.version
        self._known = {
            name: known
            for name, known in self._known.items()
            if self._keys.knows(known.other, known.other_id)
        }

    def _entry(self, origin: int, envelope: Envelope) -> Recipient:
        """The recipient's entry that can be opened here: the own one, or any if this domain is the origin."""
        for recipient in envelope.recipients:
            if recipient.domain == self._index:
                return recipient
            if origin == self._index and recipient.domain < len(self._order):
                name = self._order[recipient.domain]
                if self._keys.knows(name, recipient.key_id):
                    return recipient
        raise UnopenedError(Refusal.NOT_FOR_US)

    def _secret(self, own_id: bytes, other: str, other_id: bytes) -> bytes:
        """What two keys have in common; where one is not known, keys are looked at again before that is
        believed: a key may be used elsewhere a moment before it is known here."""
        secret = self._keys.shared_secret(own_id, other, other_id)
        if secret is None:
            self._look_again()
            secret = self._keys.shared_secret(own_id, other, other_id)
        if secret is None:
            known = self._keys.has_own(own_id)
            raise UnopenedError(Refusal.ORIGIN_KEY_UNKNOWN if known else Refusal.OWN_KEY_UNKNOWN)
        return secret
