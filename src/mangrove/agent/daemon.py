"""The agent process: puts the brain, the store, the data brokers and the management broker together.

Run by the site through `mangrove.host.daemon_start`. Brokers, gateways and clients go on
without it; when it comes back it takes up what its predecessor left in the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from functools import partial
from pathlib import Path

import msgspec
import nats
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from mangrove.agent.hosting.broker_switches import BrokerSwitches
from mangrove.agent.serving.broker_watch import BrokerWatch
from mangrove.agent.serving.contracts.desk import ContractDesk
from mangrove.agent.serving.contracts.in_force import ContractsInForce
from mangrove.agent.serving.failures.broker_probes import BrokerProbes
from mangrove.agent.serving.gateway_counts import GatewayCounts
from mangrove.agent.serving.leadership import Leadership
from mangrove.agent.serving.lease_keys import LeaseKeys
from mangrove.agent.serving.plan_directory import PlanDirectory
from mangrove.agent.serving.plan_offers import PlanOffers
from mangrove.agent.serving.policy_reader import PolicyReader
from mangrove.agent.serving.settings import AgentSettings, check
from mangrove.agent.serving.shell import Shell
from mangrove.agent.serving.store_writer import StoreWriter
from mangrove.broker.kinds import kind_of
from mangrove.control.brain import AgentBrain
from mangrove.control.election.score import score_of
from mangrove.errors import MangroveError
from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.computing_power import computing_power
from mangrove.host.daemon import run_daemon
from mangrove.host.event_file import EventFile
from mangrove.host.keys.login import LoginSource, by_password
from mangrove.host.keys.logins.external_login import external_login
from mangrove.host.keys.logins.user_login import login_of
from mangrove.host.nats_connecting import close_in_time, connect_or_close
from mangrove.host.status_publisher import StatusPublisher
from mangrove.host.tracing.tracer import Tracer
from mangrove.host.web.health import Readiness, telling_health
from mangrove.model.agents.members import agents_of
from mangrove.model.agents.names import (
    AGENT_READY,
    agent_status_subject,
    capacity_subject,
    directory_subject,
    from_peer_subject,
    members_subject,
    operations_subject,
    register_subject,
    report_subject,
)
from mangrove.model.agents.speakers import ANY_USER, speaker_of, unspoken
from mangrove.model.agents.status import AgentStatus
from mangrove.model.audit.entry import AuditKind
from mangrove.model.metrics.agent import put_agent
from mangrove.model.metrics.families import Families
from mangrove.model.names.local_view import local_federation
from mangrove.model.questions.contracts_question import contracts_subject
from mangrove.model.security import users
from mangrove.model.stream.messages import AGENT_PART
from mangrove.store.buckets import Buckets

log = logging.getLogger(__name__)

RETRY_S = 0.5
PING_S, PINGS = 1, 3
"""A management broker that is frozen or cut off is left for another after so many pings."""
READY_WITHIN_S = 2.0
"""After so long it counts as ready although nobody leads yet: it serves as soon as it can."""
FOLLOWER_PAUSE_S = 0.2
"""So much later a follower answers questions, so that the leader's answer is first if there is one."""
MAX_LATER = 1_000
CANCEL_AGAIN_S = 1.0
LONG_S = 0.02
"""A registration of thousands of wishes takes longer; then others get time for a whole exchange."""
PAUSE_S = 0.01
PENDING_MESSAGES = 65_536
PENDING_BYTES = 64 << 20


