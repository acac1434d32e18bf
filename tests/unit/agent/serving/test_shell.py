"""What reaches the brain, and what becomes of its instructions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from nats.aio.client import Client
from tests.kit.registrations import SigningClient
from tests.kit.waiting import eventually

from mangrove.agent.serving import shell as shell_module
from mangrove.agent.serving.broker_watch import BrokerWatch
from mangrove.agent.serving.lease import Lease
from mangrove.agent.serving.lease_keys import LeaseKeys
from mangrove.agent.serving.outbox import MAX_MESSAGE_BYTES
from mangrove.agent.serving.shell import Shell
from mangrove.agent.serving.store_writer import StoreWriter
from mangrove.control.instructions import (
    AnswerRegistration,
    Instruction,
    KickClient,
    LimitGateway,
    LookAtClients,
    PushDirectory,
    StepDown,
    Store,
    TellClient,
    TellMembers,
    TellPeer,
)
from mangrove.control.stimuli import (
    CapacityChanged,
    ClientRegistered,
    ClientSaid,
    GatewayAnswered,
    LeadershipLost,
    LeadershipTaken,
    MemberSaid,
    PeerSaid,
    Stimulus,
    TopicsCounted,
)
from mangrove.host.event_file import EventFile
from mangrove.model.agents.directory import (
    DirectoryAnswer,
    DirectoryChanges,
    DirectoryQuestion,
    DirectoryRecord,
    ServedTopic,
)
from mangrove.model.agents.load import BrokerLoad, LoadState
from mangrove.model.agents.members import LeaseChanged, MemberBeat
from mangrove.model.agents.peers import PeerRegister, SessionEnded
from mangrove.model.agents.registration import Assignment, Order, RegisterAgain, Registered
from mangrove.model.agents.status import AgentStatus
from mangrove.model.agents.usefulness import CapacityTaken, CapacityTold, GatewayLimited, GatewayLimits
from mangrove.model.events.event_log import Event

TERM = 7


class ScriptedBrain:
    """Remembers what it was told, and says what a test put into its mouth."""

    def __init__(self) -> None:
        self.told: list[Stimulus] = []
        self.next: list[Instruction] = []
        self.records: tuple[DirectoryRecord, ...] = ()

    def handle(self, stimulus: Stimulus, now: float) -> Sequence[Instruction]:
        self.told.append(stimulus)
        if isinstance(stimulus, ClientRegistered):
            return [AnswerRegistration(stimulus.token, Registered(term=TERM, records=self.records))]
        said, self.next = self.next, []
        return said

    def handle_timer(self, now: float) -> Sequence[Instruction]:
        return []

    def timer(self) -> float:
        return float("inf")

    def status(self, now: float) -> AgentStatus:
        load = BrokerLoad(broker="here-edge1", role="edge", state=LoadState.HIGH, measured=LoadState.HIGH)
        return AgentStatus(
            domain="here", agent="a", term=TERM, leads=True, uptime_s=1.0, brokers=(load,), refused={"x": 2}
        )

    def capacity_problem(self, told: CapacityTold) -> str:
        return "" if told.broker == "here-edge1" else "no such broker"

    def directory_page(self, question: DirectoryQuestion, now: float) -> DirectoryAnswer:
        topics = tuple(ServedTopic(topic="t" * 2_000) for _ in range(question.limit))
        return DirectoryAnswer(domain="here", term=TERM, topics=topics, more=True)

    def take_events(self) -> list[Event]:
        return []


class Setting:
    """A shell that leads, with its outbox in reach."""

    def __init__(self) -> None:
        self.brain = ScriptedBrain()
        self.keys = LeaseKeys("here")
        self.lease = SimpleNamespace(held=True, term=TERM, leader="a")
        self.jobs: list[object] = []
        self.watch = SimpleNamespace(
            broker="here-edge1",
            curious=False,
            look_at_clients=lambda: self.jobs.append("look"),
            kick=self._kick,
        )
        self.writer = SimpleNamespace(problem="", put=self.jobs.append)
        self.shell = Shell("here", self.brain, self.keys, EventFile(None), neighbours=["there"])
        self.shell.begin(
            cast(Lease, self.lease), cast(StoreWriter, self.writer), [cast(BrokerWatch, self.watch)]
        )
        self.shell.tell(LeadershipTaken(TERM))

    def _kick(self, cid: int) -> bool:
        self.jobs.append(cid)
        return True

    def sent(self) -> list[tuple[str, bytes]]:
        waiting = self.shell.outbox._waiting
        return [waiting.get_nowait()[:2] for _ in range(waiting.qsize())]

    def register(self, client: SigningClient) -> Registered:
        self.shell.heard_registration(client.signed(client.registration("a.>")), "_INBOX.1")
        [(subject, payload)] = self.sent()
        assert subject == "_INBOX.1"
        answer = msgspec.json.decode(payload, type=Registered)
        if not answer.problem:
            client.share(answer.exchange_key)
        return answer


@pytest.fixture
async def setting() -> Setting:
    return Setting()


async def test_a_registration_is_answered_with_a_key_and_reports_follow(setting: Setting) -> None:
    client = SigningClient()
    assert setting.register(client).exchange_key == setting.keys.exchange_key
    report = client.report(plant=(5, 500))
    setting.shell.heard_report(client.sealed(report))
    assert setting.brain.told[-1] == ClientSaid(report)


async def test_forged_messages_never_reach_the_brain_and_are_counted(setting: Setting) -> None:
    client, thief = SigningClient(), SigningClient()
    setting.register(client)
    before = list(setting.brain.told)
    thief.key, thief.client = b"k" * 32, client.client
    setting.shell.heard_report(thief.sealed(client.report()))
    setting.shell.heard_report(SigningClient().sealed(SigningClient().report()))
    setting.shell.heard_report(b"nonsense")
    setting.shell.heard_registration(thief.signed(client.registration()), "_INBOX.2")
    assert setting.brain.told == before
    assert sum(setting.shell.status().refused.values()) == 2 + 4
    reminded = [msgspec.json.decode(payload) for _, payload in setting.sent()]
    assert {"type": "register-again", "term": TERM} in reminded
    assert any("refused" in answer.get("problem", "") for answer in reminded)


async def test_who_is_unknown_is_told_so_once_a_second_and_never_on_a_wild_subject(setting: Setting) -> None:
    stranger = SigningClient()
    stranger.key = b"k" * 32
    for _ in range(5):
        setting.shell.heard_report(stranger.sealed(stranger.report()))
    [(subject, payload)] = setting.sent()
    assert subject == f"mangrove.here.client.{stranger.client}"
    assert msgspec.json.decode(payload, type=RegisterAgain) == RegisterAgain(term=TERM)
    stranger.client = "x.>"
    setting.shell.heard_report(stranger.sealed(stranger.report()))
    assert setting.sent() == []


async def test_an_agent_whose_lease_has_ended_does_nothing_more(setting: Setting) -> None:
    client = SigningClient()
    setting.register(client)
    setting.lease.held = False
    setting.shell.heard_report(client.sealed(client.report()))
    setting.shell.heard_peer("there", msgspec.json.encode(PeerRegister(epoch=1, accepts=True)))
    setting.shell.heard_registration(client.signed(client.registration()), "_INBOX.3")
    assert not any(isinstance(each, ClientSaid | PeerSaid) for each in setting.brain.told)
    assert setting.sent() == []
    setting.shell.tell(LeadershipLost())
    assert setting.brain.told[-2:] == [LeadershipLost(), LeadershipLost()], "the end comes first"
    assert not setting.shell.status().leads


async def test_a_lease_that_was_lost_and_taken_again_is_another(setting: Setting) -> None:
    setting.lease.term = TERM + 1
    assert not setting.shell.leads, "what the brain knows is of the term before"
    setting.shell.tell(LeadershipTaken(TERM + 1))
    assert setting.brain.told[-2:] == [LeadershipLost(), LeadershipTaken(TERM + 1)]
    assert setting.shell.leads


async def test_only_linked_domains_are_listened_to(setting: Setting) -> None:
    message = PeerRegister(epoch=1, accepts=True)
    setting.shell.heard_peer("there", msgspec.json.encode(message))
    assert setting.brain.told[-1] == PeerSaid("there", message)
    setting.shell.heard_peer("elsewhere", msgspec.json.encode(message))
    setting.shell.heard_peer("there", b"{}")
    setting.shell.heard_peer("there", b"x" * (1 << 20))
    assert setting.brain.told[-1] == PeerSaid("there", message)
    assert sum(setting.shell.refused.values()) == 3


async def test_instructions_are_carried_out_in_their_order(setting: Setting) -> None:
    order = Order(term=TERM, session="s", key="k", to=Assignment(broker="b", url="u", epoch=1))
    records = tuple(DirectoryRecord(topic=f"t.{number}", domain="here", epoch=1) for number in range(4_500))
    store = Store(1, ())
    setting.brain.next = [
        PushDirectory(DirectoryChanges(term=TERM, records=records)),
        TellClient("c", order),
        TellPeer("there", SessionEnded(session="s")),
        store,
        LookAtClients("here-edge1"),
        KickClient("here-edge1", 12, "overload"),
        LookAtClients("nowhere"),
        KickClient("nowhere", 1, "overload"),
    ]
    setting.shell.tell(LeadershipTaken(TERM))
    sent = setting.sent()
    assert [subject for subject, _ in sent] == [
        *["mangrove.here.directory"] * 3,
        "mangrove.here.client.c",
        "mangrove.here.peers.to.there",
    ]
    pushed = [msgspec.json.decode(payload, type=DirectoryChanges).records for _, payload in sent[:3]]
    assert tuple(record for part in pushed for record in part) == records
    assert setting.jobs == [store, "look", 12]
    assert setting.shell.refused.total() == 1


async def test_answers_fit_into_messages(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    page = setting.shell.directory_page(msgspec.json.encode(DirectoryQuestion(limit=5_000)))
    assert page is not None
    answer = msgspec.json.decode(page, type=DirectoryAnswer)
    assert len(page) <= MAX_MESSAGE_BYTES
    assert len(answer.topics) == 250
    assert answer.more
    assert setting.shell.directory_page(b"?") is None
    setting.brain.records = (DirectoryRecord(topic="t", domain="here", epoch=1),) * 3
    assert len(setting.register(SigningClient()).records) == 3
    monkeypatch.setattr(shell_module, "MAX_MESSAGE_BYTES", 300)
    assert setting.register(SigningClient()).records == ()
    monkeypatch.setattr(shell_module, "MAX_MESSAGE_BYTES", 10)
    assert "in parts" in setting.register(SigningClient()).problem


async def test_a_broker_under_load_is_asked_for_what_waits_there(setting: Setting) -> None:
    setting.shell.status()
    assert setting.watch.curious


async def test_what_waited_too_long_is_not_said_by_an_agent_that_leads_no_more(setting: Setting) -> None:
    said: list[str] = []

    async def publish(subject: str, _payload: bytes) -> None:
        said.append(subject)

    outbox = setting.shell.outbox
    outbox.put("mangrove.here.client.c", b"move")
    outbox.put("_INBOX.1", b"status", as_leader=False)
    setting.lease.held = False
    connection = cast(Client, SimpleNamespace(publish=publish))
    task = asyncio.create_task(outbox.run(connection, lambda: setting.shell.leads))

    async def done() -> bool:
        return said == ["_INBOX.1"]

    await eventually(done, "questions are answered, orders are not given")
    task.cancel()
    assert setting.shell.refused["not sent: this agent does not lead any more"] == 1


async def test_the_outbox_is_bounded(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    setting.shell.outbox._waiting = asyncio.Queue(2)
    for _ in range(5):
        setting.brain.next = [TellPeer("there", SessionEnded(session="s"))]
        setting.shell.tell(LeadershipTaken(TERM))
    assert setting.shell.refused["not sent: too many waited"] == 3
    monkeypatch.setattr(shell_module, "MAX_PEER_MESSAGE_BYTES", 10)
    setting.brain.next = [TellPeer("there", SessionEnded(session="s"))]
    setting.shell.tell(LeadershipTaken(TERM))
    assert setting.shell.refused["not sent: too large for a neighbour"] == 1


async def test_an_operator_is_told_what_is_wrong_with_a_capacity_and_the_brain_only_of_what_is_right(
    setting: Setting,
) -> None:
    def answer(data: bytes) -> CapacityTaken:
        return msgspec.json.decode(setting.shell.told_capacity(data), type=CapacityTaken)

    told = CapacityTold(broker="here-edge1", bandwidth=0.3)
    assert answer(msgspec.json.encode(told)) == CapacityTaken()
    assert setting.brain.told[-1] == CapacityChanged(told)
    assert answer(msgspec.json.encode(CapacityTold(broker="x"))).problem == "no such broker"
    assert "cannot be read" in answer(b'{"broker": 5}').problem
    assert setting.brain.told[-1] == CapacityChanged(told)


async def test_limits_for_the_gateway_wait_for_nobody_and_only_the_latest_count(setting: Setting) -> None:
    for epoch in (1, 2):
        setting.brain.next = [LimitGateway(GatewayLimits(term=TERM, epoch=epoch))]
        setting.shell.tell(TopicsCounted(span_s=1.0, sent={}, delivered={}))
    asked: list[GatewayLimits] = []

    async def request(subject: str, payload: bytes, timeout: float) -> SimpleNamespace:
        asked.append(msgspec.json.decode(payload, type=GatewayLimits))
        return SimpleNamespace(data=msgspec.json.encode(GatewayLimited(epoch=asked[-1].epoch)))

    connection = cast(Client, SimpleNamespace(request=request))
    task = asyncio.create_task(setting.shell.gateway.run(connection, lambda: True))

    async def answered() -> bool:
        return any(isinstance(told, GatewayAnswered) for told in setting.brain.told)

    await eventually(answered, "the brain is told what the gateway answered")
    task.cancel()
    assert [limits.epoch for limits in asked] == [2]


async def test_other_agents_are_heard_under_their_own_names_alone(setting: Setting) -> None:
    looked: list[str] = []
    setting.lease.look = lambda: looked.append("look")
    beat = MemberBeat(agent="here-h2-agent", life=1, sequence=1, score=1.0)
    changed = msgspec.json.encode(LeaseChanged(agent="here-h2-agent", revision=5))
    setting.shell.heard_member("here-h2-agent", msgspec.json.encode(beat))
    assert setting.brain.told[-1] == MemberSaid(beat)
    before = len(setting.brain.told)
    setting.shell.heard_member("here-h3-agent", msgspec.json.encode(beat))
    setting.shell.heard_member("here-h2-agent", b"nonsense")
    setting.shell.heard_member("here-h2-agent", b" " * 20_000)
    setting.shell.heard_member("here-h2-agent", changed)
    assert (len(setting.brain.told), looked) == (before, []), "who leads need not look at its own lease"
    assert sum(setting.shell.refused.values()) == 3
    setting.lease.held = False
    setting.shell.heard_member("here-h2-agent", changed)
    assert looked == ["look"]


async def test_what_agents_say_to_each_other_and_of_the_lease_leaves_them(setting: Setting) -> None:
    down: list[str] = []
    setting.lease.step_down = down.append
    beat = MemberBeat(agent="here-agent", life=1, sequence=1, score=1.0)
    setting.brain.next = [TellMembers(beat), StepDown("here-h2-agent")]
    setting.shell.tell(TopicsCounted(span_s=1.0, sent={}, delivered={}))
    assert setting.sent() == [("mangrove.here.members.here-agent", msgspec.json.encode(beat))]
    assert down == ["here-h2-agent"]


async def test_a_client_of_a_user_is_spoken_to_under_the_users_name(setting: Setting) -> None:
    client, stranger = SigningClient(), SigningClient()
    setting.shell.heard_registration(client.signed(client.registration("plant.>")), "_INBOX.1", "pump")
    setting.sent()
    order = RegisterAgain(term=TERM)
    setting.brain.next = [TellClient(client.client, order)]
    setting.shell.tell(LeadershipTaken(TERM, (), ()))
    [(subject, _)] = setting.sent()
    assert subject == f"mangrove.here.to.pump.client.{client.client}"
    stranger.key = b"k" * 32
    setting.shell.heard_report(stranger.sealed(stranger.report()), "valve")
    [(subject, _)] = setting.sent()
    assert subject == f"mangrove.here.to.valve.client.{stranger.client}"
