"""What `mangrove broker` takes, and what it says to figures that cannot be."""

from __future__ import annotations

import math

import pytest

from mangrove.cli.federation.broker import described_broker, what_is_told
from mangrove.errors import InputError
from mangrove.model.endpoints import Runtime, fixed_endpoints
from mangrove.model.federation import Domain, Edge, Federation

EDGE = Edge(bandwidth_mbps=20.0, capacity=1000.0)
HARBOUR = Domain(name="harbour", base_port=7000, edges=(Edge(), EDGE))
RUNTIME = Runtime(
    federation=Federation(name="sea", domains={"harbour": HARBOUR}, links=()),
    domains={"harbour": fixed_endpoints(HARBOUR)},
    pid=1,
)


def parts(described: Edge = EDGE, /, **given: float | bool) -> tuple[float, float]:
    options: dict[str, float | bool | None] = {
        "bandwidth": None,
        "bandwidth_mbps": None,
        "capacity": None,
        "restore": False,
    }
    told = what_is_told("harbour-edge2", described, **{**options, **given})  # type: ignore[arg-type]
    assert told.broker == "harbour-edge2"
    return told.bandwidth, told.matching


def test_parts_and_megabits_come_to_the_same() -> None:
    assert parts(bandwidth=0.3) == (0.3, 1.0)
    assert parts(bandwidth_mbps=6.0) == (0.3, 1.0)
    assert parts(bandwidth=0.3, capacity=0.5) == (0.3, 0.5)
    assert parts(capacity=0.5) == (1.0, 0.5)
    assert parts(restore=True) == (1.0, 1.0)


@pytest.mark.parametrize("value", [0.0, -0.1, 1.01, math.nan, math.inf])
@pytest.mark.parametrize("option", ["bandwidth", "capacity"])
def test_what_is_no_part_is_refused(option: str, value: float) -> None:
    with pytest.raises(InputError, match=f"--{option} .*above 0 and at most 1"):
        parts(**{option: value})


@pytest.mark.parametrize("value", [0.0, -3.0, 20.1, math.nan])
def test_megabits_are_above_nothing_and_within_the_file(value: float) -> None:
    with pytest.raises(InputError, match="at most 20, which the federation file says"):
        parts(bandwidth_mbps=value)


def test_it_is_said_what_is_left_or_that_all_is_restored() -> None:
    for given in ({}, {"restore": True, "bandwidth": 0.5}):
        with pytest.raises(InputError, match="either say what is left, or --restore"):
            parts(**given)
    with pytest.raises(InputError, match="exclude each other"):
        parts(bandwidth=0.5, bandwidth_mbps=3.0)


def test_there_is_no_part_of_what_nobody_described() -> None:
    for given, key in (({"bandwidth": 0.5}, "bandwidth_mbps"), ({"capacity": 0.5}, "capacity")):
        with pytest.raises(InputError) as raised:
            parts(Edge(), **given)
        assert f"`{key}`" in raised.value.hint
    assert parts(Edge(), restore=True) == (1.0, 1.0)


def test_brokers_are_found_with_what_the_file_says() -> None:
    assert described_broker(RUNTIME, "harbour-edge2")[1] == EDGE
    assert described_broker(RUNTIME, "harbour-edge1")[1] == Edge()
    assert described_broker(RUNTIME, "harbour-head")[0].domain == "harbour"
    with pytest.raises(InputError, match="no head or edge 'harbour-management'") as raised:
        described_broker(RUNTIME, "harbour-management")
    assert "harbour-head, harbour-edge1, harbour-edge2" in raised.value.hint
