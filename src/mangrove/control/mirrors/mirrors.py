"""The mirrors of a domain's topics: who has which, and which other would do when a broker is away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable

from mangrove.control.mirrors.choice import Loads, MirrorChoice, Places
from mangrove.control.site import Site
from mangrove.model.agents.directory import DirectoryRecord
from mangrove.model.mirrors.modes import contracted_modes
from mangrove.model.patterns.trie import SubjectTrie
from mangrove.model.topics import Mirror

MAX_PATTERNS_OVER = 100
"""Records of patterns that the publisher of one subject is told of."""


class Mirrors:
    """See `MirrorPolicy`. Asked with every record, it answers at once for topics that have no mirror."""

    def __init__(
        self,
        site: Site,
        loads: Loads,
        *,
        published: Callable[[str], bool],
        planned: Callable[[str], str] = lambda topic: "",
        clock_shift_s: float = 0.0,
    ) -> None:
        """`published`: whether anybody here publishes a topic; `planned`: its mirror by the plan in force."""
        self._site = site
        self._modes = contracted_modes(site.federation.topics)
        self._choice = MirrorChoice(site, loads)
        self._published = published
        self._planned = planned
        self._clock_shift_s = clock_shift_s
        self._away: frozenset[str] = frozenset()
        self._down: frozenset[str] = frozenset()
        """Of those, the ones that were known to be down when it was last looked."""
        self._patterns: SubjectTrie[str] = SubjectTrie()
        """Mirrored topics that somebody here subscribes to."""
        self._topics: dict[str, str] = {}
        """The mirror of every mirrored topic, or an empty string."""
        self._at: Counter[str] = Counter()
        self._changed: dict[str, None] = {}

    def mode(self, topic: str) -> Mirror:
        """How a topic is mirrored by its contracts."""
        return self._modes.of(topic)

    def choose(
        self, topic: str, edges: tuple[str, ...], publish_at: str, present: str, since: float
    ) -> tuple[str, Mirror]:
        """The mirror of a topic, and how it is used."""
        mode = self._modes.of(topic)
        if not mode or not (edges or publish_at or self._published(topic)):
            return "", Mirror.NONE
        mirror = self._choice.choose(
            Places(edges, publish_at or self._site.acting_head),
            since - self._clock_shift_s,
            planned=self._planned(topic),
            present=present,
            shared={self._topics.get(over, "") for over in self._patterns.match(topic) if over != topic},
            mirrored=self._at,
            away=self._away | self._site.down,
        )
        return mirror, mode

    def recorded(self, before: DirectoryRecord | None, after: DirectoryRecord | None) -> None:
        """A record is in force, or none any more."""
        if before is not None and before.mode:
            self._patterns.remove(before.topic, before.topic)
            self._at[before.mirror] -= 1
            self._topics.pop(before.topic, None)
            self._changed[before.topic] = None
        if after is not None and after.mode:
            if after.edges:
                self._patterns.add(after.topic, after.topic)
            self._at[after.mirror] += 1
            self._topics[after.topic] = after.mirror
            self._changed[after.topic] = None

    def over(self, topic: str) -> list[str]:
        """Other mirrored topics with subscribers that a published subject falls under; not too many."""
        if not self._modes.of(topic):
            return []
        return sorted(each for each in self._patterns.match(topic) if each != topic)[:MAX_PATTERNS_OVER]

    def set_away(self, away: Collection[str]) -> list[str]:
        """Brokers that do not answer are nobody's mirror: the topics that must be decided about anew."""
        self._down = self._site.down
        before, self._away = self._away, frozenset(away) | self._down
        if before == self._away:
            return []
        if before - self._away:  # some are back, and may serve better than what was found without them
            return list(self._topics)
        return [topic for topic, mirror in self._topics.items() if mirror in self._away]

    @property
    def outdated(self) -> bool:
        """Whether other brokers are down than when `set_away` was called."""
        return self._down != self._site.down

    def at(self, broker: str) -> int:
        """How many topics a broker has as their mirror."""
        return self._at[broker]

    def take_changed(self) -> Iterable[str]:
        """Topics that have, or had, a mirror and whose record is another since the last call."""
        changed, self._changed = self._changed, {}
        return changed

    @property
    def mirrored(self) -> int:
        """Topics that have a mirror."""
        return len(self._topics) - self._at[""]

    @property
    def without(self) -> int:
        """Topics that are to have a mirror, and for which there is no second broker."""
        return self._at[""]
