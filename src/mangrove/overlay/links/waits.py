"""How long frames of each topic class wait for a link: the gateway's share of their delay (Harmony §3.2)."""

from __future__ import annotations

from itertools import islice

from mangrove.overlay.protocol.control_messages import MAX_TOLD_CLASSES

_GAIN = 0.125
MIN_TOLD_MS = 0.5


class Waits:
    """Smoothed waits by topic class: of the longest between two heartbeats.

    The longest, since what waits for too long may be dropped, and an average would only see those that were
    lucky. One sample a heartbeat, so that the figure follows time and not the number of frames, and
    falls to zero when nothing waits any more.
    """

    def __init__(self) -> None:
        self._longest_s: dict[int, float] = {}
        self._smoothed_s: dict[int, float] = {}

    def note(self, topic_class: int, waited_s: float) -> None:
        """A frame has waited so long until its turn came."""
        if waited_s > self._longest_s.get(topic_class, 0.0):
            self._longest_s[topic_class] = waited_s

    def settle(self) -> None:
        """A heartbeat is due: take in the longest wait since the last one."""
        if not self._longest_s and not self._smoothed_s:
            return
        longest, self._longest_s = self._longest_s, {}
        for topic_class in self._smoothed_s.keys() | longest.keys():
            before = self._smoothed_s.get(topic_class, 0.0)
            after = before + _GAIN * (longest.get(topic_class, 0.0) - before)
            if after > 1e-6:
                self._smoothed_s[topic_class] = after
            else:
                self._smoothed_s.pop(topic_class, None)

    def noticeable_ms(self) -> dict[int, float]:
        """What the network should know: classes that wait noticeably."""
        if not self._smoothed_s:
            return {}
        found = (
            (topic_class, round(1000 * seconds, 1))
            for topic_class, seconds in sorted(self._smoothed_s.items())
            if 1000 * seconds >= MIN_TOLD_MS
        )
        return dict(islice(found, MAX_TOLD_CLASSES))
