"""One domain: its agent, which may die at any step and return, its store, its brokers and its clients."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from mangrove.control.brain import AgentBrain
from mangrove.control.instructions import (
    Announce,
    AnswerRegistration,
    Instruction,
    LookAtClients,
    Store,
    TellClient,
    TellPeer,
)
from mangrove.control.stimuli import (
    BrokerSampled,
    BrokerUnreachable,
    CapacityChanged,
    ClientRegistered,
    LeadershipTaken,
    PeerSaid,
    PlainClientsSeen,
    Stimulus,
    TopicsCounted,
)
from mangrove.model.agents.peers import PeerMessage
from mangrove.model.agents.registration import Registration
from mangrove.model.agents.usefulness import CapacityTold
from mangrove.model.events.event_log import Event
from mangrove.model.federation import Federation
from mangrove.simulation.agents.virtual.brokers import Traffic
from mangrove.simulation.agents.virtual.clients import VirtualClient
from mangrove.simulation.agents.virtual.store import VirtualStore
from mangrove.simulation.agents.virtual.world import World

COUNTS_S = 5.0
OPERATOR_S = 2.0
"""A word of the operator's is repeated so often: an agent may have died before it was stored."""
CLOCK_SHIFT_S = 1.7e9


class VirtualDomain:
    """Carries out what the brain wants done."""

    def __init__(
        self,
        name: str,
        federation: Federation,
        world: World,
        traffic: Traffic,
        clients: dict[str, VirtualClient],
        tell_peer: Callable[[str, str, PeerMessage], None],
    ) -> None:
        """`clients` are all of the federation; `tell_peer` takes sender, receiver and message."""
        self.name = name
        self.store = VirtualStore(world)
        self.brain: AgentBrain | None = None
        self.events: list[Event] = []
        self.deaths = 0
        self.led_since = 0.0
        """When the agent that leads took the lead."""
        self.die_after: int | None = None
        """So many instructions from now on, the agent dies."""
        self.on_events: Callable[[VirtualDomain, list[Event]], None] = lambda _domain, _events: None
        self._federation = federation
        self._world = world
        self._traffic = traffic
        self._clients = clients
        self._tell_peer = tell_peer
        self._asked: dict[int, Registration] = {}
        self._tokens = 0
        self._lives = 0
        self._wake_at = math.inf
        self._operator: dict[str, CapacityTold] = {}
        self._brokers = [each for each in traffic.brokers.values() if each.domain == name]

    # -- life -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """An agent takes the lead, if the store lets it."""
        if self.brain is not None:
            return
        if self.store.away:
            self._world.after(1.0, self.start)
            return
        self._lives += 1
        self.led_since = self._world.now
        self.store.term += 1
        self.brain = AgentBrain(
            self._federation,
            self.name,
            f"{self.name}-agent",
            seed=self._lives,
            clock_shift_s=CLOCK_SHIFT_S,
            events_before=len(self.events),
        )
        self._wake_at = math.inf
        taken = LeadershipTaken(
            term=self.store.term, directory=self.store.directory(), sessions=self.store.sessions()
        )
        life = self._lives
        self.tell(taken)
        self._sample(life)
        self._count(life)

    def die(self, back_after_s: float) -> None:
        """The agent is killed; another takes over after a while."""
        if self.brain is not None:
            self.brain = None
            self.deaths += 1
            self.die_after = None
            self._world.after(back_after_s, self.start)

    # -- in and out -----------------------------------------------------------------------------------------

    def tell(self, stimulus: Stimulus) -> None:
        """Tell the agent something; a dead one hears nothing."""
        if self.brain is None:
            return
        if isinstance(stimulus, ClientRegistered):
            self._tokens += 1
            self._asked[self._tokens] = stimulus.registration
            stimulus = ClientRegistered(stimulus.registration, self._tokens)
        self._carry_out(self.brain, self.brain.handle(stimulus, self._world.now))

    def _wake(self, life: int, at: float) -> None:
        if self.brain is None or life != self._lives or at != self._wake_at:
            return
        self._wake_at = math.inf
        self._carry_out(self.brain, self.brain.handle_timer(self._world.now))

    def _carry_out(self, brain: AgentBrain, told: list[Instruction]) -> None:
        events = brain.take_events()
        self.events += events
        self.on_events(self, events)
        for instruction in told:
            if self.die_after is not None:
                self.die_after -= 1
                if self.die_after < 0:
                    self.die(self._world.random.uniform(0.5, 8.0))
                    return
            self._do(instruction)
        at = max(brain.timer(), self._world.now)
        if at < self._wake_at:
            self._wake_at = at
            life = self._lives
            self._world.at(at, lambda: self._wake(life, at))

    def _do(self, instruction: Instruction) -> None:
        life = self._lives
        match instruction:
            case Store():
                self.store.write(instruction, lambda outcome: self._if_alive(life, outcome))
            case AnswerRegistration(token=token, answer=answer):
                asked = self._asked.pop(token)
                asking = self._clients[asked.client]
                self._world.send(lambda: asking.answered(self.name, asked.sequence, answer))
            case TellClient(client=name, order=order):
                client = self._clients.get(name)
                if client is not None:
                    self._world.send(lambda: client.ordered(self.name, order))
            case Announce(announcement=announcement):
                for each in self._clients.values():
                    hear = partial(each.announced, self.name, announcement.term, announcement.spread_s)
                    self._world.send(hear)
            case TellPeer(peer=peer, message=message):
                self._world.send(lambda: self._tell_peer(self.name, peer, message))
            case LookAtClients(broker=broker):
                self._if_alive(life, PlainClientsSeen(broker, ()))
            case _:
                pass

    def _if_alive(self, life: int, stimulus: Stimulus) -> None:
        if life == self._lives:
            self.tell(stimulus)

    def operator_says(self, told: CapacityTold) -> None:
        """Somebody says what a broker can carry, again and again until an agent hears it and writes it down.

        A later word on the same broker replaces an earlier one.
        """
        self._operator[told.broker] = told
        self._world.after(0.0, lambda: self._say_capacity(told))

    def _say_capacity(self, told: CapacityTold) -> None:
        if self._operator.get(told.broker) is not told:
            return
        self.tell(CapacityChanged(told))
        self._world.after(OPERATOR_S, lambda: self._say_capacity(told))

    def tell_from(self, peer: str, message: PeerMessage) -> None:
        """Another domain's agent has said something."""
        self.tell(PeerSaid(peer, message))

    # -- what the shell does again and again ----------------------------------------------------------------

    def _sample(self, life: int) -> None:
        if self.brain is None or life != self._lives:
            return
        for broker in self._brokers:
            if broker.reachable:
                self.tell(BrokerSampled(broker.sample(self._world.now)))
            else:
                self.tell(BrokerUnreachable(broker.name, "it does not answer"))
        self._world.after(self._federation.balancing.period_s, lambda: self._sample(life))

    def _count(self, life: int) -> None:
        if self.brain is None or life != self._lives:
            return
        sent = {
            topic: 1
            for topic, home in self._traffic.published_in.items()
            if home == self.name and self._traffic.wanted_outside(topic)
        }
        self.tell(TopicsCounted(span_s=COUNTS_S, sent=sent, delivered={}))
        self._world.after(COUNTS_S, lambda: self._count(life))
