"""The command line as a user runs it: separate processes, real brokers, signals."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from tests.kit.freezing import freeze
from tests.kit.ports import PortBlocks
from tests.kit.running import interest_has_spread

from mangrove.broker.nats.server import nats_server_binary
from mangrove.host.ports import PortReservation

MANGROVE = [sys.executable, "-m", "mangrove.cli.main"]
STARTUP_S = 60.0


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Commands find federations below a directory of their own."""
    return {**os.environ, "MANGROVE_STATE_DIR": str(tmp_path / "state"), "COLUMNS": "120"}


def state(environment: dict[str, str]) -> Path:
    """Where the run directories are."""
    return Path(environment["MANGROVE_STATE_DIR"])


def run(
    environment: dict[str, str], *arguments: str, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MANGROVE, *arguments], env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )


@pytest.fixture
def blocks() -> Iterator[PortBlocks]:
    """Ports for the domains of a test, nobody else's until it ends."""
    with PortBlocks() as taken:
        yield taken


@pytest.fixture
def pair_file(tmp_path: Path, blocks: PortBlocks) -> Path:
    first, second = blocks.take(), blocks.take()
    path = tmp_path / "pair.yaml"
    path.write_text(
        f"""
federation: pair
domains:
  east: {{base_port: {first}, edges: 1}}
  west: {{base_port: {second}}}
links:
  - {{between: [east, west], delay_ms: 1}}
"""
    )
    return path


