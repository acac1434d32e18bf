"""The bars of the benchmarks are judged as they are written."""

from __future__ import annotations

from io import StringIO

import msgspec
import pytest
from benchmarks import avoid, failover, limits, overload, sdk, security, storm
from rich.console import Console

from mangrove.testbed.accounting import Figures
from mangrove.testbed.ring import scenario

PERFECT = Figures(
    sent=1000,
    delivered=1000,
    lost=0,
    duplicated=0,
    out_of_order=0,
    late=0,
    in_time_ratio=1.0,
    longest_gap_ms=20.0,
    longest_send_gap_ms=2.0,
    longest_latency_ms=40.0,
    p50_ms=11.0,
    p99_ms=12.0,
)


def failover_result(**flaws: dict[str, Figures]) -> dict[str, object]:
    """A perfect run but for these topics of these phases."""
    names = {"hole": scenario.BLACK_HOLE, "back": scenario.LINK_RETURNS, "dead": scenario.SITE_DIES}
    phases = {
        phase: dict.fromkeys((*scenario.SUBJECTS, failover.NATIVE), PERFECT)
        for phase in (scenario.STEADY, *names.values(), scenario.SITE_RETURNS)
    }
    for name, topics in flaws.items():
        phases[names[name]] |= topics
    return {"phases": phases}


def flawed(**changes: float) -> Figures:
    return msgspec.structs.replace(PERFECT, **changes)


@pytest.mark.parametrize(
    ("flaws", "words"),
    [
        ({}, None),
        ({"hole": {"paths: 2": flawed(late=1)}}, "1 messages took over 100 ms"),
        ({"hole": {"paths: 1": flawed(late=1)}}, None),
        ({"hole": {"paths: 1": flawed(longest_gap_ms=200.0)}}, "a gap of 200 ms"),
        ({"hole": {"paths: 1": flawed(lost=1)}}, "1 of 1000 messages lost"),
        ({"hole": {"paths: 2": flawed(duplicated=1)}}, "1 messages delivered again"),
        ({"hole": {"default": flawed(out_of_order=1)}}, "1 messages out of order"),
        ({"back": {"paths: 2": flawed(out_of_order=1)}}, "1 messages out of order"),
        ({"back": {"default": flawed(out_of_order=1, late=1)}}, "1 messages out of order"),
        ({"back": {"paths: 1": flawed(out_of_order=1, late=1)}}, None),
        ({"dead": {"transit": flawed(out_of_order=1)}}, None),
        ({"back": {"paths: 1": flawed(longest_gap_ms=100.0)}}, "a gap of 100 ms"),
        ({"back": {"paths: 1": flawed(duplicated=1)}}, "1 messages delivered again"),
        ({"dead": {"paths: 2": flawed(lost=1)}}, "1 of 1000 messages lost"),
        ({"dead": {"transit": flawed(lost=1)}}, None),
        ({"hole": {"native": flawed(lost=1000, longest_gap_ms=30_000.0)}}, None),
    ],
)
def test_each_bar_of_failover_is_judged(flaws: dict[str, dict[str, Figures]], words: str | None) -> None:
    problems = failover.missed(failover_result(**flaws))
    assert len(problems) == (0 if words is None else 1)
    assert words is None or words in problems[0]


def test_links_with_keys_are_judged_by_their_ratio_and_by_the_ring() -> None:
    phases = failover_result(hole={"paths: 1": flawed(longest_gap_ms=200.0)})["phases"]
    result: dict[str, object] = {"throughput": {"ratio": 0.74}, "ring": phases}
    assert [problem.partition(" ")[0] for problem in security.missed(result)] == ["throughput", "black"]
    good: dict[str, object] = {"throughput": {"ratio": 0.75}, "ring": failover_result()["phases"]}
    assert security.missed(good) == []


@pytest.mark.parametrize(
    ("topic", "flaw", "left_s", "words"),
    [
        ("contract", {}, 0.9, None),
        ("contract", {}, 1.1, "had left after 1.10 s"),
        ("contract", {}, None, "had left not at all"),
        ("contract", {"lost": 2}, 0.5, "2 of 1000 messages lost"),
        ("paths: 2", {"duplicated": 1}, 0.5, "1 of 1000 messages delivered again"),
        ("contract", {"out_of_order": 1, "late": 1}, 0.5, "1 of 1000 messages out of order"),
        ("deadline", {"out_of_order": 1, "late": 1}, 0.5, None),
        ("none", {"lost": 9, "out_of_order": 9}, 0.5, None),
    ],
)
def test_each_bar_of_avoid_is_judged(
    topic: str, flaw: dict[str, float], left_s: float | None, words: str | None
) -> None:
    phases = {
        phase: dict.fromkeys(avoid.SUBJECTS, PERFECT)
        for phase in (avoid.STEADY, avoid.LEAVING, avoid.REGION_FAILS, avoid.SITE_RETURNS, avoid.RETURNING)
    }
    phases[avoid.REGION_FAILS] |= {topic: flawed(**flaw)}
    result: dict[str, object] = {
        "phases": phases,
        "left_s": left_s,
        "returned_s": 0.2,
        "rate_msg_s": 1000.0,
        "seed": 1,
    }
    problems = avoid.missed(result)
    assert len(problems) == (0 if words is None else 1)
    assert words is None or words in problems[0]
    shown = StringIO()
    avoid.render(result, Console(file=shown, width=80))
    assert "all contracts had left after" in shown.getvalue()


