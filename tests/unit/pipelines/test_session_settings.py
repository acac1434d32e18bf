"""What a user may ask of a Spark session, the bound on its time, and failures told apart."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from mangrove.errors import InputError
from mangrove.pipelines.output import UNFINISHED, exchange, output_directory
from mangrove.pipelines.session.failures import ClusterLostError, TimeLimitError, failure
from mangrove.pipelines.session.settings import SparkSettings
from mangrove.pipelines.session.time_limit import time_limit


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"master": "local", "remote": "sc://a"}, "exclude each other"),
        ({"memory": "much"}, "--memory: 'much'"),
        ({"memory": "0g"}, "--memory"),
        ({"conf": ["spark.ui.enabled"]}, "--conf: 'spark.ui.enabled'"),
        ({"conf": ["ui.enabled=true"]}, "--conf"),
        ({"conf": ["spark.driver.memory=9g"]}, "an option of its own"),
        ({"spark_log": "loud"}, "--spark-log: 'loud'"),
        ({"spark_log": "info", "remote": "sc://a"}, "--spark-log goes with"),
        ({"time_limit_s": 0.0}, "--time-limit: 0"),
        ({"time_limit_s": float("nan")}, "--time-limit: nan"),
    ],
)
def test_what_does_not_go_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words) as found:
        SparkSettings.checked(**given)  # type: ignore[arg-type]
    assert found.value.hint


def test_settings_are_taken_as_given() -> None:
    found = SparkSettings.checked(
        conf=["spark.sql.catalog.lake=org.apache.Catalog", "spark.jars.packages=a:b:1,c:d:2", "spark.x=a=b"],
        spark_log="warn",
        time_limit_s=3,
    )
    assert dict(found.conf) == {
        "spark.sql.catalog.lake": "org.apache.Catalog",
        "spark.jars.packages": "a:b:1,c:d:2",
        "spark.x": "a=b",
    }
    assert found.log_level == "WARN"


def test_work_is_broken_off_when_its_time_is_over() -> None:
    before = signal.getsignal(signal.SIGALRM)
    had_limit = signal.getitimer(signal.ITIMER_REAL)[0] > 0  # of the test itself
    with pytest.raises(TimeLimitError, match=r"step: cancelled after the time limit of 0.05 s"):  # noqa: SIM117
        with time_limit(60, "all"), time_limit(0.05, "step"):
            time.sleep(30)
    with pytest.raises(TimeLimitError, match="all: "), time_limit(0.05, "all"), time_limit(60, "step"):
        time.sleep(30)
    with time_limit(60, "all"):
        with time_limit(30, "step"):
            pass
        assert 30 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60
    assert (signal.getitimer(signal.ITIMER_REAL)[0] > 0) is had_limit
    assert signal.getsignal(signal.SIGALRM) is before


@pytest.mark.parametrize(
    ("text", "of_cluster"),
    [
        ("Job aborted due to stage failure: ... ExecutorLostFailure (executor 1 exited ...)", True),
        ("Job 3 cancelled because SparkContext was shut down", True),
        ("<_InactiveRpcError ... StatusCode.UNAVAILABLE ...>", True),
        ("[INVALID_HANDLE.SESSION_NOT_FOUND] The handle is invalid", True),
        ("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column cannot be resolved", False),
        ("Traceback (most recent call last): ValueError: bad row", False),
    ],
)
def test_failures_of_the_cluster_are_told_from_those_of_the_work(text: str, of_cluster: bool) -> None:
    assert isinstance(failure(RuntimeError(text), "here"), ClusterLostError) is of_cluster


def test_a_failed_call_is_told_by_its_details() -> None:
    text = '<_MultiThreadedRendezvous of RPC that terminated with:\n\tdetails = "Socket closed"\n>'
    found = failure(RuntimeError(text), "sc://a:15002")
    assert isinstance(found, ClusterLostError)
    assert found.message == "Spark at sc://a:15002 failed while the job was running: Socket closed"


def test_what_a_killed_process_left_is_removed_and_what_another_writes_is_not(tmp_path: Path) -> None:
    abandoned = tmp_path / f".out{UNFINISHED}dead"
    abandoned.mkdir()
    (abandoned / "half").touch()
    strange = tmp_path / ".out-mine"
    strange.mkdir()
    with output_directory(tmp_path / "out", "job") as first:
        assert not abandoned.exists()
        with output_directory(tmp_path / "out", "job") as second:
            (second / "answer").write_text("2")
        assert first.exists()
        (first / "answer").write_text("1")
    assert (tmp_path / "out" / "answer").read_text() == "1"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out-mine", "out"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["_mangrove_job", "answer"]


def test_directories_change_places(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    exchange(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old" / "new").exists()
    assert (tmp_path / "new" / "old").exists()
    with pytest.raises(FileNotFoundError):
        exchange(tmp_path / "nowhere", tmp_path / "old")
