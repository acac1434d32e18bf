"""One broker's detector of failure: probes and clients' reports in, `Health` out (GEMOM §III, digest §8.3).

A broker is taken for dead on the agent's own evidence: its connection was closed and a new one is refused, or
`MISSES` probes in a row were not answered. Two clients that report it make one missed probe enough. Clients
alone prove nothing, however many they are.

Who was away himself does not count what he missed: a probe that is looked at much later than was due says
nothing of the broker (docs/decisions/0204-who-measures-does-not-count-its-own-absence.md).
"""

from __future__ import annotations

import math

from mangrove.control.failures.states import Finding, Health, next_health

PROBE_S = 0.2
"""Between two probes of a broker."""
MISSES = 3
REPORTERS = 2
"""Clients whose reports make one missed probe enough."""
REPORT_S = 2.0
"""A report counts for so long."""
MAX_REPORTERS = 64
STEADY_ANSWERS = 5
"""A broker that failed is relied on again after so many answers in a row."""
AWAY_S = 1.5 * PROBE_S
"""Probes of which is told further apart were looked at by an agent that was away."""
APART_S = 0.75 * PROBE_S
"""Misses closer together than that are one."""

ASKED_SINCE_S = 0.95 * PROBE_S
"""Whoever reported so long before an answer was told of did so before the broker was asked."""

CLOSED = "it closed its connection and refuses new ones"
SILENT = f"{MISSES} probes in a row were not answered"
REPORTED = f"{REPORTERS} clients or more report it, and a probe was not answered"


class BrokerDetector:
    """Watches one broker. All times are of the agent's own clock."""

    def __init__(self, broker: str) -> None:
        self.broker = broker
        self.health = Health.ALIVE
        self.since = -math.inf
        """When the present state began."""
        self.failed_since = math.inf
        """When it failed, until it is relied on again; infinite for a living one."""
        self.evidence = ""
        """What proved its last failure."""
        self.silent = False
        """Whether it failed without its process being known to have ended."""
        self.missed = 0
        """Probes that were not answered, and counted, since the agent started."""
        self.uncounted = 0
        """Missed probes that said nothing, because the agent itself had been away."""
        self._told_at = -math.inf
        self._missed_at = -math.inf
        self._misses = 0
        self._answers = 0
        self._reports: dict[str, float] = {}
        self._refuted: list[str] = []

    def probed(self, answered: bool, closed: bool, now: float) -> Health:
        """A probe has come to its end; the state after it."""
        away = now - self._told_at > AWAY_S
        self._told_at = now
        if answered:
            return self._answered(now)
        if closed:
            return self._refused(now)
        if away:
            self.uncounted += 1
            return self.health
        return self._missed(now)

    def _answered(self, now: float) -> Health:
        self._misses = 0
        self._refute(now)
        self._answers += 1
        if self.health is Health.RETURNING and self._answers >= STEADY_ANSWERS:
            return self._take(Finding.STEADY, now)
        return self._take(Finding.ANSWERED, now)

    def _refused(self, now: float) -> Health:
        self._answers = 0
        self.silent = False
        if self.health is not Health.FAILED:
            self.evidence = CLOSED
        return self._take(Finding.REFUSED, now)

    def _missed(self, now: float) -> Health:
        if now - self._missed_at < APART_S and self._misses:
            return self.health
        self._missed_at = now
        self._misses += 1
        self._answers = 0
        self.missed += 1
        health = self._take(Finding.MISSED, now)
        if health is Health.FAILED:
            return health
        reporters = len(self._fresh(now))
        if self._misses >= MISSES or reporters >= REPORTERS:
            self.evidence = SILENT if self._misses >= MISSES else REPORTED
            self.silent = True
            return self._take(Finding.PROVEN, now)
        return health

    def reported(self, client: str, now: float) -> Health:
        """A client takes the broker for dead; that is worth a probe at once."""
        if client in self._reports or len(self._reports) < MAX_REPORTERS:
            self._reports[client] = now
        return self._take(Finding.REPORTED, now)

    def _refute(self, now: float) -> None:
        """An answer speaks against those who reported before it was asked for, not against later ones."""
        refuted = [client for client, at in self._reports.items() if now - at >= ASKED_SINCE_S]
        for client in refuted:
            del self._reports[client]
        self._refuted += refuted

    def take_refuted(self) -> list[str]:
        """Clients that took it for dead, and to which it is alive nevertheless."""
        refuted, self._refuted = self._refuted, []
        return refuted

    def reporters(self, now: float) -> tuple[str, ...]:
        """Clients whose reports count, in their order."""
        return tuple(self._fresh(now))

    def _fresh(self, now: float) -> dict[str, float]:
        self._reports = {client: at for client, at in self._reports.items() if 0.0 <= now - at <= REPORT_S}
        return self._reports

    def _take(self, finding: Finding, now: float) -> Health:
        before = self.health
        self.health = next_health(before, finding)
        if self.health is not before:
            self.since = now
            if self.health is Health.FAILED:
                # One that fails while it returns had failed all along.
                self.failed_since = min(self.failed_since, now)
            elif self.health is Health.RETURNING:
                self._answers = 1
            elif self.health is Health.ALIVE:
                self.failed_since = math.inf
        return self.health