@pytest.mark.parametrize(("ratio", "count"), [(1.0, 0), (0.991, 0), (0.99, 1), (0.0, 1)])
def test_the_bar_of_overload_is_judged(ratio: float, count: int) -> None:
    row = msgspec.structs.asdict(flawed(in_time_ratio=ratio)) | {"deadline_ms": 100.0, "dropped": {}}
    runs = {name: dict.fromkeys(overload.CLASSES, row) for name in (overload.CONFIGURED, overload.FIFO)}
    assert len(overload.missed({"runs": runs})) == count


def storm_row(**changes: float) -> dict[str, float]:
    row: dict[str, float] = {"sent": 1000, "lost": 0, "worst_ms": 100, "worst_ending_ms": 100}
    return row | {"served_s": 2.0, "ended_s": 2.0, "subjects_served": 100_000} | changes


@pytest.mark.parametrize(
    ("flaw", "words"),
    [
        ({}, None),
        ({"lost": 1}, "were lost"),
        ({"worst_ms": 251}, "while all subscribe"),
        ({"worst_ending_ms": 251}, "while all unsubscribe"),
        ({"served_s": 3.9}, None),
        ({"served_s": 4.1}, "all were served after"),
        ({"ended_s": 4.1}, "all had ended after"),
        ({"subjects_served": 99_999}, "only 99999 of 100000"),
    ],
)
def test_each_bar_of_a_storm_is_judged(flaw: dict[str, float], words: str | None) -> None:
    native = storm_row(served_s=1.0, ended_s=1.0)
    many = storm_row(subjects_served=250_000, worst_ms=400)
    paths = {"native": native, "mangrove": storm_row(**flaw)}
    result: dict[str, object] = {"subjects": 100_000, "delay_ms": 5.0, "paths": paths, "many": many}
    problems = storm.missed(result)
    assert len(problems) == (words is not None)
    assert not words or words in problems[0]
    console = Console(width=80, record=True, file=StringIO())
    storm.render(result, console)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].split() == [
        "chain",
        "subjects",
        "served",
        "after",
        "worst",
        "ended",
        "after",
        "worst",
        "lost",
    ]
    assert lines[4].split()[3:5] == [f"{paths['mangrove']['served_s']:.2f}", "s"]


@pytest.mark.parametrize(
    ("title", "ratio", "words"),
    [
        ("one topic", 0.8, None),
        ("one topic", 0.79, "one topic: 0.79 times as fast"),
        ("two processes", 0.5, "two processes: 0.50 times"),
        ("4 KiB", 0.1, None),
    ],
)
def test_each_bar_of_the_sdk_is_judged(title: str, ratio: float, words: str | None) -> None:
    cases = {
        name: sdk.Measured(
            size_bytes=load.size_bytes,
            nats_py_msg_s=100_000.0,
            sdk_msg_s=200_000.0,
            ratio=ratio if name == title else 2.0,
            nats_py_cpu_us=7.0,
            sdk_cpu_us=3.0,
            rounds=[2.0],
        )
        for name, load in sdk.CASES.items()
    }
    result: dict[str, object] = {"cases": msgspec.to_builtins(cases)}
    problems = sdk.missed(result)
    assert len(problems) == (0 if words is None else 1)
    assert words is None or words in problems[0]
    shown = Console(file=StringIO(), width=80)
    sdk.render(result, shown)
    assert max(map(len, shown.file.getvalue().splitlines())) <= 80  # type: ignore[attr-defined]


def limits_result(
    alone: float = 1_000.0,
    greedy: tuple[float, float] = (500.0, 500.0),
    modest: float = 300.0,
    ratio: float = 1.0,
    unwanted: float | None = 500_000.0,
) -> dict[str, object]:
    def passed(rate: float) -> limits.Passed:
        return limits.Passed(tried=50_000.0, sent=rate, here=rate, there=rate)

    publishers = {
        "alone": {"one": passed(alone)},
        "both greedy": {"one": passed(greedy[0]), "two": passed(greedy[1])},
        "one modest": {"one": passed(1_000.0 - modest), "two": passed(modest)},
    }
    cost = limits.Cost(
        free_msg_s=1e5,
        limited_msg_s=1e5 * ratio,
        free_cpu_us=3.0,
        limited_cpu_us=3.0 / ratio,
        ratio=ratio,
        rate_ratio=ratio,
        pairs=9,
    )
    plain = {"publishers": publishers, "cost": cost, "seconds": 10.0, "unwanted_msg_s": unwanted}
    return dict(msgspec.to_builtins(plain))


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (limits_result(), None),
        (limits_result(alone=1_019.0), None),
        (limits_result(alone=1_025.0), "not 1,000 ± 2%"),
        (limits_result(alone=970.0), "not 1,000 ± 2%"),
        (limits_result(greedy=(800.0, 200.0)), "both greedy: two has 200 msg/s, not 500"),
        (limits_result(modest=200.0), "one modest: two has 200 msg/s, not 300"),
        (limits_result(ratio=0.94), "the filter leaves 0.940 of the SDK"),
        (limits_result(unwanted=None), "is sent for ever"),
    ],
)
def test_limits_are_to_be_exact_fair_and_cheap(result: dict[str, object], words: str | None) -> None:
    lines = limits.missed(result)
    assert bool(lines) == (words is not None)
    assert words is None or any(words in line for line in lines)
    out = StringIO()
    limits.render(result, Console(file=out, width=80))
    assert "both greedy" in out.getvalue()
    assert max(map(len, out.getvalue().splitlines())) <= 80
