"""The kinds of things that happen at a gateway, each with its sentence for `mangrove story`."""

from __future__ import annotations

from typing import ClassVar

from mangrove.model.events.happening import Happening, Tone, kinds_by_name
from mangrove.model.site_pair import SitePair
from mangrove.model.status import Requirement


class LinkFailed(Happening, frozen=True, kw_only=True):
    """The link to a neighbour can no longer be used."""

    tone: ClassVar[Tone] = Tone.BAD
    peer: str
    reason: str

    def sentence(self) -> str:
        """Who and why."""
        return f"the link to {self.peer} failed: {self.reason}"


class LinkRecovered(Happening, frozen=True, kw_only=True):
    """The link to a neighbour may be used."""

    tone: ClassVar[Tone] = Tone.GOOD
    peer: str

    def sentence(self) -> str:
        """Who."""
        return f"the link to {self.peer} passed its tests"


class ColourChanged(Happening, frozen=True, kw_only=True):
    """Links failed or came back somewhere, so that other tables are in force here."""

    colour: int
    prepared: bool
    failed: tuple[SitePair, ...]
    recovered: tuple[SitePair, ...]
    risk_group: str = ""
    """Which group has failed, if the state is the failure of one."""

    def sentence(self) -> str:
        """Which tables, and which links made the difference."""
        parts = [f"{'–'.join(link)} failed" for link in self.failed]
        parts += [f"{'–'.join(link)} is back" for link in self.recovered]
        made = "prepared" if self.prepared else "made now"
        group = f"risk group {self.risk_group}, " if self.risk_group else ""
        return f"forwards by colour {self.colour} ({group}{made} table): {', '.join(parts)}"


class RouteHappening(Happening, frozen=True, kw_only=True):
    """Something about the routes of a contract to a destination."""

    topic: str
    destination: str

    @property
    def about(self) -> str:
        """Whose routes."""
        return f"{self.topic} to {self.destination}"


class RouteRequested(RouteHappening, frozen=True, kw_only=True):
    """A route is asked for along a path."""

    path: tuple[str, ...]
    predicted_ms: float
    deadline_ms: float | None

    def sentence(self) -> str:
        """Along which path, and how long it should take."""
        limit = f" of {self.deadline_ms:g}" if self.deadline_ms else ""
        return f"asks for a route for {self.about}: {_way(self.path)} ({self.predicted_ms:.1f}{limit} ms)"


class RouteEstablished(RouteHappening, frozen=True, kw_only=True):
    """Everybody on the path has acknowledged the route."""

    path: tuple[str, ...]

    def sentence(self) -> str:
        """Which one."""
        return f"route for {self.about} stands: {_way(self.path)}"


class RouteRefused(RouteHappening, frozen=True, kw_only=True):
    """Somebody on the path could not establish the route."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    path: tuple[str, ...]
    reason: str

    def sentence(self) -> str:
        """Which one, and why not."""
        return f"route for {self.about} was refused, {self.reason}: {_way(self.path)}"


class RouteRetired(RouteHappening, frozen=True, kw_only=True):
    """A route is no longer used."""

    path: tuple[str, ...]
    reason: str

    def sentence(self) -> str:
        """Which one, and why."""
        return f"route for {self.about} is given up, {self.reason}: {_way(self.path)}"


class ContractUnmet(RouteHappening, frozen=True, kw_only=True):
    """The network cannot give what a contract asks for; it is served as well as can be."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    reason: str
    unmet: tuple[Requirement, ...] = ()

    def sentence(self) -> str:
        """What is missing."""
        return f"{self.about} cannot be met: {self.reason}"


class ContractMet(RouteHappening, frozen=True, kw_only=True):
    """A contract that could not be met is met again."""

    tone: ClassVar[Tone] = Tone.GOOD

    def sentence(self) -> str:
        """Which one."""
        return f"{self.about} is met again"


class HeadLost(Happening, frozen=True, kw_only=True):
    """The head broker is away; the interest of its subscribers is kept in force for a while."""

    tone: ClassVar[Tone] = Tone.BAD
    subjects: int

    def sentence(self) -> str:
        """What is at stake."""
        return f"the head broker is away; {self.subjects} wanted subjects are kept in force"


class HeadSettled(Happening, frozen=True, kw_only=True):
    """The head broker's subscribers are back, or were given up."""

    tone: ClassVar[Tone] = Tone.GOOD
    withdrawn: int

    def sentence(self) -> str:
        """How many did not return."""
        rest = f"; {self.withdrawn} subjects were not asked for again" if self.withdrawn else ""
        return f"the head broker's subscribers are back{rest}"


