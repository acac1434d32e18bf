"""A site whose brokers somebody else runs and guards: we log in with a secret that no file of ours holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.running import Running

import mangrove
from mangrove.broker.nats.server import nats_server
from mangrove.config import parse_federation
from mangrove.host.ports import PortReservation
from mangrove.testbed.local_federation import LocalFederation

HOST = "127.0.0.1"
PASSWORD = "not to be seen"


@pytest.mark.parametrize("secured", [False, True], ids=["without keys", "with keys"])
async def test_external_brokers_are_joined_with_a_password_that_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secured: bool
) -> None:
    monkeypatch.setenv("THEIR_PASSWORD", PASSWORD)
    with PortReservation() as ports:
        port, leaf = ports.take(HOST), ports.take(HOST)
        theirs = nats_server(
            "theirs",
            f'server_name: theirs\nlisten: "{HOST}:{port}"\nleafnodes {{ listen: "{HOST}:{leaf}" }}\n'
            f'authorization {{ users: [ {{ user: us, password: "{PASSWORD}" }} ] }}\n',
            tmp_path / "theirs",
        )
        await theirs.start()
        federation = parse_federation(
            "federation: mixed\ndomains:\n  ours: {edges: 1}\n  theirs:\n    external:\n"
            f'      head: "nats://{HOST}:{port}"\n      leaf: "nats-leaf://{HOST}:{leaf}"\n'
            "      credentials: {user: us, password_env: THEIR_PASSWORD}\n"
            "links:\n  - {between: [ours, theirs]}\n",
            "mixed",
        ).require()
        run = tmp_path / "run"
        try:
            async with LocalFederation(federation, run, ephemeral=True, secured=secured) as launched:
                await Running(launched).links_up()
                async with (
                    mangrove.connect(run_dir=run, domain="ours") as ours,
                    mangrove.connect(run_dir=run, domain="theirs") as guest,
                ):
                    reading = await ours.subscribe("a")
                    await reading.ready()
                    await guest.publish("a", b"from theirs")
                    assert (await reading.next(5)).data == b"from theirs"
                files = [path for path in run.rglob("*") if path.is_file()]
                assert not [path for path in files if PASSWORD.encode() in path.read_bytes()]
        finally:
            await theirs.stop()