def descendants(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def wait_gone(processes: list[psutil.Process], timeout: float = 10) -> None:
    _, alive = psutil.wait_procs(processes, timeout=timeout)
    assert not alive, f"still running: {[(p.pid, p.name()) for p in alive]}"


def wait_listening(port: int) -> None:
    """Wait until somebody listens at a port of this machine."""
    deadline = time.monotonic() + STARTUP_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, f"nobody listens at {port}"
            time.sleep(0.05)


@contextlib.contextmanager
def running(
    environment: dict[str, str],
    *arguments: str,
    ready: str = "Running.",
    command: Sequence[str] = MANGROVE,
) -> Iterator[subprocess.Popen[str]]:
    """A command that keeps running; ended at the latest with the test."""
    process = subprocess.Popen(
        [*command, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        deadline = time.monotonic() + STARTUP_S
        said = ""
        for line in process.stderr:
            said += line
            if ready in line:
                break
            assert time.monotonic() < deadline, said
        else:
            raise AssertionError(f"ended before it was ready: {said}")
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=20)
        if process.poll() is None:
            process.kill()
            process.wait()


def test_up_status_pub_sub_and_an_orderly_end(environment: dict[str, str], pair_file: Path) -> None:
    with running(environment, "up", str(pair_file)) as up:
        children = descendants(up.pid)
        assert sum("nats-server" in child.name() for child in children) == 5
        status = json.loads(run(environment, "status", "--json").stdout)
        deadline = time.monotonic() + 10
        while not status["healthy"] and time.monotonic() < deadline:
            status = json.loads(run(environment, "status", "--json").stdout)
        assert status["healthy"] is True
        assert [domain["domain"] for domain in status["domains"]] == ["east", "west"]
        table = run(environment, "status")
        assert "east-edge1" in table.stdout

        listening = ["sub", "greeting.*", "--domain", "east", "--count", "2", "--timeout", "30", "--json"]
        with running(environment, *listening, ready="subscribed") as subscriber:
            assert interest_has_spread(state(environment) / "pair", east=1)
            sent = run(
                environment, "pub", "greeting.a", "hello", "-d", "west", "--count", "2", "-H", "K:v", "--json"
            )
            assert json.loads(sent.stdout) == {"subject": "greeting.a", "published": 2, "bytes": 5}
            out, _ = subscriber.communicate(timeout=20)
            assert subscriber.returncode == 0
        messages = [json.loads(line) for line in out.splitlines()]
        assert [message["data"] for message in messages] == ["hello", "hello"]
        assert messages[0]["headers"]["K"] == "v"
        assert messages[0]["headers"]["Mangrove-Id"] != messages[1]["headers"]["Mangrove-Id"]

        story = json.loads(run(environment, "story", "--json").stdout)
        established = [event for event in story if event["kind"] == "LinkRecovered"]
        assert {event["details"]["peer"] for event in established} == {"east", "west"}
        told = run(environment, "story", story[-1]["id"])
        assert told.returncode == 0
        assert story[-1]["id"] in told.stdout
        assert run(environment, "story", "east-99999").returncode == 2

        slowed = run(environment, "link", "east", "west", "--delay-ms", "50", "--json")
        assert json.loads(slowed.stdout)["delay_ms"] == 50
        assert run(environment, "link", "east", "atlantis").returncode == 2
        again = run(environment, "up", str(pair_file))
        assert again.returncode == 1
        assert "already runs" in again.stderr

        up.send_signal(signal.SIGINT)
        up.communicate(timeout=20)
        assert up.returncode == 130
        wait_gone(children)
    nobody = run(environment, "status")
    assert nobody.returncode == 1
    assert "no federation runs on this machine" in nobody.stderr


def test_contracts_that_do_nothing_yet_or_cannot_be_met_are_warned_of(
    environment: dict[str, str], pair_file: Path
) -> None:
    contract = 'topics: [{match: "alert.>", mirror: true, durable: true}]'
    pair_file.write_text(f"{pair_file.read_text()}\n{contract}\n")
    warned = "topics[0] (alert.>): `durable` is accepted but not in force yet"
    with running(environment, "up", str(pair_file), ready=warned) as up:
        assert up.stderr is not None
        assert any("Running." in line for line in up.stderr)
        status = run(environment, "status", "--json")
        assert [text.partition(" in")[0] for text in json.loads(status.stdout)["warnings"]] == [
            "topics[0] (alert.>): `durable` is accepted but not",
            "topics[0] (alert.>): `mirror`: no second broker",
        ]
        assert "warning: topics[0] (alert.>): `mirror`" in run(environment, "status").stdout


def test_killing_the_parent_leaves_no_process_behind(environment: dict[str, str], pair_file: Path) -> None:
    with running(environment, "up", str(pair_file)) as up:
        children = descendants(up.pid)
        names = [child.name() for child in children]
        assert sum("nats-server" in name for name in names) == 5
        assert len(children) == 11, f"5 brokers, 2 gateways, 2 agents, emulator, recorder, not {names}"
        up.kill()
        up.wait()
        wait_gone(children)


def test_frozen_processes_do_not_keep_it_from_stopping(environment: dict[str, str], pair_file: Path) -> None:
    """Several processes of a site hang; one after the other they would take their whole grace each."""
    with running(environment, "up", str(pair_file)) as up:
        children = descendants(up.pid)
        for child in children:
            if any("east-" in argument for argument in child.cmdline()):
                freeze(child.pid)
        frozen = [child for child in children if child.status() == psutil.STATUS_STOPPED]
        assert len(frozen) == 5, "gateway, agent, management, head and edge broker of one site"
        up.send_signal(signal.SIGINT)
        _, said = up.communicate(timeout=12)
        assert up.returncode == 130
        for name in ("east-gateway", "east-agent", "east-management", "east-head", "east-edge1"):
            assert f"{name} did not end" in said
        assert "west" not in said, "what does not hang is not killed"
        wait_gone(children)


def test_one_site_runs_without_the_testbed(environment: dict[str, str], pair_file: Path) -> None:
    """`up --domain` is production: from start to end nothing of the testbed is loaded."""
    script = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('loaded:', [n for n in sys.modules if n.startswith('mangrove.')]))\n"
        "from mangrove.cli.main import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", script]
    path = str(pair_file)
    refused = run(environment, "up", path, "--domain", "east")
    assert refused.returncode != 0
    assert "mangrove keys init" in refused.stderr, "a site among others does not make up keys of its own"
    assert run(environment, "keys", "init", path).returncode == 0
    with running(environment, "up", path, "--domain", "east", command=command) as up:
        up.send_signal(signal.SIGINT)
        out, _ = up.communicate(timeout=20)
    loaded = out.partition("loaded:")[2]
    assert "mangrove.agent.launcher" in loaded
    assert "mangrove.testbed" not in loaded


def test_sites_on_different_addresses(
    environment: dict[str, str], tmp_path: Path, blocks: PortBlocks
) -> None:
    """Each site has its own `mangrove up --domain`; the link has addresses of its own on both sides."""
    first, second = blocks.take(), blocks.take()
    path = tmp_path / "spread.yaml"
    path.write_text(
        f"""
federation: spread
domains:
  north: {{base_port: {first}}}
  south: {{base_port: {second}, address: 127.0.0.2}}
links:
  - between: [north, south]
    endpoints: {{north: "127.0.0.3:{first}", south: "127.0.0.4:{second}"}}
"""
    )
    north_dir, south_dir, keys = (str(tmp_path / name) for name in ("north", "south", "keys"))
    assert run(environment, "keys", "init", str(path), "--keys", keys).returncode == 0
    south_site = ("--domain", "south", "--run-dir", south_dir, "--keys", keys)
    north_site = ("--domain", "north", "--run-dir", north_dir, "--keys", keys)
    with (
        running(environment, "up", str(path), *south_site),
        running(environment, "up", str(path), *north_site) as north,
    ):
        assert not any("wan" in " ".join(child.cmdline()) for child in descendants(north.pid))
        deadline = time.monotonic() + 15
        while run(environment, "status", "--run-dir", north_dir).returncode and time.monotonic() < deadline:
            time.sleep(0.2)
        sockets = {
            (connection.laddr[0], connection.raddr[0])
            for child in descendants(north.pid)
            for connection in child.net_connections("tcp")
            if connection.raddr and connection.raddr[1] == second
        }
        assert sockets == {("127.0.0.3", "127.0.0.4")}
        listening = [
            "sub",
            "x",
            "--run-dir",
            south_dir,
            "--domain",
            "south",
            "--count",
            "1",
            "--timeout",
            "30",
        ]
        with running(environment, *listening, ready="subscribed") as subscriber:
            assert interest_has_spread(Path(north_dir), south=1)
            assert run(environment, "pub", "x", "hi", "--run-dir", north_dir, "-d", "north").returncode == 0
            out, _ = subscriber.communicate(timeout=20)
        assert out == "x: hi\n"