class Agent:
    """One agent: a management connection and everything that goes over it."""

    def __init__(
        self, settings: AgentSettings, audit: AuditLog | None = None, tracer: Tracer | None = None
    ) -> None:
        domain, federation = settings.domain, settings.federation
        self._settings = settings
        self._domain = domain
        events = EventFile(Path(settings.events_path) if settings.events_path else None, tracer)
        seed = secrets.randbits(32)
        log.info("agent %s of %s, seed %d", settings.agent, domain, seed)
        description = federation.domains[domain]
        power = computing_power() if settings.power is None else settings.power
        brain = self._brain = AgentBrain(
            local_federation(federation, domain),
            domain,
            settings.agent,
            seed=seed,
            clock_shift_s=time.time() - time.monotonic(),
            events_before=events.last_number(),
            endpoints=settings.endpoints,
            score=score_of(description, agents_of(description).get(settings.agent, ""), power),
            life=int(time.time() * 1000),
        )
        self._keys = LeaseKeys(domain, users=bool(settings.keys))
        self._login = login_of(settings.keys, users.AGENT_USER)
        neighbours = [link.other(domain) for link in federation.links_of(domain)]
        self._shell = Shell(
            domain, brain, self._keys, events, agent=settings.agent, neighbours=neighbours, audit=audit
        )
        self._shell.switches = self._switches = BrokerSwitches(settings.endpoints, self._shell.refused)
        self._publisher = StatusPublisher(domain, {AGENT_PART: self._account})
        self._desk = ContractDesk(settings.federation, domain, settings.keys, audit)
        self._later: set[asyncio.Task[None]] = set()
        self._connection: Client | None = None
        self._closed = asyncio.Event()
        self._ready = False

    async def run(self) -> None:
        """Serve until cancelled."""
        if self._settings.endpoints.on_several_hosts:
            # The management broker may be on a host that is not there yet; nobody on this one waits for it.
            asyncio.get_running_loop().call_later(READY_WITHIN_S, self._say_ready)
        async with telling_health(self._settings.health, self._readiness, self._counted):
            await self._serve()

    async def _serve(self) -> None:
        connection = self._connection = await self._connect()
        agent = self._settings.agent
        buckets = Buckets(connection, len(self._settings.endpoints.managements))
        leadership = Leadership(
            self._domain,
            agent,
            buckets,
            self._shell.tell,
            self._shell.refused,
            rank=lambda last: self._brain.rank(last, time.monotonic()),
            changed=None if self._brain.alone else self._shell.lease_changed,
        )
        policies = PolicyReader(buckets, self._shell.tell)
        writer = StoreWriter(buckets, self._shell.tell, lambda: self._shell.leads_in)
        watches = self._watches()
        probes = self._probes()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._until_closed(), name="connection")
                tasks.create_task(self._shell.outbox.run(connection, self._leads), name="outbox")
                self._shell.begin(leadership.lease, writer, watches, policies=policies, probes=probes)
                await self._listen(connection)
                tasks.create_task(leadership.run(), name="leadership")
                tasks.create_task(writer.run(), name="store writer")
                tasks.create_task(policies.run(), name="policy reader")
                counts = GatewayCounts(self._domain, connection, self._shell.tell)
                tasks.create_task(counts.run(), name="gateway counts")
                tasks.create_task(self._shell.gateway.run(connection, self._leads), name="gateway limits")
                tasks.create_task(
                    self._switches.run(connection, lambda: self._shell.leads_in), name="broker switches"
                )
                tasks.create_task(probes.run(), name="probes")
                tasks.create_task(self._publisher.deliver(connection), name="status stream")
                tasks.create_task(self._shell.cases.run(), name="cases")
                found = PlanDirectory(
                    self._settings.federation.plans,
                    self._shell.tell,
                    lambda: self._shell.leads_in,
                    self._shell.refused,
                )
                tasks.create_task(found.run(), name="plans")
                offered = PlanOffers(
                    self._settings.federation.plans,
                    buckets,
                    self._shell.tell,
                    lambda: self._shell.leads_in,
                    self._shell.refused,
                )
                tasks.create_task(offered.run(), name="plans in the store")
                for watch in watches:
                    tasks.create_task(watch.run(), name=f"watch {watch.broker}")
                await _settled(leadership)
                self._say_ready()
        finally:
            await self._desk.close()
            self._shell.close()
            for task in self._later:
                task.cancel()
            with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
                await leadership.lease.release()
                await connection.publish(*self._shell.lease_change(0))
            await close_in_time(connection)

    def _say_ready(self) -> None:
        if not self._ready:
            self._ready = True
            log.info(AGENT_READY)

    async def _connect(self) -> Client:
        """A connection that is made again whenever it breaks."""
        urls = [broker.client_url for broker in self._settings.endpoints.managements]
        warned = False

        async def told(error: Exception) -> None:
            log.debug("management broker: %s", error)
            if isinstance(error, nats.errors.SlowConsumerError):
                self._shell.refused["too many messages waited to be read"] += 1

        async def closed() -> None:
            self._closed.set()

        while True:
            try:
                return await connect_or_close(
                    urls,
                    login=self._login,
                    name=self._settings.agent,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=RETRY_S,
                    connect_timeout=1,
                    ping_interval=PING_S,
                    max_outstanding_pings=PINGS,
                    error_cb=told,
                    closed_cb=closed,
                )
            except (OSError, nats.errors.Error) as error:
                if not warned:
                    log.warning("management broker %s: %s; trying again", ", ".join(urls), error)
                warned = True
                await asyncio.sleep(RETRY_S)

    def _leads(self) -> bool:
        return self._shell.leads

    def _readiness(self) -> Readiness:
        """An agent that follows is ready, too."""
        reached = self._connection is not None and self._connection.is_connected
        return Readiness(
            process=self._settings.agent, checks={"management broker": reached, "has begun": self._ready}
        )

    async def _counted(self) -> Families:
        families = Families()
        put_agent(families, self._domain, self._shell.status())
        return families

    async def _account(self) -> AgentStatus | None:
        """What the leader says of itself and the domain; the others have nothing to add."""
        return self._shell.status() if self._shell.leads else None

    async def _until_closed(self) -> None:
        """A connection that will not be made again ends the process, which is then started anew."""
        await self._closed.wait()
        raise MangroveError("the connection to the management broker was given up")

    def _watches(self) -> list[BrokerWatch]:
        endpoints, balancing = self._settings.endpoints, self._settings.federation.balancing
        return [
            BrokerWatch(
                broker.name,
                kind_of(broker.kind).system(broker, self._system_login()),
                self._shell.tell,
                self._leads,
                period_s=balancing.period_s,
                pending=balancing.pending_bytes is not None,
                delay=balancing.delay_ms is not None,
            )
            for broker in endpoints.succession
        ]

    def _system_login(self) -> LoginSource | None:
        """Who this agent is in the system account of the data brokers."""
        user = self._settings.system_user
        return self._login or (None if user is None else by_password(user.user, user.password))

    def _probes(self) -> BrokerProbes:
        endpoints, login = self._settings.endpoints, self._system_login()
        foreign = external_login(self._settings.federation.domains[self._domain].external)
        return BrokerProbes(
            [
                (
                    broker.name,
                    partial(kind_of(broker.kind).heartbeat, broker, foreign if broker.external else login),
                )
                for broker in endpoints.succession
            ],
            self._shell.tell,
        )

    async def _listen(self, connection: Client) -> None:
        """One subscription for all clients: what a client says is heard in its order."""
        everything = register_subject(self._domain).rpartition(".")[0] + ".*"
        said = register_subject(self._domain, ANY_USER).rpartition(".")[0] + ".*"
        for subject, heard in (
            (everything, self._heard),
            (said, self._heard),
            (from_peer_subject(self._domain, "*"), self._heard_peer),
            (members_subject(self._domain, "*"), self._heard_member),
        ):
            await connection.subscribe(
                subject, cb=heard, pending_msgs_limit=PENDING_MESSAGES, pending_bytes_limit=PENDING_BYTES
            )
        await self._publisher.subscribe(connection)

    async def _heard(self, message: Msg) -> None:
        """Hand a message on, and let others have their turn, the lease above all, however many wait."""
        began = time.monotonic()
        self._hand_on(message)
        await asyncio.sleep(PAUSE_S if time.monotonic() - began > LONG_S else 0.0)

    def _hand_on(self, message: Msg) -> None:
        user, subject, reply = speaker_of(message.subject), unspoken(message.subject), message.reply
        if subject == report_subject(self._domain):
            self._shell.heard_report(message.data, user)
        elif subject == register_subject(self._domain):
            self._shell.heard_registration(message.data, reply, user)
        elif subject == contracts_subject(self._domain) and reply and self._shell.leads:
            self._asked_for_contracts(message.data, user, reply)
        elif user:
            return  # clients have nothing else to say here
        elif subject == capacity_subject(self._domain) and reply and self._shell.leads:
            self._shell.outbox.put(reply, self._shell.told_capacity(message.data))
        elif subject == operations_subject(self._domain) and reply and self._shell.leads:
            self._shell.operators.heard(message.data, reply)
        elif subject in (agent_status_subject(self._domain), directory_subject(self._domain)) and reply:
            if self._shell.leads:
                self._answer(subject, message.data, reply)
            elif len(self._later) < MAX_LATER:
                task = asyncio.create_task(self._answer_later(subject, message.data, reply))
                self._later.add(task)
                task.add_done_callback(self._later.discard)

    def _asked_for_contracts(self, data: bytes, user: str, reply: str) -> None:
        if self._connection is not None:
            self._desk.heard(self._connection, data, user, reply)

    async def _answer_later(self, subject: str, data: bytes, reply: str) -> None:
        await asyncio.sleep(FOLLOWER_PAUSE_S)
        self._answer(subject, data, reply)

    def _answer(self, subject: str, data: bytes, reply: str) -> None:
        if subject == agent_status_subject(self._domain):
            self._shell.outbox.put(reply, msgspec.json.encode(self._shell.status()), as_leader=False)
        elif (page := self._shell.directory_page(data)) is not None:
            self._shell.outbox.put(reply, page, as_leader=False)

    async def _heard_member(self, message: Msg) -> None:
        self._shell.heard_member(message.subject.rpartition(".")[2], message.data)

    async def _heard_peer(self, message: Msg) -> None:
        self._shell.heard_peer(message.subject.rpartition(".")[2], message.data)