class RegionEndangered(Happening, frozen=True, kw_only=True):
    """An operator has declared a region endangered: contracts leave it if they can."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    name: str
    centre: tuple[float, float]
    radius_km: float
    left_s: float
    sites: tuple[str, ...]
    links: int

    def sentence(self) -> str:
        """Where, and what it touches."""
        latitude, longitude = self.centre
        inside = f"{', '.join(self.sites) or 'no site'} inside, {self.links} links touched"
        return (
            f"region {self.name} is endangered, {self.radius_km:g} km around "
            f"{latitude:g},{longitude:g}: {inside}"
        )


class RegionSafe(Happening, frozen=True, kw_only=True):
    """A region is no longer endangered: contracts return to the ways that suit them best."""

    tone: ClassVar[Tone] = Tone.GOOD
    name: str
    reason: str

    def sentence(self) -> str:
        """Which one, and why."""
        return f"region {self.name} is no longer endangered: {self.reason}"


class BudgetOverrun(Happening, frozen=True, kw_only=True):
    """Most frames of a topic have waited for a link beyond their budget, for some time."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    topic: str
    peer: str
    wait_ms: float

    def sentence(self) -> str:
        """Which topic, where, and how long."""
        return f"{self.topic} waits {self.wait_ms:.1f} ms for {self.peer}, longer than this hop's budget"


class BudgetKept(Happening, frozen=True, kw_only=True):
    """A topic that overran its budget keeps it again."""

    tone: ClassVar[Tone] = Tone.GOOD
    topic: str
    peer: str

    def sentence(self) -> str:
        """Which topic, and where."""
        return f"{self.topic} keeps its budget for {self.peer} again"


class BodiesRefused(Happening, frozen=True, kw_only=True):
    """Bodies that came under another domain's name were not opened."""

    tone: ClassVar[Tone] = Tone.BAD
    origin: str
    topic: str
    reason: str
    count: int = 1

    def sentence(self) -> str:
        """Whose name they bore, and why not."""
        bodies = "a body" if self.count == 1 else f"{self.count:,} bodies"
        return f"refused {bodies} of {self.topic} in the name of {self.origin}: {self.reason}"


class StatementRefused(Happening, frozen=True, kw_only=True):
    """Something that a neighbour brought in the name of a domain was not believed."""

    tone: ClassVar[Tone] = Tone.BAD
    peer: str
    origin: str
    what: str
    reason: str
    count: int = 1
    """How often, since it was told before."""

    def sentence(self) -> str:
        """What, from whom, in whose name, and why."""
        often = f", {self.count:,} times" if self.count > 1 else ""
        return (
            f"refused {self.what} that {self.peer} brought in the name of {self.origin}{often}: {self.reason}"
        )


class GatewayTookOver(Happening, frozen=True, kw_only=True):
    """A gateway that stood by carries from now on."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    reason: str

    def sentence(self) -> str:
        """Why."""
        return f"takes over as the gateway of its domain: {self.reason}"


class GatewayDisplaced(Happening, frozen=True, kw_only=True):
    """A gateway lets go, because the other one of its domain carries."""

    tone: ClassVar[Tone] = Tone.DOUBTFUL
    reason: str
    given_up: int = 0
    """Messages that had not been acknowledged by the next gateway; some may have arrived."""

    def sentence(self) -> str:
        """Why, and what that costs."""
        return f"lets go of {self.given_up:,} messages and stands by: {self.reason}"


class ChangeProposed(Happening, frozen=True, kw_only=True):
    """Somebody has asked this gateway for another version of the federation document."""

    version: int
    by: str
    what: str

    def sentence(self) -> str:
        """Who, and what."""
        return f"{self.by or 'somebody'} asks for version {self.version}: {self.what}"


class VersionInForce(Happening, frozen=True, kw_only=True):
    """Another version of the federation document is in force here."""

    tone: ClassVar[Tone] = Tone.GOOD
    version: int
    before: int
    by: str = ""
    what: str = ""

    def sentence(self) -> str:
        """Which, by whom, and what is different."""
        whose = f" of {self.by}" if self.by else ""
        return f"version {self.version}{whose} is in force, after {self.before}: {self.what}"


def _way(path: tuple[str, ...]) -> str:
    return " → ".join(path)


KINDS = kinds_by_name(
    LinkFailed,
    LinkRecovered,
    ColourChanged,
    RouteRequested,
    RouteEstablished,
    RouteRefused,
    RouteRetired,
    ContractUnmet,
    ContractMet,
    HeadLost,
    HeadSettled,
    RegionEndangered,
    RegionSafe,
    BudgetOverrun,
    BudgetKept,
    BodiesRefused,
    StatementRefused,
    GatewayTookOver,
    GatewayDisplaced,
    ChangeProposed,
    VersionInForce,
)