def test_an_existing_nats_site_joins_unchanged(
    environment: dict[str, str], tmp_path: Path, blocks: PortBlocks
) -> None:
    with PortReservation() as ports:
        client, leaf, monitor = (ports.take("127.0.0.1") for _ in range(3))
        config = tmp_path / "existing.conf"
        config.write_text(
            f'listen: "127.0.0.1:{client}"\nhttp: "127.0.0.1:{monitor}"\nmax_payload: 8MB\n'
            f'leafnodes {{ listen: "127.0.0.1:{leaf}" }}\n'
        )
        path = tmp_path / "mixed.yaml"
        path.write_text(
            f"""
federation: mixed
domains:
  ours: {{base_port: {blocks.take()}}}
  theirs:
    base_port: {blocks.take()}
    external:
      head: nats://127.0.0.1:{client}
      leaf: nats-leaf://127.0.0.1:{leaf}
      monitor: http://127.0.0.1:{monitor}
links:
  - {{between: [ours, theirs]}}
"""
        )
        refused = run(environment, "up", str(path))
        assert refused.returncode == 2
        assert "domains.theirs.external.leaf" in refused.stderr
        assert "cannot be reached" in refused.stderr
        broker = subprocess.Popen([nats_server_binary(), "--config", str(config)], stderr=subprocess.DEVNULL)
        try:
            for port in (client, leaf, monitor):
                wait_listening(port)
            with running(environment, "up", str(path)):
                server = f"nats://127.0.0.1:{client}"
                listening = ["sub", "x.>", "--server", server, "--count", "1", "--timeout", "30"]
                with running(environment, *listening, ready="subscribed") as subscriber:
                    assert interest_has_spread(state(environment) / "mixed", theirs=1)
                    assert run(environment, "pub", "x.y", "hi", "--domain", "ours").returncode == 0
                    out, _ = subscriber.communicate(timeout=20)
                assert out == "x.y: hi\n"

                listening = ["sub", "big.>", "--domain", "ours", "--count", "1", "--timeout", "30"]
                with running(environment, *listening, ready="subscribed") as subscriber:
                    assert interest_has_spread(state(environment) / "mixed", ours=1)
                    large = tmp_path / "large"
                    large.write_bytes(b"x" * (1 << 21))
                    for subject, source in (("big.x", large), ("big.y", Path("/dev/null"))):
                        with source.open() as data:
                            subprocess.run(
                                [*MANGROVE, "pub", subject, "--server", server],
                                env=environment,
                                stdin=data,
                                check=True,
                                timeout=30,
                            )
                    out, _ = subscriber.communicate(timeout=20)
                assert out == "big.y: \n", "the message above the federation's limit is refused"
                status = json.loads(run(environment, "status", "--json").stdout)
                (drop,) = status["domains"][1]["gateway"]["drops"]
                assert (drop["topic"], drop["count"]) == ("big.x", 1)
                assert "larger than the federation's limit of 1048576 bytes" in drop["reason"]
                ignored = status["domains"][1]["gateway"]["ignored"]
                assert [what for what in ignored if "QoS 0 only" in what], "that has no JetStream is said"
        finally:
            broker.terminate()
            broker.wait(timeout=10)


def test_a_wrong_file_gives_all_mistakes_and_starts_nothing(
    environment: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(
        """
federation: wrong
domains:
  a: {base_port: 23000, colour: red}
  a: {base_port: 23000}
  b: {base_port: 23003}
  c: {external: {head: "nats://127.0.0.1:1"}}
links:
  - {between: [a, atlantis], delay_ms: -5}
topics:
  - {match: "not..valid"}
"""
    )
    result = run(environment, "up", str(path))
    assert result.returncode == 2
    for expected in (
        "has 6 mistakes",
        "line 5: 'a' stands here again",
        "links[0].between[1]: there is no domain 'atlantis'",
        "links[0].delay_ms: found -5",
        "topics[0].match: found 'not..valid'",
        "overlap with those of domains.a.base_port",
        "domains.c.external.head: 127.0.0.1:7422 cannot be reached",
    ):
        assert expected in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "state").exists(), "nothing was started"


