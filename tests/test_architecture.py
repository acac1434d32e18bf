"""The import rules of the house, checked on the syntax tree of every module.

A failure names the module, the line and the rule. The rules are explained in docs/concepts/architecture.md.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "mangrove"

VALUES = {"errors", "model"}
PURE = {"planning", "routing", "overlay", "control"}
SHELLS = {"gateway", "agent", "client"}
MATTER = {"host", "broker", "store", "lake", "config"}
STUDIES = {"simulation", "pipelines", "evaluation"}
TOP = {"monitor", "cli", "testbed"}
BODY_FORMAT = "mangrove.overlay.protocol.bodies"
BROKER_KINDS = "mangrove.broker.nats"
KNOW_NO_BROKER_PRODUCT = {"gateway"}  # rooms that go through the seam and the registry alone

# room → rooms of Mangrove that it may import (besides itself)
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "model": {"errors"},
    "planning": VALUES,
    "routing": VALUES,
    "overlay": VALUES | {"routing", "planning"},
    "control": VALUES | {"routing", "planning"},
    "simulation": VALUES | PURE,
    "host": VALUES,
    "broker": VALUES | {"host", "overlay"},  # of the overlay, the body format alone: see BODY_FORMAT
    "store": VALUES,
    "lake": VALUES,
    "config": VALUES,
    "gateway": VALUES | PURE | MATTER,
    "agent": VALUES | PURE | MATTER,
    "client": VALUES | PURE | MATTER,
    "pipelines": VALUES | PURE | {"simulation", "lake"},
    "evaluation": VALUES | PURE | {"simulation", "lake"},
    "monitor": VALUES | PURE | SHELLS | MATTER | STUDIES,
    "testbed": VALUES | PURE | SHELLS | MATTER | STUDIES,
    "cli": VALUES | PURE | SHELLS | MATTER | STUDIES | TOP,
    # the package root re-exports the SDK's entry points
    "__init__": VALUES | {"client"},
}

VALUE_LIBRARIES = {"msgspec", "numpy"}
ALGORITHM_LIBRARIES = VALUE_LIBRARIES | {"scipy", "pymoo", "sortedcontainers"}
BANNED_IN_PURE = {"asyncio", "socket", "selectors", "threading", "subprocess", "multiprocessing", "random"}
CLOCK_CALLS = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep"}
GLOBAL_RANDOMNESS = {"seed", "random", "rand", "randn", "randint", "choice", "shuffle", "normal", "uniform"}

MODULES = sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import; write the full name"
            module = node.module or ""
            if module == "mangrove":
                for alias in node.names:
                    yield node.lineno, f"mangrove.{alias.name}"
            else:
                yield node.lineno, module


def stdlib(name: str) -> bool:
    import sys

    return name in sys.stdlib_module_names


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_module_follows_the_import_rules(path: Path) -> None:
    room = room_of(path)
    assert room in MAY_IMPORT, f"{path}: unknown room {room!r}; add it to the rules on purpose"
    tree = ast.parse(path.read_text())
    problems: list[str] = []
    for line, name in imports(tree):
        parts = name.split(".")
        if parts[0] == "mangrove":
            target = parts[1] if len(parts) > 1 else "__init__"
            if target.startswith("__version"):
                continue
            if target != room and target not in MAY_IMPORT[room]:
                problems.append(f"line {line}: {room} may not import {name}")
            if room == "broker" and target == "overlay" and name != BODY_FORMAT:
                problems.append(f"line {line}: of the overlay, a broker may use the body format alone")
            if room in KNOW_NO_BROKER_PRODUCT and name.startswith(BROKER_KINDS):
                problems.append(f"line {line}: {room} asks broker.kinds and names no kind itself")
            continue
        top = parts[0]
        if top == "pyspark" and room != "pipelines":
            problems.append(f"line {line}: only pipelines imports pyspark")
        if room in VALUES and not (stdlib(top) or top in VALUE_LIBRARIES):
            problems.append(f"line {line}: {room} uses the standard library and value types only, not {top}")
        if room in PURE:
            if not (stdlib(top) or top in ALGORITHM_LIBRARIES):
                problems.append(f"line {line}: {room} may not import {top}")
            if top in BANNED_IN_PURE:
                problems.append(f"line {line}: {room} is pure; {top} is banned")
    if room in PURE:
        problems += list(impure_calls(tree))
    assert not problems, f"{path.relative_to(SOURCE)}:\n  " + "\n  ".join(problems)


def impure_calls(tree: ast.AST) -> Iterator[str]:
    """Reads of the clock, files and global randomness: in pure rooms they are arguments instead."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name) and function.id in {"open", "input", "print"}:
                yield f"line {node.lineno}: {function.id}() in a pure room"
            if isinstance(function, ast.Attribute):
                owner = ast.unparse(function.value)
                if owner == "time" and function.attr in CLOCK_CALLS:
                    yield f"line {node.lineno}: reads the clock ({owner}.{function.attr})"
                if owner in {"datetime", "datetime.datetime"} and function.attr in {"now", "utcnow", "today"}:
                    yield f"line {node.lineno}: reads the clock ({owner}.{function.attr})"
                if owner in {"np.random", "numpy.random"} and function.attr in GLOBAL_RANDOMNESS:
                    yield f"line {node.lineno}: global randomness ({owner}.{function.attr})"
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield f"line {node.lineno}: imports the clock"


def rdd_uses(tree: ast.AST) -> list[str]:
    """Uses of RDDs, which Spark Connect does not have."""
    banned = {"rdd", "parallelize", "broadcast", "accumulator", "addPyFile"}
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return [f"line {node.lineno}: .{node.attr}" for node in attributes if node.attr in banned]


@pytest.mark.parametrize("path", sorted((SOURCE / "pipelines").rglob("*.py")), ids=str)
def test_pipelines_use_data_frames_alone(path: Path) -> None:
    assert not rdd_uses(ast.parse(path.read_text())), "every job must also run on Spark Connect"


def test_rules_catch_a_violation() -> None:
    """The checks above can fail: each forbidden thing is recognised."""
    tree = ast.parse("import time\nt = time.monotonic()\nopen('x')\nimport numpy as np\nnp.random.seed(1)")
    assert len(list(impure_calls(tree))) == 3
    assert rdd_uses(ast.parse("frame.rdd.map(print)")) == ["line 1: .rdd"]


def test_no_drawer_for_leftovers() -> None:
    drawers = {"utils.py", "helpers.py", "common.py", "misc.py"}
    assert not [path for path in MODULES if path.name in drawers]


def test_every_room_has_a_purpose() -> None:
    for init in SOURCE.rglob("*/__init__.py"):
        assert ast.get_docstring(ast.parse(init.read_text())), f"{init} does not say what it is for"
