"""Processes start fast: what is needed rarely, or in secured federations alone, is loaded when it is due."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    *("scipy", "pydantic", "yaml", "typer", "rich", "pyarrow", "pandas", "pymoo", "matplotlib", "pyspark"),
    *("pamqp", "mangrove.broker.rabbitmq"),
)
KEYS = ("bcrypt", "nkeys", "mangrove.host.keys.nkey", "mangrove.host.keys.ring")
OTHERS = ("mangrove.planning", "mangrove.evaluation", "mangrove.simulation", "mangrove.config")
SUPERVISION = ("mangrove.broker.nats.configuration", "mangrove.broker.nats.server")

LEFT_OUT = {
    "mangrove.gateway.daemon": (
        *(*HEAVY, *KEYS, *OTHERS, *SUPERVISION, "cryptography"),
        *("mangrove.control.brain", "mangrove.gateway.sealing.key_schedule", "mangrove.host.keys.trust"),
    ),
    "mangrove.agent.daemon": (*HEAVY, *KEYS, *OTHERS, *SUPERVISION, "numpy", "mangrove.routing"),
    "mangrove.agent.hosting.supervisor": (
        *(*HEAVY, *KEYS, *OTHERS, "cryptography", "numpy"),
        *("mangrove.overlay", "mangrove.routing", "mangrove.control"),
    ),
    "mangrove.testbed.local_federation": (
        *HEAVY,
        *KEYS,
        *OTHERS,
        "cryptography",
        "numpy",
        "mangrove.overlay",
    ),
    "mangrove.testbed.wan": (*HEAVY, *KEYS, *OTHERS, "cryptography", "numpy", "nats"),
    "mangrove.client": (*HEAVY, *KEYS, *OTHERS, "cryptography", "numpy", "nats", "mangrove.routing"),
    "mangrove.cli.main": (
        *(set(HEAVY) - {"typer", "rich"}),
        *(*KEYS, *OTHERS, "cryptography", "numpy", "nats", "mangrove.overlay", "mangrove.control"),
    ),
}


def loaded(code: str, modules: tuple[str, ...]) -> list[str]:
    """Which of these modules are there after some code has run in an interpreter of its own."""
    look = f"{code}\nimport sys; print(*(each for each in {modules!r} if each in sys.modules))"
    ended = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    return ended.stdout.split()


@pytest.mark.parametrize("process", LEFT_OUT)
def test_a_process_starts_without_what_it_does_not_need(process: str) -> None:
    assert loaded(f"import {process}", LEFT_OUT[process]) == []


RING = """
import json
from mangrove.config import parse_federation
from mangrove.overlay.network.live_map import LiveMap
from mangrove.routing.paths.planner import Method, PathRequest, plan_paths

names = [f"d{number:02}" for number in range(SIZE)]
links = [{"between": pair, "delay_ms": 5} for pair in zip(names, names[1:] + names[:1])]
ring = {"federation": "ring", "domains": {name: {"edges": 0} for name in names}, "links": links}
live = LiveMap(parse_federation(json.dumps(ring), "ring").require(), "d00")
"""
SEARCHES = """
assert live.rest_ms(2, 0) == 5.0
assert len(plan_paths(live.live_graph(), 0, 2, PathRequest(Method.DISJOINT)).paths) == 2
"""


def test_a_small_federation_is_searched_without_the_compiled_kernels() -> None:
    assert loaded(RING.replace("SIZE", "6") + SEARCHES, ("scipy",)) == []


def test_a_large_federation_has_the_compiled_kernels_before_it_searches() -> None:
    """So that no search stops a gateway for as long as loading them takes."""
    assert loaded(RING.replace("SIZE", "40"), ("scipy",)) == ["scipy"]
