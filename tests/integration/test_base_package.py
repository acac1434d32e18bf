"""The package as a user gets it: a wheel, installed without extras in a clean environment.

Every command works, or says in a line what to install. None shows a traceback. Commands are found by walking
the command line, so that a new one is tried as well.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from mangrove.cli.main import app

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
TOPOLOGY = "{tmp}/topology.json"
PROBLEM = str(DATA / "allocation_6x3.json")
SQUARE = {"a": [0, 0], "b": [0, 9], "c": [9, 9], "d": [9, 0]}
PIPELINES, PLAN, EVALUATION, MONITOR = "pipelines", "plan", "evaluation", "monitor"

# Command → further arguments, and the extra that it must ask for (none: it must do its work).
WORKS: dict[str, str] = {
    "bench": "list",
    "evaluate broker-costs": "--subscribers 1,4 --filters 0,10 --sizes 64 --messages 2000 --repeats 2",
    "evaluate budgets": "--seeds 1",
    "evaluate false-alarms": "--seeds 1 --hours 0.01",
    "evaluate harmony": "--seeds 1 --phase-seconds 2",
    "evaluate heavy-tails": "--seeds 1 --workers 1",
    "evaluate leaders": "--seeds 1 --workers 1",
    "evaluate lookup": "--seeds 1 --sizes 12 --lookups 10000",
    "evaluate resilience": "--seeds 1 --days 3",
    "evaluate schedules": "--seeds 1 --workers 1",
    "evaluate sessions": "--seeds 1 --workers 1",
    "evaluate six-items": "",
    "evaluate six-nodes": "--seeds 1",
    "evaluate steering": "--seeds 1 --sensitivity-seeds 0 --workers 1",
    "evaluate tables": "--seeds 1 --nodes 10 --links 20",
    "plan allocate": PROBLEM,
    "plan cases": f"{PROBLEM} --no-double",
    "plan mirror": PROBLEM,
    "route disaster": f"{TOPOLOGY} --centre 5,5 --radius 1",
    "route paths": f"{TOPOLOGY} a c",
    "route tables": TOPOLOGY,
}
ASKS: dict[str, tuple[str, str]] = {
    "bench": ("pipeline --quick", PIPELINES),
    "calibrate": ("--lake {tmp}/lake", PIPELINES),
    "evaluate allocation": ("--seeds 1", PLAN),
    "evaluate backbones": ("--list", EVALUATION),
    "evaluate disasters": ("", EVALUATION),
    "evaluate gap": ("--seeds 1 --nodes 50 --pairs 5 --regions 5 --plot {tmp}/plot.png", EVALUATION),
    "metrics": ("--json", MONITOR),
    "monitor": ("--port 0", MONITOR),
    "pipeline availability": ("--input {tmp} --output {tmp}/out", PIPELINES),
    "pipeline calibrate": ("--input {tmp} --output {tmp}/out", PIPELINES),
    "pipeline cases": (f"--input {PROBLEM} --output {{tmp}}/out", PIPELINES),
    "pipeline profile": ("--input {tmp} --output {tmp}/out --capacity 1000", PIPELINES),
    "pipeline report": ("--input {tmp} --output {tmp}/out", PIPELINES),
    "pipeline slo": ("--input {tmp} --output {tmp}/out", PIPELINES),
    "pipeline synthetic": ("--output {tmp}/lake --topics 1 --hours 0.01", PIPELINES),
    "plan allocate": (f"{PROBLEM} --solver genetic", PLAN),
    "route disaster": (TOPOLOGY + " --centre 5,5 --radius 1 --map {tmp}/map.png", EVALUATION),
    "route tables": ("topohub:sndlib/germany50", EVALUATION),
}
# `up` has a test of its own below; the others take long, and need what `up` and the simulations need.
TRIED_ELSEWHERE = {"demo", "evaluate drd", "evaluate failover", "evaluate fdcc", "up"}


def leaf_commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command with its words."""
    children = getattr(command, "commands", None)
    if not children:
        yield " ".join(path), command
    for word, child in (children or {}).items():
        yield from leaf_commands(child, (*path, word))


COMMANDS = dict(leaf_commands(typer.main.get_command(app)))


