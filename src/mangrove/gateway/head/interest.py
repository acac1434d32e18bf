"""What the domain's subscribers want, as its broker tells of it, on its way to the other domains."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from mangrove.broker.attachment import Attachment
from mangrove.gateway.head.inward.absent import ForAbsent
from mangrove.gateway.head.markers import Markers
from mangrove.gateway.ledger import Ledger
from mangrove.gateway.mirroring.mirror_plane import MirrorPlane
from mangrove.gateway.selecting.selecting_subscribers import SelectingSubscribers
from mangrove.model.subjects import group_problem, is_internal
from mangrove.overlay.engine import OverlayEngine

ODD_GROUP = "queue group whose name cannot be told to other domains"


class Silence(Protocol):
    """Who must hear of interest, because publishers may be silent for the lack of it."""

    def wanted(self, subjects: Iterable[str]) -> None:
        """Somebody wants subjects or patterns."""

    def when_known(self, done: Callable[[], None]) -> None:
        """Call `done` when every publisher knows of all that was wanted so far: at once, most often."""


class NobodySilent:
    """The silence of a domain whose publishers publish whatever anybody wants."""

    def wanted(self, subjects: Iterable[str]) -> None:
        """Nobody need hear of it."""

    def when_known(self, done: Callable[[], None]) -> None:
        """Nobody is waited for."""
        done()


class DomainInterest:
    """Tells the engine what is wanted at the head or at mirrors, and knows whether that is all."""

    def __init__(
        self,
        engine: OverlayEngine,
        ledger: Ledger,
        attachment: Attachment,
        selecting: SelectingSubscribers,
        markers: Markers,
        silence: Silence,
        *,
        absent: ForAbsent,
        regrouped: Callable[[str], None],
        mirrors: MirrorPlane | None,
    ) -> None:
        """`regrouped` hears of a subject for which lines change, since others serve it; `absent` keeps what
        waits for subscribers."""
        self._engine = engine
        self._ledger = ledger
        self._attachment = attachment
        self._selecting = selecting
        self._markers = markers
        self._silence = silence
        self._absent = absent
        self._regrouped = regrouped
        self._mirrors = mirrors
        self._at_head: set[str] = set()
        """Of what may be wanted at mirrors, what is wanted at the head."""
        self._attached = 0
        """How often the broker was there."""
        self._all_told = False
        """Whether the broker has told all subscriptions that it had when it was attached."""
        self._strangers = False
        """Whether somebody subscribes in a way that cannot be understood here."""

    @property
    def problem(self) -> str:
        """Why this may not be all that is wanted, though the broker is there; empty if it is."""
        if not (self._all_told and self._engine.head_settled):
            return "the head broker has not told all subscriptions yet"
        return "somebody subscribes in a way that cannot be understood" if self._strangers else ""

    def attached(self) -> None:
        """The broker is there, and begins to tell of all its subscriptions."""
        self._attached += 1
        self._all_told = self._strangers = False
        self._attachment.after_interest(partial(self._told_all, self._attached))

    def _told_all(self, attached: int) -> None:
        self._all_told = attached == self._attached

    def lost(self) -> None:
        """The broker is gone. The engine knows for how long its subscribers are expected back."""
        self._markers.lost()
        self._at_head.clear()
        self._selecting.lost()

    def change(self, subject: str, group: str, wanted: bool) -> None:
        """A subscription came or went somewhere in this domain."""
        if is_internal(subject):
            return
        self._markers.interest(subject, group, wanted)
        if wanted:
            self._silence.wanted((subject,))
            if self._absent:
                self._regrouped(subject)
        if group and group_problem(group):
            if wanted:
                self.ignored(ODD_GROUP)
            return
        told = self._selecting.change(subject, group, wanted) if group else None
        if told is not None:
            self._regrouped(subject)
            if not told.changed:
                return
            group, wanted = told.group, told.wanted
        if self._mirrors is not None and not group:
            wanted = self._wanted_anywhere(self._mirrors, subject, wanted)
        if self._engine.change_local_interest(subject, group, wanted):
            # A group with a member at home is served at home, so lines in both directions change.
            self._regrouped(subject)

    def ignored(self, what: str) -> None:
        """Something from the broker was left out."""
        self._strangers = True
        self._ledger.ignore(what)

    def _wanted_anywhere(self, mirrors: MirrorPlane, subject: str, at_head: bool) -> bool:
        """Whoever holds on to the second copies wants messages to come, though the first ones find nobody."""
        change = self._at_head.add if at_head and mirrors.concerns(subject) else self._at_head.discard
        change(subject)
        return at_head or mirrors.wants(subject)

    def mirror_changed(self, subject: str) -> None:
        """Some edge begins or ceases to want second copies."""
        if self._mirrors is not None and not is_internal(subject):
            wanted = self._mirrors.wants(subject) or subject in self._at_head
            self._engine.change_local_interest(subject, "", wanted)

    def tell_of_mirrors(self) -> None:
        """Subscribers of the head were given up: what edges want of the same is wanted nonetheless."""
        for subject in self._mirrors.wanted() if self._mirrors is not None else ():
            self.mirror_changed(subject)
