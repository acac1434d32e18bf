"""Signs what this gateway says of itself, keeps what others have signed, and judges what is brought.

What is flooded goes on in its origin's own words, with its signature. Each is checked once at each gateway,
and only if it is news. An old word, however well signed, is not believed where nothing newer contradicts
it: the first word of a gateway's life must have been said of late, by clocks that may be apart by
`MAX_APART_S`; from then on its numbers tell old from new, and clocks do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from mangrove.model.events.event_log import EventLog
from mangrove.overlay.network.link_state import LinkStateDatabase
from mangrove.overlay.protocol.control_messages import (
    ControlBody,
    DangerNotice,
    InterestUpdate,
    LinkStateAd,
    RouteSetup,
    control_frame,
)
from mangrove.overlay.protocol.frames import Frame, FrameError, FrameType, Name
from mangrove.overlay.protocol.signed import InterestStatement, Signed
from mangrove.overlay.protocol.signed_bodies import (
    Signable,
    SignedMessage,
    changed_wants,
    interest_statement,
    signed_frame,
    signed_message,
    words,
)
from mangrove.overlay.trust.frame_tags import content, proves_origin, tags_for
from mangrove.overlay.trust.refusals import NOBODY, Refusal, Refusals
from mangrove.overlay.trust.table_hash import digest_of
from mangrove.overlay.trust.trust import Judgement, Trust

MAX_APART_S = 300.0
"""How far clocks of gateways may be apart, and how long the last word of a dead one is believed."""

LINK_STATE, DANGER, INTEREST, ROUTE, DATA = "link state", "notice of a region", "interest", "route", "data"
VERSION = "notice about versions"
"""What may be refused."""
_SUBJECTS = {
    FrameType.LINK_STATE: f"{LINK_STATE} or {DANGER}",
    FrameType.ROUTE: ROUTE,
    FrameType.VERSIONS: VERSION,
}


class _Kept(NamedTuple):
    stamp: tuple[int, int]
    signed: Signed
    frame: Frame

    @classmethod
    def of(cls, ad: LinkStateAd, signed: Signed) -> _Kept:
        return cls((ad.epoch, ad.sequence), signed, signed_frame(FrameType.LINK_STATE, signed))


class Notary:
    """The signatures of one engine. Without a trust nothing is signed, and everything is believed."""

    def __init__(
        self,
        domain: str,
        order: Sequence[str],
        link_state: LinkStateDatabase,
        log: EventLog,
        trust: Trust | None,
    ) -> None:
        """`order` is the agreed one, in which destinations have their places."""
        self._domain = domain
        self._order = order
        self._place = order.index(domain)
        self._places = {name: place for place, name in enumerate(order)}
        self._tagged: tuple[Name | None, bytes] = (None, b"")
        """The frame that had tags made last, and its content: it often leaves by several paths."""
        self._link_state = link_state
        self._trust = trust
        self.now = 0.0
        """When the engine was last told something."""
        self.refusals = Refusals(order, log)
        self.credentials: dict[str, tuple[bytes, ...]] = {}
        """The believed credentials of each other domain: the last one, and the one before it."""
        self._ads: dict[str, _Kept] = {}
        self._passing: tuple[RouteSetup, Signed] | None = None
        """The set-up that is being looked at, in its origin's words."""
        self._early: dict[str, set[str]] = {}
        """Neighbours that told what a domain wants before the life of its gateway was known."""

    def adopt(self, order: Sequence[str], gone: Iterable[str]) -> None:
        """Other domains are members; what those that are `gone` have signed is forgotten."""
        self._order = order
        self._places = {name: place for place, name in enumerate(order)}
        self.refusals.adopt(order)
        for name in gone:
            self.credentials.pop(name, None)
            self._ads.pop(name, None)
            self._early.pop(name, None)

    @property
    def secured(self) -> bool:
        """Whether anything is signed at all."""
        return self._trust is not None

    @property
    def trust(self) -> Trust:
        """The keys and the clock, of a secured engine."""
        assert self._trust is not None
        return self._trust

    def renew(self, trust: Trust) -> None:
        """The keys have changed: what was signed with the old ones is signed anew when it is next told."""
        self._trust = trust
        self._ads.pop(self._domain, None)

    # -- what is said -------------------------------------------------------------------------------------

    def frame(self, message: ControlBody) -> Frame:
        """The frame that tells something: signed by this gateway, or as its origin has signed it."""
        if self._trust is None:
            return control_frame(message)
        match message:
            case LinkStateAd():
                return self._ad_frame(message)
            case RouteSetup():
                passing = self._passing
                signed = passing[1] if passing is not None and passing[0] is message else self.sign(message)
                return signed_frame(FrameType.ROUTE, signed)
            case _:
                return control_frame(message)

    def sign(self, message: Signable) -> Signed:
        """What this gateway says in its own name."""
        return self.trust.signed(words(message))

    def _ad_frame(self, ad: LinkStateAd) -> Frame:
        """The newest of its origin, which may be newer than what was to be repeated."""
        kept = self._ads.get(ad.origin)
        stamp = (ad.epoch, ad.sequence)
        if ad.origin == self._domain and (kept is None or kept.stamp != stamp):
            kept = self._ads[ad.origin] = _Kept.of(ad, self.sign(ad))
        assert kept is not None, f"the link state of {ad.origin} was kept without its signature"
        return kept.frame

    # -- data ---------------------------------------------------------------------------------------------

    def with_tags(self, frame: Frame, peer: str) -> Frame:
        """A frame of this domain on its way to a neighbour, with what proves that to those beyond.

        The neighbour itself needs no proof but the link. What names queue groups may be turned back, and is
        known again by its tags.
        """
        if self._trust is None:
            return frame
        left = frame.destinations
        if frame.type is not FrameType.JOBS:
            left &= ~(1 << self._places[peer])
        for tag in frame.tags:
            left &= ~(1 << tag.destination)
        if not left:
            return frame
        credentials = {}
        while left:
            bit = left & -left
            left ^= bit
            place = bit.bit_length() - 1
            credential = self.credentials.get(self._order[place])
            if credential is not None:
                credentials[place] = credential[0]
        name, said = self._tagged
        if name != frame.name:
            said = content(frame)
            self._tagged = (frame.name, said)
        return replace(frame, tags=frame.tags + tags_for(frame, said, credentials, self._trust))

    def is_own(self, frame: Frame, destinations: int) -> bool:
        """Whether a frame that came back began here, for these destinations, as it is now.

        What is shared with a destination shows it at either end.
        """
        places = [place for place in range(len(self._order)) if destinations >> place & 1]
        known = [self.credentials.get(self._order[place], ()) for place in places]
        return all(map(partial(proves_origin, frame, trust=self.trust), places, known))

    def sent_here(self, peer: str, frame: Frame, destinations: int) -> bool:
        """Whether a frame that was turned back began here; else it is refused."""
        if self.is_own(frame, destinations):
            return True
        self.refuse(peer, self._domain, DATA, Refusal.OWN_NAME)
        return False

    def sent_by_origin(self, peer: str, frame: Frame) -> bool:
        """Whether a frame that is for this domain was sent to it by its origin.

        A neighbour may say in its own name what it wants. It lets nothing through in its name that is not
        its own (`is_own`), or others could speak through it.
        """
        origin = self._order[frame.origin]
        if origin == peer:
            return True
        known = self.credentials.get(origin, ())
        if proves_origin(frame, self._place, known, self.trust):
            return True
        self.refuse(peer, origin, DATA, Refusal.FORGED, "" if known else "nothing is known of it yet")
        return False

    # -- what is heard ------------------------------------------------------------------------------------

    def refuse(self, peer: str, origin: str, what: str, why: Refusal, detail: str = "") -> None:
        """Count and tell that something was not believed."""
        self.refusals.note(peer, origin, what, why, self.now, detail)

    def read(self, peer: str, frame_type: FrameType, signed: Signed) -> SignedMessage | None:
        """What was signed; None, and refused, if it says nothing that can be read.

        Its origin has chosen the words: the link to an honest neighbour who hands them on is not closed.
        """
        try:
            return signed_message(frame_type, signed)
        except FrameError as error:
            self.refuse(peer, NOBODY, _SUBJECTS[frame_type], Refusal.IMPOSSIBLE, error.message)
            return None

    def judged(self, peer: str, origin: str, what: str, signed: Signed) -> Judgement | None:
        """How old something is that its origin has signed; None if it was refused."""
        if not self.refusals.trusted(peer, self.now):
            self.refuse(peer, origin, what, Refusal.TOO_MANY)
            return None
        judgement = self.trust.judge(origin, signed)
        if judgement.problem:
            self.refusals.charge(peer, self.now)
            self.refuse(peer, origin, what, Refusal.FORGED, judgement.problem)
            return None
        if origin != self._domain:
            self._keep_credential(origin, signed.credential)
        return judgement

    def _keep_credential(self, origin: str, credential: bytes) -> None:
        known = self.credentials.get(origin, ())
        if credential not in known[:1]:
            self.credentials[origin] = (credential, *(each for each in known[:1] if each != credential))

    def believes_ad(self, peer: str, ad: LinkStateAd, signed: Signed | None) -> bool:
        """Whether an advertisement that would be news was made by its origin, and in its present life."""
        if signed is None:
            self.refuse(peer, ad.origin, LINK_STATE, Refusal.UNSIGNED)
            return False
        judgement = self.judged(peer, ad.origin, LINK_STATE, signed)
        if judgement is None:
            return False
        if ad.origin == self._domain:
            self.refuse(peer, ad.origin, LINK_STATE, Refusal.LATER_LIFE)
            return False
        if self._link_state.epoch_of(ad.origin) != ad.epoch and not self._recent(judgement):
            self.refuse(peer, ad.origin, LINK_STATE, Refusal.OLD, _age(judgement))
            return False
        self._ads[ad.origin] = _Kept.of(ad, signed)
        return True

    def believes_setup(self, peer: str, setup: RouteSetup, signed: Signed | None) -> bool:
        """Whether a route was asked for by its origin, and of late. It goes on as it came."""
        self._passing = None
        if signed is None:
            self.refuse(peer, setup.origin, ROUTE, Refusal.UNSIGNED)
            return False
        judgement = self.judged(peer, setup.origin, ROUTE, signed)
        if judgement is None:
            return False
        if not self._recent(judgement):
            self.refuse(peer, setup.origin, ROUTE, Refusal.OLD, _age(judgement))
            return False
        self._passing = (setup, signed)
        return True

    def time_left(self, peer: str, notice: DangerNotice, signed: Signed | None) -> float | None:
        """How long a region is endangered by what its origin has signed; None if that is not believed.

        Who passes a notice on says how much is left. That is believed as far as clocks cannot tell better.

        """
        if signed is None:
            self.refuse(peer, notice.told_at, DANGER, Refusal.UNSIGNED)
            return None
        judgement = self.judged(peer, notice.told_at, DANGER, signed)
        if judgement is None:
            return None
        if notice.version > signed.at_ns + MAX_APART_S * 1e9:
            self.refuse(peer, notice.told_at, DANGER, Refusal.IMPOSSIBLE, "a version beyond all others")
            return None
        by_clock_s = notice.left_s - judgement.age_s
        longest_s = min(notice.left_s, by_clock_s + MAX_APART_S)
        if longest_s < 0 or judgement.age_s < -MAX_APART_S:
            self.refuse(peer, notice.told_at, DANGER, Refusal.OLD, _age(judgement))
            return None
        told_s = longest_s if signed.left_s is None else signed.left_s
        return max(0.0, min(longest_s, max(told_s, by_clock_s - MAX_APART_S)))

    def proof_of(self, domain: str, epoch: int) -> Signed | None:
        """What a life of a domain's gateway has signed; None if nothing of it is kept."""
        kept = self._ads.get(domain)
        return kept.signed if kept is not None and kept.stamp[0] == epoch else None

    def proves_life(self, proof: Signed | None, epoch: int) -> bool:
        """Whether a life of this domain's own gateway has signed something."""
        if proof is None:
            return False
        try:
            ad = signed_message(FrameType.LINK_STATE, proof)
        except FrameError:
            return False
        if not isinstance(ad, LinkStateAd) or (ad.origin, ad.epoch) != (self._domain, epoch):
            return False
        return not self.trust.judge(self._domain, proof).problem

    def kept_ads(self) -> Iterator[tuple[str, Signed]]:
        """What other domains have signed of their links."""
        yield from ((origin, kept.signed) for origin, kept in self._ads.items() if origin != self._domain)

    def problems(self) -> list[str]:
        """Invariants that do not hold: what is believed of links is what was signed of them."""
        if not self.secured:
            return []
        ads = self._link_state.others()
        signed = {origin: signed_message(FrameType.LINK_STATE, each) for origin, each in self.kept_ads()}
        return [] if ads == signed else ["the link state is not the one that was signed"]

    # -- interest -----------------------------------------------------------------------------------------

    def state(self, update: InterestUpdate, table: bytes) -> Signed:
        """Sign a change of what the own domain wants, and the table that it leads to."""
        statement = InterestStatement(
            origin=update.origin,
            epoch=update.epoch,
            version=update.version,
            change=change_hash(update),
            table=table,
        )
        return self.sign(statement)

    def known_life(self, peer: str, update: InterestUpdate) -> bool:
        """Whether interest is of the life that its gateway is known to live.

        What comes before the first advertisement is asked for again when that has come. The other gateway of
        the own domain (no `peer`) knows what it says.
        """
        if not peer:
            return True
        life = self._link_state.epoch_of(update.origin)
        if life is None or life < update.epoch:
            self._early.setdefault(update.origin, set()).add(peer)
        return life == update.epoch

    def take_early(self, origin: str) -> list[str]:
        """Neighbours that are to be asked again for what a domain wants, now that its life is known."""
        return sorted(self._early.pop(origin, ()))

    def stated(self, peer: str, update: InterestUpdate) -> InterestStatement | None:
        """What the origin has signed of an update; None if it has not, or something else."""
        signed = update.statement
        if signed is None:
            self.refuse(peer, update.origin, INTEREST, Refusal.UNSIGNED)
            return None
        try:
            statement = interest_statement(signed)
        except FrameError as error:
            self.refuse(peer, update.origin, INTEREST, Refusal.OTHER_CONTENT, error.message)
            return None
        spoken_of = (update.origin, update.epoch, update.version)
        if (statement.origin, statement.epoch, statement.version) != spoken_of or not (
            update.snapshot or statement.change == change_hash(update)
        ):
            self.refuse(peer, update.origin, INTEREST, Refusal.OTHER_CONTENT)
            return None
        return statement if self.judged(peer, update.origin, INTEREST, signed) is not None else None

    @staticmethod
    def _recent(judgement: Judgement) -> bool:
        return abs(judgement.age_s) <= MAX_APART_S


def change_hash(update: InterestUpdate) -> bytes:
    """Names what an update changes."""
    return digest_of(changed_wants(update))


def _age(judgement: Judgement) -> str:
    return f"{judgement.age_s:.0f} s ago by its clock"