class Package:
    """The installed package: runs its command as a user does, in a directory of its own."""

    def __init__(self, python: Path, directory: Path) -> None:
        self.python = python
        self.directory = directory
        self.environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self.environment |= {"MANGROVE_STATE_DIR": str(directory / "state"), "COLUMNS": "80"}

    def command(self, arguments: str) -> list[str]:
        return [str(self.python.parent / "mangrove"), *arguments.format(tmp=self.directory).split()]

    def run(self, arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(arguments),
            env=self.environment,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """Build the wheel, make an environment, install the wheel and what it asks for, pinned, and no extra."""
    directory = tmp_path_factory.mktemp("base")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", directory / "dist", ROOT], check=True)
    (wheel,) = (directory / "dist").glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory / "venv"], check=True)
    python = directory / "venv" / "bin" / "python"
    constraint = ["--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, "--python", python, "install", "--no-compile", *constraint, wheel], check=True)
    (directory / "topology.json").write_text(
        json.dumps(
            {"plane": "euclidean", "nodes": SQUARE, "edges": [["a", "b"], ["b", "c"], ["c", "d"], ["d", "a"]]}
        )
    )
    return Package(python, directory)


pytestmark = pytest.mark.timeout(400)


def test_every_command_named_here_exists() -> None:
    assert (WORKS.keys() | ASKS.keys() | TRIED_ELSEWHERE) <= COMMANDS.keys()


def test_no_optional_library_is_there(package: Package) -> None:
    """Otherwise the tests below would say nothing."""
    script = (
        "import importlib.util as u, mangrove; from mangrove.cli.optional import EXTRAS; "
        "print(mangrove.__file__, [name for name in EXTRAS if u.find_spec(name)])"
    )
    found = subprocess.run(
        [package.python, "-c", script],
        env=package.environment,
        cwd=package.directory,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert found.startswith(str(package.directory))
    assert found.endswith("[]\n")


@pytest.mark.parametrize("command", sorted(WORKS))
def test_a_command_works_without_extras(package: Package, command: str) -> None:
    done = package.run(f"{command} {WORKS[command]}")
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("command", sorted(ASKS))
def test_a_command_says_which_extra_it_needs(package: Package, command: str) -> None:
    arguments, extra = ASKS[command]
    done = package.run(f"{command} {arguments}")
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    (remedy,) = [line for line in done.stderr.splitlines() if "mangrove-messaging" in line]
    assert f"mangrove-messaging[{extra}]" in remedy


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - WORKS.keys() - ASKS.keys() - TRIED_ELSEWHERE))
def test_no_other_command_shows_a_traceback(package: Package, command: str) -> None:
    """With made-up values for what it requires: refused, or done, in words."""
    done = package.run(f"{command} {made_up(COMMANDS[command])}")
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1, 2), done.stderr


def made_up(command: Any) -> str:
    """Some value for every argument and option that must be given."""
    words = []
    for parameter in command.params:
        if parameter.required:  # "1" is a number, a text, and a file that does not exist
            words += ["1"] if parameter.param_type_name == "argument" else [parameter.opts[0], "1"]
    return " ".join(words)


def test_messages_are_carried_without_extras(package: Package) -> None:
    # A loopback address of its own: nobody else listens there, whatever the ports.
    address = f"127.97.{os.getpid() // 250 % 250}.{os.getpid() % 250 + 1}"
    (package.directory / "one.yaml").write_text(
        f"federation: one\ndomains:\n  here: {{address: {address}, edges: 1}}\n"
    )
    with contextlib.ExitStack() as stack:
        up = stack.enter_context(started(package, "up {tmp}/one.yaml", "Running."))
        listening = stack.enter_context(
            started(package, "sub greeting --domain here --count 1 --timeout 20 --json", "subscribed")
        )
        assert package.run("pub greeting hello --domain here").returncode == 0
        out, _ = listening.communicate(timeout=30)
        assert json.loads(out)["data"] == "hello"
        for command in ("status", "story"):
            done = package.run(command)
            assert done.returncode == 0, done.stderr
            assert "Traceback" not in done.stderr
        up.send_signal(signal.SIGINT)
        _, said = up.communicate(timeout=20)
        assert up.returncode == 130
        assert "Traceback" not in said


@contextlib.contextmanager
def started(package: Package, arguments: str, ready: str) -> Iterator[subprocess.Popen[str]]:
    """A command that has said that it is ready; ended with the test."""
    process = subprocess.Popen(
        package.command(arguments),
        env=package.environment,
        cwd=package.directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said: list[str] = []
        for line in process.stderr:
            said.append(line)
            if ready in line:
                break
        else:
            raise AssertionError(f"ended before it was ready: {''.join(said)}")
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=20)
        if process.poll() is None:
            process.kill()
            process.wait()
