"""The warning centres, what is said between them, and who listens.

After the deployment of ePEER (section 4.2.2 and appendix B): a national centre, a regional one and the region
that is observed, a cluster of brokers in each. Seismic and sea-level readings go to the centres, simulations
come back with the height of the wave, alerts go to everybody, and what people on the coast write is read for
what it tells about them. A relay on an island carries the shortest way between coast and capital; nobody
listens there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mangrove.config import parse_federation
from mangrove.model.federation import Federation

NATIONAL, REGIONAL, LOCAL, RELAY = "national", "regional", "local", "relay"
CENTRES = (NATIONAL, REGIONAL, LOCAL)
EPICENTRE = (37.85, 26.85)
"""Off the island with the relay."""
RADIUS_KM = 40.0
REGION = "earthquake"
CAPACITY_MSG_S = 300.0
BANDWIDTH_MBPS = 6.0
"""Of each edge of the national centre."""
PAYLOAD_BYTES = 600
EDGES = 3
ALERT_DEADLINE_MS, TIGHTER_DEADLINE_MS = 1000.0, 500.0
TIGHTENED = (
    {"match": "alert.>", "deadline_ms": TIGHTER_DEADLINE_MS, "paths": 2, "protected": True},
    {"match": "social.>", "deadline_ms": 5000.0, "rate_msg_s": 30.0},
)
"""Contracts that take the place of those with the same `match` while messages flow."""
TEXT = """
federation: tsunami
domains:
  national: {{location: [37.97, 23.72], edges: [{edges}]}}
  regional: {{location: [41.06, 29.06], {regional}}}
  local:    {{location: [37.03, 27.43], edges: 2}}
  relay:    {{location: [37.75, 26.98], edges: 0}}
links:
  - {{between: [local, relay], delay_ms: 2}}
  - {{between: [relay, national], delay_ms: 4}}
  - {{between: [local, national], delay_ms: 9, via: [[36.7, 25.5]]}}
  - {{between: [local, regional], delay_ms: 7}}
  - {{between: [regional, national], delay_ms: 8}}
topics:
  - {{match: "alert.>", deadline_ms: 1000, paths: 2, protected: true}}
  - {{match: "sensor.>", deadline_ms: 2000}}
  - {{match: "simulation.>", deadline_ms: 3000}}
  - {{match: "social.>", deadline_ms: 5000}}
congestion: {{lift_after_s: 3}}
"""


class Kind(StrEnum):
    """What a topic is about."""

    ALERT = "alert"
    SENSOR = "sensor"
    SIMULATION = "simulation"
    SOCIAL = "social"


DEADLINES_MS = {
    Kind.ALERT: ALERT_DEADLINE_MS,
    Kind.SENSOR: 2000.0,
    Kind.SIMULATION: 3000.0,
    Kind.SOCIAL: 5000.0,
}
"""As in the contracts above."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What one publisher says on one topic."""

    topic: str
    kind: Kind
    site: str
    rate_msg_s: float
    keywords: tuple[str, ...] = ()
    """What its messages are about: by this their readers judge them."""
    label: str = ""
    """Tells the publishers of one topic apart."""

    @property
    def name(self) -> str:
        """What the publisher is called."""
        return f"{self.topic.replace('.', '-')}{self.label}"


@dataclass(frozen=True, slots=True)
class Reader:
    """One subscriber."""

    topic: str
    site: str
    keywords: tuple[str, ...] = ()


def centres(*, rabbitmq: bool) -> Federation:
    """The federation, all of it on this machine; without RabbitMQ the regional centre is one of NATS."""
    text = TEXT.format(
        edges=", ".join([f"{{capacity: {CAPACITY_MSG_S:g}, bandwidth_mbps: {BANDWIDTH_MBPS:g}}}"] * EDGES),
        regional="kind: rabbitmq" if rabbitmq else "edges: 2",
    )
    return parse_federation(text, "tsunami").require()


def flows() -> tuple[Flow, ...]:
    """Everything that is said."""
    tide = [Flow(f"sensor.tide.{number}", Kind.SENSOR, LOCAL, 24.0, ("level",)) for number in range(1, 9)]
    quake = [Flow(f"sensor.quake.{number}", Kind.SENSOR, LOCAL, 10.0) for number in (1, 2)]
    simulated = [Flow(f"simulation.{what}", Kind.SIMULATION, REGIONAL, 8.0) for what in ("wave", "eta")]
    alerts = [Flow(f"alert.{site}", Kind.ALERT, site, 4.0) for site in CENTRES]
    posts = []
    for number, site in enumerate((NATIONAL, LOCAL, NATIONAL, LOCAL), 1):
        topic = f"social.{number}"
        posts.append(Flow(topic, Kind.SOCIAL, site, 10.0, ("trapped", "road"), "-witness"))
        posts.append(Flow(topic, Kind.SOCIAL, site, 34.0, ("cat", "advert"), "-noise"))
    return (*alerts, *tide, *quake, *simulated, *posts)


def readers() -> tuple[Reader, ...]:
    """Everybody who listens: alerts are heard in all centres but the one that gives them."""
    found: list[Reader] = []
    for flow in flows():
        if flow.label == "-noise":
            continue  # whoever reads a topic reads all who write on it
        match flow.kind:
            case Kind.ALERT:
                found += [Reader(flow.topic, site) for site in CENTRES if site != flow.site]
            case Kind.SENSOR if flow.topic.startswith("sensor.quake"):
                found.append(Reader(flow.topic, REGIONAL))
            case Kind.SENSOR:
                found += [Reader(flow.topic, NATIONAL, ("level",))] * 2
            case Kind.SIMULATION:
                found += [Reader(flow.topic, site) for site in (NATIONAL, NATIONAL, LOCAL)]
            case Kind.SOCIAL:
                found += [Reader(flow.topic, NATIONAL, ("trapped", "road"))] * 2
    return tuple(found)
