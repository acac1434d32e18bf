"""The same bytes from Spark in this process, from a standalone cluster, and from a Spark Connect server.

Master, workers and server are real, started from the pyspark package, each as a process that the test owns.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.kit.spark_cluster import PATIENCE_S, connect_server, environment, standalone

from mangrove.host.ports import PortReservation
from mangrove.pipelines.jobs import availability
from mangrove.pipelines.jobs.profile import Brokers, ProfileSettings, profile, write_profile
from mangrove.pipelines.rates.peaks import parse_peak
from mangrove.pipelines.spark_session import session
from mangrove.pipelines.synthetic.operations import SyntheticOperations, generate_operations
from mangrove.pipelines.synthetic.rates import SyntheticRates, generate

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def port() -> Iterator[int]:
    """A port of 127.0.0.1 that is held until the test ends; Java servers can listen on it."""
    with PortReservation() as ports:
        yield ports.take("127.0.0.1")


def mangrove(*arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, "-m", "mangrove.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env=environment(),
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


def written(output: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in output.iterdir()}


def profiled(lake: Path, output: Path, *where: str) -> dict[str, bytes]:
    """The files of `profile`."""
    options = ("--capacity", "2500", "--brokers", "3", "--peak", "all", *where, "--json")
    mangrove("pipeline", "profile", "--input", str(lake), "--output", str(output), *options)
    return written(output)


@pytest.fixture(scope="module")
def outages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples over midnight, with a file that is damaged inside."""
    path = tmp_path_factory.mktemp("outages") / "lake"
    start = datetime(2026, 3, 2, 23, 45, tzinfo=UTC)
    generate_operations(SyntheticOperations(seconds=1800, start=start, rate=1, mean_up_s=300.0), path)
    one = next((path / "broker_samples").rglob("*.parquet"))
    data = bytearray(one.read_bytes())
    data[40:400] = bytes(360)
    one.write_bytes(data)
    return path


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two domains, overlapping and copied files: everything that could depend on the order of things."""
    path = tmp_path_factory.mktemp("cluster") / "lake"
    spec = SyntheticRates(
        topics=30, seconds=1800, domains=("north", "south"), file_s=90, late_rows=200, copied_files=1, seed=9
    )
    generate(spec, path)
    return path


@pytest.fixture(scope="module")
def local(
    lake: Path, outages: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """What `profile` and `availability` write here, in one session of this process."""
    base = tmp_path_factory.mktemp("local")
    quick = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"
    with session("local[2]", memory="1g", conf=[quick]) as spark:
        found = profile(spark, str(lake), ProfileSettings(peak=parse_peak("all")))
        write_profile(found, Brokers(("broker1", "broker2", "broker3"), (2500.0,) * 3), base / "profile")
        availability.run(spark, str(outages), base / "availability")
    return written(base / "profile"), written(base / "availability")


def test_standalone_cluster_gives_the_same_bytes(
    lake: Path, local: tuple[dict[str, bytes], ...], port: int, tmp_path: Path
) -> None:
    with standalone(tmp_path, port) as cluster:
        assert profiled(lake, tmp_path / "out", "--master", cluster.url) == local[0]
        # Both workers took part.
        assert "Launching executor" in (tmp_path / "master.log").read_text()
        assert all(any((tmp_path / f"work{number}").glob("app-*/*/stderr")) for number in range(2))


def test_spark_connect_gives_the_same_bytes(
    lake: Path, outages: Path, local: tuple[dict[str, bytes], ...], port: int, tmp_path: Path
) -> None:
    with connect_server(tmp_path, port) as url:
        assert profiled(lake, tmp_path / "out", "--remote", url) == local[0]
        there = ("--remote", url, "--state", str(tmp_path / "state"), "--json")
        place = ("--input", str(outages), "--output", str(tmp_path / "there"))
        mangrove("pipeline", "availability", *place, *there)
        assert written(tmp_path / "there") == local[1]


def test_nobody_there(lake: Path, port: int, tmp_path: Path) -> None:
    """A server that does not answer is a message, not a trace, and nothing is written."""
    result = subprocess.run(
        [
            *(sys.executable, "-m", "mangrove.cli.main", "pipeline", "profile", "--input", str(lake)),
            *("--output", str(tmp_path / "out"), "--capacity", "1", "--brokers", "1"),
            *("--remote", f"sc://127.0.0.1:{port}"),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env=environment(),
    )
    assert result.returncode == 1
    assert "error: no Spark Connect server answers at sc://127.0.0.1:" in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []
