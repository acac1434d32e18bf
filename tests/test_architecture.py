"""The import rules of the house, checked on the syntax tree of every module.

A failure names the module, the line and the rule. The rules are explained in docs/concepts/architecture.md.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "mangrove"

VALUES = {"errors", "model"}
PURE = {"planning", "routing", "overlay", "control"}
SHELLS = {"gateway", "agent", "client"}
MATTER = {"host", "broker", "store", "lake", "config", "mediation"}
STUDIES = {"simulation", "pipelines", "evaluation"}
TOP = {"monitor", "cli", "testbed"}
BODY_FORMAT = "mangrove.overlay.protocol.bodies"
BROKER_KINDS = ("mangrove.broker.nats", "mangrove.broker.rabbitmq")
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
    "mediation": VALUES,
    "config": VALUES | {"mediation"},
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
BANNED_IN_PURE = {
    *("asyncio", "socket", "selectors", "ssl", "urllib", "http"),
    *("threading", "subprocess", "multiprocessing", "signal"),
    *("os", "pathlib", "io", "shutil", "tempfile", "glob", "mmap", "fcntl", "sqlite3"),
    *("random", "secrets", "uuid"),
}
CLOCK_CALLS = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep"}
FILE_METHODS = {
    *("open", "read_text", "write_text", "read_bytes", "write_bytes", "exists", "is_file", "is_dir"),
    *("mkdir", "rmdir", "unlink", "touch", "iterdir", "rglob"),
}
NUMPY_FILES = {"load", "save", "savez", "loadtxt", "savetxt", "genfromtxt", "fromfile", "memmap"}
GLOBAL_RANDOMNESS = {"seed", "random", "rand", "randn", "randint", "choice", "shuffle", "normal", "uniform"}

MAX_FLAT_MODULES = 16
MIN_FOLDER = 4

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
            yield from impure_call(node)
        elif isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            if owner == "time" and node.attr in CLOCK_CALLS:
                yield f"line {node.lineno}: reads the clock ({owner}.{node.attr})"
            if owner in {"datetime", "datetime.datetime"} and node.attr in {"now", "utcnow", "today"}:
                yield f"line {node.lineno}: reads the clock ({owner}.{node.attr})"
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield f"line {node.lineno}: imports the clock"
        elif isinstance(node, ast.arguments):
            for name, default in defaults(node):
                if name == "now":
                    yield f"line {default.lineno}: the time has a default; the caller says what time it is"


def impure_call(call: ast.Call) -> Iterator[str]:
    """What is wrong with one call."""
    function = call.func
    if isinstance(function, ast.Name) and function.id in {"open", "input", "print"}:
        yield f"line {call.lineno}: {function.id}() in a pure room"
    if not isinstance(function, ast.Attribute):
        return
    owner = ast.unparse(function.value)
    if owner in {"np", "numpy"}:
        if function.attr in NUMPY_FILES:
            yield f"line {call.lineno}: reads or writes a file ({owner}.{function.attr})"
    elif function.attr in FILE_METHODS:
        yield f"line {call.lineno}: reads or writes a file ({owner}.{function.attr})"
    if owner in {"np.random", "numpy.random"} and (
        function.attr in GLOBAL_RANDOMNESS or (function.attr == "default_rng" and not call.args)
    ):
        yield f"line {call.lineno}: global randomness ({owner}.{function.attr})"


def defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    """Parameters that need not be given, with what they are then."""
    positional = [*arguments.posonlyargs, *arguments.args]
    given = [*zip(reversed(positional), reversed(arguments.defaults), strict=False)]
    given += [
        (a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None
    ]
    for argument, default in given:
        yield argument.arg, default


def rdd_uses(tree: ast.AST) -> list[str]:
    """Uses of RDDs, which Spark Connect does not have."""
    banned = {"rdd", "parallelize", "broadcast", "accumulator", "addPyFile"}
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return [f"line {node.lineno}: .{node.attr}" for node in attributes if node.attr in banned]


@pytest.mark.parametrize("path", sorted((SOURCE / "pipelines").rglob("*.py")), ids=str)
def test_pipelines_use_data_frames_alone(path: Path) -> None:
    assert not rdd_uses(ast.parse(path.read_text())), "every job must also run on Spark Connect"


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("t = time.monotonic()", "clock"),
        ("def made(now=time.monotonic): ...", "clock"),
        ("datetime.now()", "clock"),
        ("from time import monotonic", "clock"),
        ("def receive(frame, now=0.0): ...", "default"),
        ("def receive(frame, *, now=None): ...", "default"),
        ("open('x')", "open()"),
        ("Path('x').read_text()", "file"),
        ("directory.mkdir(parents=True)", "file"),
        ("np.loadtxt(name)", "file"),
        ("np.random.seed(1)", "randomness"),
        ("np.random.default_rng()", "randomness"),
    ],
)
def test_rules_catch_a_violation(code: str, word: str) -> None:
    """The checks above can fail: each forbidden thing is recognised."""
    assert any(word in problem for problem in impure_calls(ast.parse(code)))


def test_rules_allow_what_is_pure() -> None:
    fine = "def receive(frame, now, seed=1):\n    return np.random.default_rng(seed).normal() + now"
    assert list(impure_calls(ast.parse(fine))) == []


def test_uses_of_rdds_are_recognised() -> None:
    assert rdd_uses(ast.parse("frame.rdd.map(print)")) == ["line 1: .rdd"]


def test_no_drawer_for_leftovers() -> None:
    drawers = {"utils.py", "helpers.py", "common.py", "misc.py"}
    assert not [path for path in MODULES if path.name in drawers]


def test_every_room_has_a_purpose() -> None:
    for init in SOURCE.rglob("*/__init__.py"):
        assert ast.get_docstring(ast.parse(init.read_text())), f"{init} does not say what it is for"


# Commands that emulate, disturb or load on purpose. `up` does so for a whole federation on one machine alone.
MAY_USE_THE_TESTBED = (
    "testbed",
    "cli/demonstration",
    "cli/measurement",
    "cli/federation/broker.py",
    "cli/federation/link.py",
    "cli/federation/up.py",
    "cli/monitoring",
    "cli/pipeline/calibrate.py",
)
RUNNING_ROOMS = (*SHELLS, "host", "broker", "testbed", "monitor", "cli/federation", "cli/demonstration")


def below(path: Path, places: Iterable[str]) -> bool:
    """Whether a module is one of, or in one of, these places."""
    place = path.relative_to(SOURCE)
    return any(place.is_relative_to(each) for each in places)


def test_production_does_without_the_testbed() -> None:
    users = {
        str(path.relative_to(SOURCE))
        for path in MODULES
        for _, name in imports(ast.parse(path.read_text()))
        if name.startswith("mangrove.testbed") and not below(path, MAY_USE_THE_TESTBED)
    }
    assert not users, "the testbed stands on top of the agent, not under it"


def spelled_paths(tree: ast.AST) -> list[int]:
    """Lines where a file name is appended to a path as literal text: `directory / "logs"`."""
    joins = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)]
    return [
        node.lineno
        for node in joins
        if isinstance(node.right, ast.JoinedStr)
        or (isinstance(node.right, ast.Constant) and isinstance(node.right.value, str))
    ]


OWNERS_OF_FOLDERS = {SOURCE / "host" / "run_directory.py", SOURCE / "host" / "keys" / "directory.py"}


def test_one_module_knows_the_files_of_a_folder() -> None:
    """Of a run directory, and of a key directory."""
    for owner in OWNERS_OF_FOLDERS:
        assert spelled_paths(ast.parse(owner.read_text()))
    others = [path for path in MODULES if below(path, RUNNING_ROOMS) and path not in OWNERS_OF_FOLDERS]
    found = {str(path.relative_to(SOURCE)): spelled_paths(ast.parse(path.read_text())) for path in others}
    assert not {path: lines for path, lines in found.items() if lines}, "RunDirectory has a name for it"


def crowds(modules: list[Path]) -> Iterator[str]:
    """Folders that have become drawers: too many flat modules, or a folder disguised as a prefix."""
    folders: dict[Path, list[str]] = {}
    for path in modules:
        if path.name != "__init__.py":
            folders.setdefault(path.parent, []).append(path.stem)
    for folder, names in folders.items():
        if len(names) > MAX_FLAT_MODULES:
            yield f"{folder.name} has {len(names)} flat modules"
        prefixes = Counter(name.partition("_")[0] for name in names)
        for prefix, count in prefixes.items():
            if count >= MIN_FOLDER:
                yield f"{folder.name}: {count} modules begin with {prefix}_, which is a folder in disguise"


def test_no_folder_is_a_drawer() -> None:
    assert list(crowds(MODULES)) == []


def test_drawers_are_recognised() -> None:
    flat = [Path(f"room/{chr(97 + number)}.py") for number in range(MAX_FLAT_MODULES + 1)]
    alike = [Path(f"room/lake_{name}.py") for name in ("files", "schemas", "writer", "reader")]
    assert len(list(crowds([*flat, *alike]))) == 2


def foreign_test_imports(tree: ast.AST) -> list[str]:
    """Imports of test modules by others: what several tests need is in tests/kit."""
    return [
        f"line {line}: {name}"
        for line, name in imports(tree)
        if name.split(".")[0] == "tests" and name.split(".")[:2] != ["tests", "kit"]
    ]


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda p: str(p.relative_to(TESTS)))
def test_tests_share_nothing_but_their_kit(path: Path) -> None:
    assert not foreign_test_imports(ast.parse(path.read_text()))


def test_imports_between_tests_are_recognised() -> None:
    assert foreign_test_imports(ast.parse("from tests.unit.overlay.test_frames import frame"))
    assert not foreign_test_imports(ast.parse("from tests.kit.frames import frame"))


def test_unit_tests_stand_where_their_rooms_stand() -> None:
    """Folders of tests/unit are rooms or folders in rooms, besides those for the kit and the benchmarks."""
    folders = {path.parent.relative_to(TESTS / "unit") for path in (TESTS / "unit").rglob("test_*.py")}
    beside = {Path("kit"), Path("benchmarks")}
    assert [folder for folder in sorted(folders - beside) if not (SOURCE / folder).is_dir()] == []


def test_limits_are_called_by_one_word() -> None:
    """`MAX_…` and `MIN_…`: a reader who looks for limits need not guess."""
    found = {
        str(path.relative_to(SOURCE)): sorted(
            {name.id for name in ast.walk(ast.parse(path.read_text())) if isinstance(name, ast.Name)} & others
        )
        for path in MODULES
        if (others := {word for word in path.read_text().split() if word.startswith(("MOST_", "LEAST_"))})
    }
    assert not {path: names for path, names in found.items() if names}