async def _settled(leadership: Leadership) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(READY_WITHIN_S):
            await leadership.settled.wait()


async def _serve(settings: AgentSettings) -> None:
    check(settings)
    audit = AuditLog.at(settings.audit_path)
    audit.note(AuditKind.PROCESS_STARTED)
    tracer = Tracer.from_environment("mangrove-agent", **{"service.instance.id": settings.agent})
    try:
        await _serve_by_contracts(settings, audit, tracer)
    finally:
        if tracer is not None:
            tracer.close()
        audit.note(AuditKind.PROCESS_STOPPED)
        audit.close()
        log.info("agent stopped")


async def _ended(serving: asyncio.Task[None]) -> None:
    """Cancel a life of the agent until it has ended: a library may take one cancellation for its own."""
    if serving.done():
        return
    while not serving.done():
        serving.cancel()
        await asyncio.wait((serving,), timeout=CANCEL_AGAIN_S)
    if not serving.cancelled() and (error := serving.exception()) is not None:
        log.error("the agent ended badly", exc_info=error)


async def _serve_by_contracts(settings: AgentSettings, audit: AuditLog, tracer: Tracer | None) -> None:
    """One life of the agent after the other, each under the contracts in force."""
    contracts = ContractsInForce(settings.versions_path, settings.reloaded_path)
    while True:
        federation = contracts.federation(settings.federation)
        if settings.domain not in federation.domains:  # it has left: its own clients are served by the file
            federation = settings.federation
        agent = Agent(msgspec.structs.replace(settings, federation=federation), audit, tracer)
        serving = asyncio.create_task(agent.run(), name="agent")
        changed = asyncio.create_task(contracts.changed(), name="contracts")
        try:
            await asyncio.wait((serving, changed), return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                return await serving
        finally:
            changed.cancel()
            await _ended(serving)
        log.info("what is in force is another version than %d, or was reloaded", contracts.version)


def main() -> None:
    """Run one agent until it is told to stop."""
    run_daemon(AgentSettings, _serve)


if __name__ == "__main__":
    main()