def test_ports_in_use_are_reported_before_anything_starts(
    environment: dict[str, str], tmp_path: Path, pair_file: Path
) -> None:
    base = int(pair_file.read_text().split("east: {base_port: ")[1].split(",")[0])
    with socket.create_server(("127.0.0.1", base + 3)):
        result = run(environment, "up", str(pair_file))
    assert result.returncode == 2
    assert f"domains.east.base_port: cannot use port {base + 3} on 127.0.0.1" in result.stderr
    assert not list((tmp_path / "state").rglob("*.log"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["up", "/nonexistent.yaml"], "cannot read /nonexistent.yaml"),
        (["demo", "atlantis"], "there is no demo 'atlantis'"),
        (["bench", "nothing"], "there is no benchmark 'nothing'"),
        (["pub", "a..b", "x", "--server", "nats://127.0.0.1:1"], "cannot connect"),
    ],
)
def test_errors_name_the_problem(environment: dict[str, str], arguments: list[str], expected: str) -> None:
    result = run(environment, *arguments)
    assert result.returncode in (1, 2)
    assert expected in result.stderr
    assert "Traceback" not in result.stderr


def test_the_demo_loses_and_duplicates_nothing(environment: dict[str, str]) -> None:
    result = run(environment, "demo", "--seconds", "3", "--json", timeout=110)
    assert result.returncode == 0, result.stderr
    streams = json.loads(result.stdout)["streams"]
    assert len(streams) == 6
    for stream in streams:
        assert stream["lost"] == stream["duplicated"] == 0
        assert stream["delivered"] == stream["sent"] * len(stream["subscribers"]) > 0


def test_the_harmony_scenario(environment: dict[str, str]) -> None:
    """A link slowed, then cut, then a site killed: routes move as they should, and delivery never stops."""
    result = run(environment, "demo", "harmony", "--seconds", "12", "--json", timeout=110)
    assert result.stdout, result.stderr
    outcome = json.loads(result.stdout)
    assert outcome["problems"] == [], result.stderr
    assert [phase["held"] for phase in outcome["phases"]] == [True] * 4
    for stream in outcome["streams"]:
        assert stream["lost"] == stream["duplicated"] == 0


def test_the_harmony_scenario_does_not_blame_others_when_it_stood_still_itself(
    environment: dict[str, str],
) -> None:
    """The process that publishes and measures is stopped for longer than any gap may be, and goes on."""
    with running(environment, "demo", "harmony", "--seconds", "8", "--json", ready="is cut") as demo:
        time.sleep(0.5)
        demo.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        demo.send_signal(signal.SIGCONT)
        out, said = demo.communicate(timeout=80)
        assert json.loads(out)["problems"] == [], said
        assert "was itself held up for" in said


def test_interrupting_the_demo_stops_every_process(environment: dict[str, str]) -> None:
    with running(environment, "demo", "--seconds", "300", ready="is up") as demo:
        time.sleep(1.0)  # in the midst of its traffic
        children = descendants(demo.pid)
        assert children
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=30)
        assert demo.returncode == 130
        wait_gone(children)


def test_help_loads_no_heavy_module() -> None:
    """`mangrove --help` must start fast: it may not import what only some commands need."""
    script = (
        "import sys\n"
        "sys.argv = ['mangrove', '--help']\n"
        "from mangrove.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'scipy', 'nats', 'pydantic', 'yaml', 'uvloop', 'msgspec'}\n"
        "print('heavy:', sorted(heavy & set(sys.modules)))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "heavy: []" in result.stdout


def test_a_benchmark_that_is_told_to_end_leaves_nothing_behind(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """SIGTERM is what `kill` and service managers send; interrupts are ignored by what runs in background."""
    files = tmp_path / "temporary"
    files.mkdir()
    process = subprocess.Popen(
        [*MANGROVE, "bench", "gateway", "--quick"],
        env={**environment, "TMPDIR": str(files)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    try:
        deadline = time.monotonic() + STARTUP_S
        while not (children := psutil.Process(process.pid).children(recursive=True)):
            assert time.monotonic() < deadline, "it should have started brokers"
            time.sleep(0.05)
        process.terminate()
        assert process.wait(20) == 130
        assert not psutil.wait_procs(children, timeout=5)[1]
        assert list(files.iterdir()) == []
    finally:
        process.kill()
        process.wait()
