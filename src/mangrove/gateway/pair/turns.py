"""When it is this gateway's turn: it stands by until it has to take over, and ends when it is displaced."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from mangrove.errors import MangroveError
from mangrove.gateway.audience.desk import AudienceDesk
from mangrove.gateway.delivery_journal import names_in
from mangrove.gateway.head.connection import HeadConnection
from mangrove.gateway.links.links import Links
from mangrove.gateway.mirroring.mirror_plane import MirrorPlane
from mangrove.gateway.pair.partnership import Partnership
from mangrove.model.shared_names import GATEWAY_READY
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import Instruction
from mangrove.overlay.pair.messages import Role
from mangrove.overlay.pair.roles import Finding

log = logging.getLogger(__name__)


class DisplacedError(MangroveError):
    """The other gateway of the domain carries."""

    def __init__(self) -> None:
        super().__init__("another gateway of this domain carries")


class Turns:
    """Follows the roles that a pair gives to one life of a gateway."""

    def __init__(
        self,
        partnership: Partnership,
        engine: OverlayEngine,
        desk: AudienceDesk,
        head: HeadConnection,
        links: Links,
        mirrors: MirrorPlane | None,
        carry_out: Callable[[list[Instruction]], None],
    ) -> None:
        self._partnership = partnership
        self._pair = partnership.pair
        self._engine = engine
        self._desk = desk
        self._head = head
        self._links = links
        self._mirrors = mirrors
        self._carry_out = carry_out

    async def follow(self, begin: Callable[[], None]) -> None:
        """Stand by, and carry when it is this gateway's turn; DisplacedError when it no longer is.

        `begin` starts all that only a gateway which carries does.
        """
        pair = self._pair
        while True:
            change = await pair.changes.get()
            match change.role:
                case Role.STANDBY:
                    log.info("%s, standing by", GATEWAY_READY)
                case Role.TAKING_OVER:
                    if change.finding is Finding.NOBODY_CARRIES and pair.settings.other_journal:
                        self._partnership.told_names(names_in(Path(pair.settings.other_journal)))
                    self._take_over(change.finding.value)
                    begin()
                    pair.begun()
                    log.info(GATEWAY_READY)
                case Role.DISPLACED:
                    self._partnership.let_go(change.finding.value)
                    raise DisplacedError
                case _:
                    pass

    def _take_over(self, reason: str) -> None:
        """Begin a life that is later than the other gateway's; neighbours greet whoever began last."""
        epoch = self._pair.take_over()
        self._desk.hold(self._pair.leaves_s)
        self._carry_out(self._engine.begin(epoch, reason, monotonic()))
        self._head.begin()
        self._links.begin()
        if self._mirrors is not None:
            self._mirrors.begin()
