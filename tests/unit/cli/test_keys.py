"""`mangrove keys`: what is made, told and refused. No secret is ever shown."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.kit.keyed import all_files, ring_of, secrets_in
from typer.testing import CliRunner

from mangrove.cli.main import app
from mangrove.config import load_federation
from mangrove.errors import MangroveError
from mangrove.host.keys.checking import check_site
from mangrove.host.keys.directory import KeyDirectory

FILE = """
federation: ring
domains:
  a:
    edges: 1
    hosts: {north: {address: 127.0.0.1, brokers: [head]}, south: {address: 127.0.0.2, brokers: [edge1]}}
  b: {}
links: [{between: [a, b]}]
security: keys
"""


class Told(NamedTuple):
    """What a command has said, and how it ended."""

    exit_code: int
    stdout: str
    stderr: str


class Commands:
    """Commands on one federation file, with a state directory of their own."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "ring.yaml"
        self.file.write_text(FILE)
        self.keys = KeyDirectory(directory / "state" / "ring" / "keys")
        self.environment = {"MANGROVE_STATE_DIR": str(directory / "state"), "COLUMNS": "80"}

    def run(self, *arguments: str) -> Told:
        """A command in this process; nothing that is secret is ever told."""
        result = CliRunner().invoke(app, arguments, env=self.environment)
        told = Told(result.exit_code, result.stdout, result.stderr)
        if isinstance(result.exception, MangroveError):
            error = result.exception
            told = Told(error.exit_code, result.stdout, f"{result.stderr}{error.message}\n{error.hint}")
        lines = {line for path in secrets_in(self.keys) for line in path.read_text().split("\n")}
        secret = [line for line in lines if len(line) > 20 and "-----" not in line]
        assert not [line for line in secret if line in told.stdout + told.stderr]
        return told

    def keys_command(self, name: str, *arguments: str) -> Told:
        return self.run("keys", name, str(self.file), *arguments)

    def document(self, name: str, *arguments: str) -> dict[str, Any]:
        told = self.keys_command(name, *arguments, "--json")
        assert told.exit_code == 0, told.stderr
        found: dict[str, Any] = json.loads(told.stdout)
        return found

    def refusal(self, name: str, *arguments: str) -> str:
        told = self.keys_command(name, *arguments)
        assert told.exit_code == 2, told
        return told.stderr


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    found = Commands(tmp_path_factory.mktemp("commands"))
    made = found.document("init")
    assert made["directory"] == str(found.keys.path)
    assert [line.partition(":")[0] for line in made["made"]] == ["a", "b"]
    return found


def test_what_is_there_is_kept(commands: Commands) -> None:
    before = all_files(commands.keys)
    run = commands.keys_command("init")
    assert (run.exit_code, run.stdout) == (0, "Nothing was missing.\n")
    assert all_files(commands.keys) == before


def test_keys_are_shown_in_80_columns(commands: Commands) -> None:
    run = commands.keys_command("show")
    assert run.exit_code == 0
    assert all(len(line) <= 80 for line in run.stdout.split("\n") if str(commands.keys.path) not in line)
    assert "a-management" in run.stdout
    assert "the authority is here" in run.stdout
    report = commands.document("show")
    assert report["good"]
    assert {each["name"] for each in report["certificates"] if each["domain"] == "b"} == {
        "gateway",
        "b-head",
        "b-management",
    }
    assert {each["domain"] for each in report["users"] if each["client"]} == {"a", "b"}


def test_a_client_is_issued_and_revoked(commands: Commands) -> None:
    issued = commands.document("issue", "buoy", "--domain", "a", "--role", "sensor")
    assert stat.S_IMODE(Path(issued["folder"]).stat().st_mode) == 0o700
    assert "has a client 'buoy' already" in commands.refusal("issue", "buoy", "--domain", "a")
    assert "no keys of a domain 'z'" in commands.refusal("issue", "buoy", "--domain", "z")
    assert "is no name" in commands.refusal("issue", "a/b", "--domain", "a")
    with_rules = commands.file.read_text() + "access: {roles: {sensor: []}, default: deny}\n"
    commands.file.write_text(with_rules)
    unknown = commands.refusal("issue", "ship", "--domain", "a", "--role", "sensr")
    assert "can speak of a role 'sensr'" in unknown
    commands.document("issue", "ship", "--domain", "a", "--role", "sensor")
    number = commands.document("revoke", "--domain", "a", "--client", "buoy")["number"]
    assert number == commands.document("show")["revocations"]
    assert "has no client 'buoy'" in commands.refusal("revoke", "--domain", "a", "--client", "buoy")


def test_a_site_is_not_revoked_by_mistake(commands: Commands) -> None:
    run = commands.keys_command("revoke", "--domain", "b")
    assert run.exit_code == 1  # nobody has said yes
    assert ring_of(commands.keys, "b").still_trusted(ring_of(commands.keys, "b").credential) == ""


