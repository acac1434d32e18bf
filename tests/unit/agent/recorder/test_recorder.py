"""The recorder of a domain: when its tap may listen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mangrove.agent.recorder.recorder import TAP_REST_S, DomainRecorder
from mangrove.config import parse_federation
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.status import BrokerStatus, DomainStatus
from mangrove.model.telemetry import Table


class Rows:
    """A sink that keeps rows in memory."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, object]] = []

    def add(self, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
        self.rows += rows

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


async def test_the_tap_rests_while_the_head_broker_is_busy() -> None:
    federation = parse_federation("federation: f\ndomains:\n  a: {edges: 1}\n", "f").require()
    sink = Rows()
    recorder = DomainRecorder(federation, fixed_endpoints(federation.domains["a"]), sink, cores=2)

    def status(cpu_percent: float) -> DomainStatus:
        head = BrokerStatus(name="a-head", role="head", url="", reachable=True, cpu_percent=cpu_percent)
        return DomainStatus(domain="a", brokers=(head,), gateway=None)

    assert recorder.tap_may_listen(status(139.0))
    assert not recorder.tap_may_listen(status(141.0))
    rested = 1
    while not recorder.tap_may_listen(status(10.0)):
        rested += 1
    assert rested == TAP_REST_S
    assert [row["kind"] for row in sink.rows] == ["tap_off", "tap_on"]
