"""A federation whose sites are run by different releases, each by its own `mangrove up --domain`.

All sites have one file, but for one link: who calls there calls a relay, which can be cut.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from string import Template

import msgspec
import psutil
from tests.kit.ports import PortBlocks
from tests.kit.releases import Release
from tests.kit.secured_runs import DeviceLogin
from tests.kit.waiting import eventually

import mangrove
from mangrove.agent.inspection import gateway_status
from mangrove.agent.management import ManagementConnection
from mangrove.client.connecting import Connecting
from mangrove.config import parse_federation
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess
from mangrove.host.run_directory import RunDirectory
from mangrove.host.runtime_file import read_runtime
from mangrove.model.address import Address
from mangrove.model.agents.status import AgentStatus
from mangrove.model.endpoints import DomainEndpoints, Runtime, fixed_endpoints
from mangrove.model.security.users import FIRST_CLIENT
from mangrove.model.status import GatewayStatus
from mangrove.testbed.load import PLAIN_OPTIONS, BrokerAddress

HOST = "127.0.0.1"
RUNNING = "Running."
STOP_S = 10.0


class Relay:
    """Hands on connections until it is cut; then it has none and takes none."""

    def __init__(self, target: Address) -> None:
        self._target = target
        self._cut = False
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, port: int) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, port)

    async def stop(self) -> None:
        self.cut()
        await asyncio.gather(*self._serving, return_exceptions=True)
        if self._server is not None:
            self._server.close()

    def cut(self) -> None:
        """End all connections, and refuse new ones."""
        self._cut = True
        for task in self._serving:
            task.cancel()

    def mend(self) -> None:
        """Take new ones again."""
        self._cut = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        back: asyncio.StreamWriter | None = None
        try:
            if not self._cut:
                there, back = await asyncio.open_connection(*self._target)
                async with asyncio.TaskGroup() as both:
                    both.create_task(_hand_on(reader, back))
                    both.create_task(_hand_on(there, writer))
        except (OSError, asyncio.CancelledError, ExceptionGroup):
            pass  # a line that is cut, or whose end is away
        finally:
            self._serving.discard(task)
            for each in (writer, back):
                if each is not None:
                    each.transport.abort()


async def _hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


class MixedFederation:
    """Sites by name, each of some release; a site may be stopped and started with another one."""

    def __init__(self, directory: Path, files: Mapping[str, Path], keys: Path, relay: Relay) -> None:
        self.directory = directory
        self.files = files
        self.keys = keys
        self.relay = relay
        self.releases: dict[str, Release] = {}
        """Who runs each site that is up."""
        self._sites: dict[str, ManagedProcess] = {}

    # -- life ---------------------------------------------------------------------------------------------

    async def start(self, domain: str, release: Release) -> None:
        """Run a site with a release."""
        argv = release.command(
            *("up", self.files[domain], "--domain", domain, "--no-record"),
            *("--run-dir", self.run_dir(domain), "--keys", self.keys),
        )
        log_path = self.directory / f"up-{domain}.log"
        site = ManagedProcess(
            f"up-{domain}", argv, log_path=log_path, ready_text=RUNNING, ready_within_s=90.0
        )
        self._sites[domain] = site
        self.releases[domain] = release
        await site.start()

    async def stop(self, domain: str) -> None:
        """Have a site stop, as Ctrl-C does."""
        del self.releases[domain]
        await self._sites.pop(domain).stop(STOP_S)

    async def change(self, domain: str, release: Release) -> None:
        """Stop a site, and start it with another release; wait until it is one of the federation again."""
        await self.stop(domain)
        await self.start(domain, release)
        await self.whole()

    async def whole(self) -> None:
        """Wait until every gateway has all its links, and all brokers follow."""

        async def up() -> bool:
            found = await asyncio.gather(*map(self.status, self.files))
            return all(
                each is not None and each.head_connected and all(link.up for link in each.links)
                for each in found
            )

        await eventually(up, "all links should be up", timeout_s=60.0)

    def processes(self, domain: str) -> list[tuple[str, str]]:
        """Our processes of a site: what each is, and the folder that its modules come from."""
        pid = self._sites[domain].pid
        assert pid is not None
        found = []
        for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            named = [word for word in process.cmdline() if word.startswith("mangrove.")]
            if named:
                kind = ".".join(named[-1].split(".")[:2])
                found.append((kind, process.environ()["PYTHONPATH"]))
        return found

    # -- where things are ---------------------------------------------------------------------------------

    def run_dir(self, domain: str) -> Path:
        return self.directory / domain

    def runtime(self, domain: str) -> Runtime:
        """What a site has written down of where it listens, whichever release it is."""
        return read_runtime(RunDirectory(self.run_dir(domain)))

    def endpoints(self, domain: str) -> DomainEndpoints:
        return self.runtime(domain).domains[domain]

    def connect(self, domain: str) -> Connecting:
        """A client of the present release."""
        return mangrove.connect(run_dir=self.run_dir(domain), domain=domain)

    def head(self, domain: str) -> BrokerAddress:
        """Where probes connect, and as whom."""
        head, login = self.endpoints(domain).head, self.login(domain)
        said = {"user": login.user, "pass": login.password}
        options = msgspec.json.decode(PLAIN_OPTIONS, type=dict[str, object]) | said
        return (head.host, head.client_port, msgspec.json.encode(options).decode(), login.trusted)

    def login(self, domain: str) -> DeviceLogin:
        """How clients that are not of the SDK log in at a site."""
        found = KeyDirectory(self.keys).domain(domain).client(FIRST_CLIENT)
        return DeviceLogin(FIRST_CLIENT, found.password.read_text().strip(), str(found.trusted))

    async def status(self, domain: str) -> GatewayStatus | None:
        """What a gateway tells the present release; None if it does not answer."""
        return await gateway_status(self.endpoints(domain))

    async def agent(self, domain: str) -> AgentStatus | None:
        """What an agent tells the present release; None if it does not answer."""
        async with ManagementConnection(self.endpoints(domain)) as management:
            return await management.agent_status()

    async def versions(self) -> set[int]:
        """Which versions of the document are in force; 0 where nobody answers."""
        found = await asyncio.gather(*map(self.status, self.files))
        return {0 if each is None else each.version for each in found}

    async def version_everywhere(self, version: int) -> None:
        async def agreed() -> bool:
            return await self.versions() == {version}

        await eventually(agreed, f"version {version} should be in force everywhere")


@asynccontextmanager
async def mixed_federation(
    directory: Path,
    template: str,
    relayed: tuple[str, str],
    releases: Mapping[str, Release],
    keys_by: Release,
) -> AsyncIterator[MixedFederation]:
    """All sites up and linked. `template` has a field for the base port of each domain (`$a`); the first of
    the `relayed` two calls the second through the relay. The keys are made by one of the releases."""
    caller, callee = relayed
    with PortBlocks() as blocks, PortReservation() as ports:
        base = {name: blocks.take() for name in releases}
        text = Template(template).substitute(base)
        common = directory / "mixed.yaml"
        common.write_text(text)
        relay_port = ports.take(HOST)
        pair = f"between: [{caller}, {callee}]"
        assert pair in text
        calling = directory / "calling.yaml"
        calling.write_text(text.replace(pair, f'{pair}, endpoints: {{{callee}: "{HOST}:{relay_port}"}}'))
        keys = directory / "keys"
        made = await keys_by.mangrove("keys", "init", common, "--keys", keys)
        assert made.code == 0, made.err
        shape = parse_federation(text, str(common)).require()
        relay = Relay(fixed_endpoints(shape.domains[callee]).gateway)
        files = {name: calling if name == caller else common for name in releases}
        mixed = MixedFederation(directory, files, keys, relay)
        await relay.start(relay_port)
        try:
            async with asyncio.TaskGroup() as starting:
                for name, release in releases.items():
                    starting.create_task(mixed.start(name, release))
            await mixed.whole()
            yield mixed
        finally:
            await asyncio.gather(
                *(mixed.stop(name) for name in tuple(mixed.releases)), return_exceptions=True
            )
            with contextlib.suppress(OSError):
                await relay.stop()
