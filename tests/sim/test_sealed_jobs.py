"""Confidential topics in virtual time: engines that seal, gateways in between that cannot look inside."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace
from tests.kit.sealing import domains

from mangrove.gateway.sealing.refusal import UnopenedError
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import DeliverMessages, DropMessages, Instruction, RetargetMessages
from mangrove.overlay.sealing.sealed_body import is_sealed
from mangrove.overlay.sealing.sealer import BlankSealer
from mangrove.overlay.stimuli.recorded_engine import Record
from mangrove.overlay.stimuli.replay import replay
from mangrove.overlay.stimuli.stimulus import FrameTurned, Stimulus
from mangrove.simulation.forging.keys import SimulatedAuthority
from mangrove.simulation.overlay_jobs import SimulatedJobs

RULES = TopicRules((Contract(match="job.>", confidential=True, paths=2), Contract(match="bulk.>")))


def shape(*links: tuple[str, str, float]) -> Federation:
    names = sorted({name for first, second, _ in links for name in (first, second)})
    return Federation(
        name="sealed",
        domains={name: Domain(name=name, base_port=1) for name in names},
        links=tuple(Link(between=(first, second), delay_ms=delay) for first, second, delay in links),
        topics=RULES,
    )


LINE = shape(("a", "b", 5), ("b", "c", 5), ("c", "d", 5), ("b", "e", 30))
SQUARE = shape(("a", "b", 5), ("b", "c", 5), ("a", "d", 6), ("d", "c", 6))


class SealedJobs(SimulatedJobs):
    """The shell of each engine seals and opens, as a gateway does."""

    def __init__(
        self,
        federation: Federation,
        seed: int,
        *,
        record: dict[str, Record] | None = None,
        authority: SimulatedAuthority | None = None,
    ) -> None:
        self.sites = domains(*federation.domain_order, federation=federation.name)
        self.turned_back: Counter[str] = Counter()
        super().__init__(federation, seed, record=record, authority=authority)

    def _engine(self, name: str) -> OverlayEngine:
        engine = super()._engine(name)
        engine.seal_with(self.sites[name].sealer)
        return engine

    def _carry_out(self, name: str, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case DeliverMessages(frame) if is_sealed(frame.body):
                    opened = replace(frame, body=self.sites[name].opener.open(frame))
                    super()._carry_out(name, [DeliverMessages(opened)])
                case RetargetMessages(frame) if is_sealed(frame.body):
                    try:
                        body = self.sites[name].opener.look_into(frame)
                    except UnopenedError:
                        self.turned_back[name] += 1
                        self._carry_out(name, self.engines[name].turn_back(frame, self.now))
                        continue
                    if not self._retarget(name, body, frame.destinations, frame.hop_limit):
                        self._carry_out(name, self.engines[name].wait(frame, self.now))
                case _:
                    super()._carry_out(name, [instruction])


def network(
    federation: Federation, *members: str, record: dict[str, Record] | None = None, signed: bool = False
) -> SealedJobs:
    authority = SimulatedAuthority(sorted(federation.domains), 3) if signed else None
    net = SealedJobs(federation, 3, record=record, authority=authority)
    for name in members:
        net.join(name, "job.*", "workers")
    net.run(3.0)
    return net


def send(net: SealedJobs, name: str, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        net.send_job(name, "job.1", b"%d" % number)
        net.run(net.now + 0.001)


def test_sealed_frames_take_all_paths_and_are_delivered_once() -> None:
    net = SealedJobs(SQUARE, 3)
    net.subscribe("c", "job.*")
    net.run(3.0)
    assert len(net.engines["a"].active_paths(0, "c")) == 2
    for number in range(50):
        net.send_job("a", "job.1", b"%d" % number)
        net.run(net.now + 0.001)
        if number == 25:
            net.crash("b", silent=True)
    net.run(net.now + 2)
    assert len(net.served) == net.served.total() == 50
    assert net.engines["c"].status(net.now).duplicates > 0, "the second copies came, and were not opened"
    net.validate()


def test_one_who_has_no_sealer_lets_nothing_confidential_out() -> None:
    engine = OverlayEngine(LINE, "a", 1)
    flow = engine.route_reply("c")
    assert flow is not None
    flow.take(b"reply")
    (dropped,) = engine.flush(1.0)
    assert isinstance(dropped, DropMessages)
    assert dropped.reason == "confidential, and this gateway has no keys to seal it with"


@pytest.mark.parametrize(("silent", "signed"), [(False, False), (True, False), (False, True), (True, True)])
def test_jobs_for_a_dead_domain_are_turned_back_and_served_by_another(silent: bool, signed: bool) -> None:
    net = network(LINE, "c", "e", signed=signed)
    send(net, "a", 300)
    net.crash("c", silent=silent)
    send(net, "a", 600, first=300)
    net.run(net.now + 2)
    assert net.turned_back["b"] > 0, "b cannot sort them anew"
    assert len({payload for _, _, payload in net.served}) == 900, "nothing is lost"
    assert (net.dropped, net.lost) == ({}, {})
    assert net.served.total() - 900 <= net.sent_on, "what was served twice was counted"
    net.validate()


def test_members_that_leave_are_replaced_where_the_body_was_opened() -> None:
    net = network(LINE, "c", "d")
    send(net, "a", 100)
    net.leave("c", "job.*", "workers")
    send(net, "a", 100, first=100)
    net.run(net.now + 1)
    assert len(net.served) == net.served.total() == 200
    assert net.sent_on > 0
    assert not net.turned_back


def test_a_turned_back_frame_is_sorted_anew_once() -> None:
    net = network(LINE, "c", "e")
    found: list[RetargetMessages] = []
    engine = net.engines["a"]
    (route,) = engine.route("job.1")
    route.flow.take(b"LMSG job.1 | workers 1\r\nx\r\n")
    engine.flush(net.now)
    frame = engine.pull("b", net.now)
    assert frame is not None
    back = frame.onward(engine.own_bit, 0, 1)
    for _ in range(3):
        found += [each for each in engine.receive("b", back, net.now) if isinstance(each, RetargetMessages)]
    assert [each.frame.destinations for each in found] == [route.flow.destinations]
    for changes in ({"epoch": back.epoch - 1}, {"sequence": 99}, {"flow_id": 99}, {"topic_class": 1}):
        refused = engine.receive("b", replace(back, **changes), net.now)
        assert not any(isinstance(each, RetargetMessages) for each in refused)
    earlier = replace(back, epoch=back.epoch - 1)
    assert [
        each.reason for each in engine.receive("b", earlier, net.now) if isinstance(each, DropMessages)
    ] == ["turned back to an origin that does not know it any more"]


def test_recordings_of_gateways_that_seal_and_turn_back_replay_without_keys() -> None:
    told: dict[str, list[tuple[Stimulus, int]]] = {"a": [], "b": []}
    record: dict[str, Record] = {name: lambda *each, to=told[name]: to.append(each) for name in told}
    net = network(LINE, "c", "e", record=record)
    engines = {name: net.engines[name] for name in told}
    send(net, "a", 50)
    net.crash("c", silent=True)
    net.reset("b", "c")
    send(net, "a", 50, first=50)
    net.run(net.now + 1)
    assert any(isinstance(stimulus, FrameTurned) for stimulus, _ in told["b"])
    for name, recorded in told.items():
        again = OverlayEngine(LINE, name, engines[name].epoch)
        again.seal_with(BlankSealer())
        assert replay(again, recorded).identical