def test_one_part_is_replaced_and_that_is_ended(commands: Commands) -> None:
    old = ring_of(commands.keys, "a").credential
    run = commands.keys_command("rotate", "--domain", "a", "--part", "gateway", "--part", "users")
    assert run.exit_code == 0
    assert "a: new keys for gateway, users" in run.stderr
    assert f"mangrove keys rotate {commands.file} --finish" in run.stdout
    assert ring_of(commands.keys, "b").still_trusted(old) == ""
    shown = commands.keys_command("show")
    assert "8 replaced keys are still believed" in shown.stdout
    assert commands.document("rotate", "--finish")["left"] == 0
    assert ring_of(commands.keys, "b").still_trusted(old) == "its certificate was revoked"


def test_everything_is_replaced_step_by_step(commands: Commands) -> None:
    before = all_files(commands.keys)
    left = [commands.document("rotate", "--all")["left"] for _ in range(3)]
    assert left == [2, 1, 0]
    after = all_files(commands.keys)
    assert not [
        path for path in before if path.suffix in (".key", ".nk", ".pem") and after[path] == before[path]
    ]
    report = commands.document("show")
    assert (report["good"], report["overlapping"]) == (True, 0)


def test_the_steps_are_taken_together_when_asked(commands: Commands) -> None:
    done = commands.document("rotate", "--authority", "--wait", "0")
    assert len(done["done"]) == 3
    assert done["left"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say what to replace"),
        (["--all", "--authority"], "say what to replace"),
        (["--all", "--part", "users"], "--part and --client are of a site"),
        (["--domain", "z"], "no keys of a domain 'z'"),
        (["--domain", "a", "--client", "nobody"], "a has no client 'nobody'"),
    ],
)
def test_what_cannot_be_replaced(commands: Commands, arguments: list[str], message: str) -> None:
    before = all_files(commands.keys)
    assert message in commands.refusal("rotate", *arguments)
    assert all_files(commands.keys) == before


def unpacked(commands: Commands, directory: Path, *arguments: str) -> KeyDirectory:
    """What another machine has after it unpacked an export."""
    archive = directory / "export.tar"
    commands.document("export", *arguments, "--to", str(archive))
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    subprocess.run(["tar", "-xf", archive, "-C", directory / "keys"], check=True)
    archive.unlink()
    return KeyDirectory(directory / "keys")


def test_an_export_is_all_that_a_site_needs_and_no_more(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    there = unpacked(commands, tmp_path, "--domain", "b")
    federation = load_federation(commands.file)
    check_site(there.path, federation, "b")
    assert not there.authority_key.exists()
    assert not there.domain("a").path.exists()
    assert there.domain("b").client("client").password.exists()
    ring = ring_of(there, "b")
    assert not ring.changed()
    commands.document("rotate", "--domain", "b")
    unpacked(commands, tmp_path, "--domain", "b")
    assert ring.changed()
    assert ring_of(there, "b").generation > ring.generation
    check_site(there.path, federation, "b")
    exists = commands.refusal("export", "--domain", "b", "--to", str(commands.file))
    assert "cannot write" in exists


def test_a_host_gets_what_runs_there(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    there = unpacked(commands, tmp_path, "--domain", "a", "--host", "south")
    federation = load_federation(commands.file)
    check_site(there.path, federation, "a", "south")
    names = {path.name for path in all_files(there)}
    assert "a-edge1.key" in names
    assert not names & {"a-head.key", "a-management.key", "gateway.key", "sealing.key", "password", "key.pem"}
    assert ring_of(there, "a").login("agent").nkey == ring_of(commands.keys, "a").login("agent").nkey
    assert "has no host 'west'" in commands.refusal(
        "export", "--domain", "a", "--host", "west", "--to", "x.tar"
    )
    assert "has no domain 'z'" in commands.refusal("export", "--domain", "z", "--to", "x.tar")


def test_an_archive_names_only_paths_inside(commands: Commands, tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    commands.document("export", "--domain", "a", "--to", str(archive))
    with tarfile.open(archive) as opened:
        members = opened.getmembers()
    assert members[-1].name == "keys.json"
    assert not [each.name for each in members if each.name.startswith("/") or ".." in each.name]
    assert {each.mode for each in members} == {0o700, 0o600}


def test_a_site_does_not_start_without_its_keys(commands: Commands, tmp_path: Path) -> None:
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "mangrove.cli.main",
            "up",
            commands.file,
            "--domain",
            "b",
            "--keys",
            tmp_path / "none",
        ],
        env={**os.environ, **commands.environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 2
    assert f"there are no keys in {tmp_path / 'none'}" in run.stderr
    assert "mangrove keys init FILE" in run.stderr


def test_damaged_keys_are_told(commands: Commands) -> None:
    path = commands.keys.domain("b").gateway_certificate
    path.chmod(0o644)
    try:
        assert f"{path} is open to others" in commands.refusal("show")
        assert f"{path} is open to others" in commands.refusal("init")
    finally:
        path.chmod(0o600)
