"""What `mangrove load` shows of dead and suspected brokers: readable on 80 columns, with all that matters."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from mangrove.cli.federation.failure_tables import failures_table, health_of
from mangrove.model.agents.failures import BrokerHealth, FailureStatus
from mangrove.model.agents.status import AgentStatus

SITE = "seattle-manufacturing-campus"


def agent(failures: FailureStatus) -> AgentStatus:
    return AgentStatus(
        domain=SITE, agent=f"{SITE}-agent", term=3, leads=True, uptime_s=1.0, brokers=(), failures=failures
    )


FOUND = agent(
    FailureStatus(
        brokers=(
            BrokerHealth(
                broker=f"{SITE}-edge1",
                health="failed",
                since_s=12.3,
                evidence="it closed its connection and refuses new ones",
                reporters=("c1", "c2"),
            ),
            BrokerHealth(broker=f"{SITE}-edge2", health="suspected", since_s=0.1),
        ),
        hosts=("rack-7",),
        dropped=(f"{SITE}-edge1",),
        bottlenecks=(f"{SITE}-edge3",),
        refuted_reports=17,
    )
)


def test_every_detector_is_shown_with_its_evidence() -> None:
    out = StringIO()
    failures_table({SITE: FOUND}).show(Console(file=out, width=80))
    text = " ".join(out.getvalue().split())
    assert max(map(len, out.getvalue().splitlines())) <= 80
    for each in ("failed", "suspected", "rack-7", "bottleneck", "12.3", "17 reports"):
        assert each in text
    assert "refuses new ones; reported by 2 clients; the directory does without it" in text


def test_nothing_is_shown_when_all_is_well() -> None:
    assert not failures_table({SITE: agent(FailureStatus())})


def test_a_brokers_health_is_what_its_agent_says() -> None:
    assert health_of(FOUND, f"{SITE}-edge2") == "suspected"
    assert health_of(FOUND, f"{SITE}-head") == health_of(None, f"{SITE}-head") == ""
