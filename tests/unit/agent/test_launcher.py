"""What the launcher refuses before it starts anything. Running sites are in tests/integration."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec
import pytest

from mangrove.agent.launcher import Launcher
from mangrove.agent.site import Site
from mangrove.errors import InputError, InvalidDocumentError
from mangrove.host.keys.making import make_keys
from mangrove.host.runtime_file import lock_directory
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.federation import Domain, Federation, Link
from mangrove.testbed.local_federation import LocalFederation


def pair(base_port: int, endpoint: str) -> Federation:
    return Federation(
        name="pair",
        domains={
            "east": Domain(name="east", base_port=base_port, address="127.0.0.5"),
            "west": Domain(name="west", base_port=base_port, address="127.0.0.6"),
        },
        links=(Link(between=("west", "east"), endpoints={"east": endpoint, "west": "192.0.2.1:9000"}),),
    )


async def test_all_ports_in_use_are_reported_and_nothing_is_left_behind(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.5", 0)) as taken,
        socket.create_server(("127.0.0.7", 0)) as link_taken,
    ):
        port, link_port = taken.getsockname()[1], link_taken.getsockname()[1]
        launcher = Launcher(pair(port, f"127.0.0.7:{link_port}"), tmp_path, only="east")
        with pytest.raises(InvalidDocumentError) as refused:
            await launcher.start()
    # Only the site that runs here needs its ports: the other one's address is not even ours.
    assert {mistake.path for mistake in refused.value.mistakes} == {
        "domains.east.base_port",
        "links[0].endpoints.east",
    }
    assert launcher.processes() == []
    assert not launcher.run.runtime.exists()
    lock_directory(launcher.run).close()


def test_an_unknown_site_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no domain 'north'"):
        Launcher(pair(7000, "127.0.0.7:9000"), tmp_path, only="north")


@pytest.mark.parametrize("local", [True, False])
async def test_nothing_starts_with_keys_that_others_may_know(tmp_path: Path, local: bool) -> None:
    keys = make_keys(pair(7000, "127.0.0.7:9000"), tmp_path / "keys")
    keys.domain("west").sealing_key.chmod(0o640)
    federation, run = pair(7000, "127.0.0.7:9000"), tmp_path / "run"
    launcher = Launcher(federation, run, keys=keys.path)
    if local:
        launcher = LocalFederation(federation, run, keys=keys.path, secured=True)
    with pytest.raises(InputError, match=r"west/sealing.key is open to others"):
        await launcher.start()
    assert launcher.processes() == []
    assert not launcher.run.runtime.exists()
    lock_directory(launcher.run).close()


async def test_processes_are_told_where_their_keys_are_and_nothing_else(tmp_path: Path) -> None:
    federation = pair(7000, "127.0.0.7:9000")
    launcher = LocalFederation(federation, tmp_path / "run", secured=True)
    keys = make_keys(federation, tmp_path / "run" / "keys")
    assert launcher.runtime().keys == str(keys.path)
    assert launcher.keys_of("east") == str(keys.domain("east").path)
    endpoints = {name: fixed_endpoints(domain) for name, domain in federation.domains.items()}
    Site(federation, endpoints, "east", launcher.run, keys=launcher.keys_of("east"))
    for process in ("east-gateway", "east-agent"):
        settings = msgspec.json.decode(launcher.run.settings(process).read_bytes())
        assert settings["keys"] == str(keys.domain("east").path)
    assert LocalFederation(federation, tmp_path / "plain").runtime().keys == ""
