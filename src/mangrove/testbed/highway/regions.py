"""The highway: three regions, what is said in them, and how much of it may be lost.

After the deployment of GEMOM (section VI): local domains of a few brokers each, spread over a country and
joined by an overlay. Alarms are mirrored, control messages and tolls have a mirror that stands by, readings
of sensors have none: the next one replaces what was lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mangrove.config import parse_federation
from mangrove.model.federation import Federation

STRUCK = "north"
"""The region whose brokers and hosts fail; it is on three hosts."""
HOSTS = ("h1", "h2", "h3")
TEXT = """
federation: highway
domains:
  north:
    edges: 2
    hosts:
      h1: {address: 127.0.0.1, brokers: [head]}
      h2: {address: 127.0.0.1, brokers: [edge1]}
      h3: {address: 127.0.0.1, brokers: [edge2]}
  centre: {edges: 2, base_port: 7200}
  south: {edges: 2, base_port: 7400}
links:
  - {between: [north, centre], delay_ms: 8}
  - {between: [centre, south], delay_ms: 6}
  - {between: [north, south], delay_ms: 12}
topics:
  - {match: "alarm.>", mirror: true}
  - {match: "control.>", mirror: standby}
  - {match: "toll.>", mirror: standby}
"""


class Kind(StrEnum):
    """What a topic is promised when a broker dies."""

    ALARM = "alarm: mirrored"
    CONTROL = "control: standby"
    SENSOR = "sensor: no mirror"


@dataclass(frozen=True, slots=True)
class Flow:
    """A topic, who publishes it where, and who listens where."""

    topic: str
    kind: Kind
    who: str
    publisher: str
    subscribers: tuple[str, ...]
    rate_msg_s: float


FLOWS = (
    Flow("alarm.north.accident", Kind.ALARM, "sensors → centres", "north", ("north", "south"), 100.0),
    Flow("alarm.centre.accident", Kind.ALARM, "sensors → centres", "centre", ("north",), 50.0),
    Flow("control.north.signs", Kind.CONTROL, "centre → signs", "north", ("north",), 100.0),
    Flow("toll.north.passages", Kind.CONTROL, "booths → centre", "north", ("north",), 200.0),
    Flow("sensor.north.speed", Kind.SENSOR, "loops → centre", "north", ("north",), 300.0),
    Flow("sensor.south.speed", Kind.SENSOR, "loops → centres", "south", ("north", "south"), 100.0),
)


def highway() -> Federation:
    """The federation, all of it on this machine."""
    return parse_federation(TEXT, "highway").require()
