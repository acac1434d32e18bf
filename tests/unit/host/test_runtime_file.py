"""Running federations are found by the lock of their run directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from mangrove.errors import InputError, MangroveError
from mangrove.host.run_directory import RunDirectory, default_run_directory
from mangrove.host.runtime_file import find_running, find_running_directory, lock_directory, write_runtime
from mangrove.model.address import Address
from mangrove.model.endpoints import Runtime, fixed_endpoints
from mangrove.model.federation import Domain, Federation


def runtime(name: str) -> Runtime:
    domain = Domain(name="a", base_port=7000)
    federation = Federation(name=name, domains={"a": domain})
    control = Address("127.0.0.1", 9)
    return Runtime(federation=federation, domains={"a": fixed_endpoints(domain)}, pid=1, wan_control=control)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANGROVE_STATE_DIR", str(tmp_path))


def test_nothing_runs_at_first() -> None:
    with pytest.raises(MangroveError, match="no federation runs on this machine"):
        find_running()


def test_a_federation_is_found_while_its_lock_is_held() -> None:
    run = default_run_directory("ring")
    with lock_directory(run):
        write_runtime(run, runtime("ring"))
        assert find_running() == find_running("ring") == find_running(run_dir=run.path) == runtime("ring")
        with pytest.raises(MangroveError, match="already runs in"):
            lock_directory(run)
    for name, directory in ((None, None), ("ring", None), (None, run.path)):
        with pytest.raises(MangroveError):
            find_running(name, directory)


def test_of_several_one_must_be_named() -> None:
    runs = [default_run_directory(name) for name in ("east", "west")]
    locks = [lock_directory(run) for run in runs]
    for run in runs:
        write_runtime(run, runtime(run.path.name))
    with pytest.raises(InputError, match="east, west"):
        find_running_directory()
    assert find_running_directory("west") == runs[1]
    for lock in locks:
        lock.close()


def test_a_damaged_runtime_file_is_reported(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "odd")
    with lock_directory(run):
        run.runtime.write_text("{")
        with pytest.raises(InputError, match="cannot read"):
            find_running(run_dir=run.path)
