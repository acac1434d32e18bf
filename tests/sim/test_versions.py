"""Versions of the federation document between production engines in virtual time."""

from __future__ import annotations

import gc
import tracemalloc

import msgspec
import pytest

from mangrove.errors import InputError
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.topics import Contract, Order, Scope, TopicRules
from mangrove.model.versions.changes import ChangeState
from mangrove.model.versions.document import WrittenDocument, first_document
from mangrove.model.versions.kept import KeptVersions
from mangrove.model.versions.network import network_of
from mangrove.model.versions.succession import successor
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import CloseLink, SendFrame
from mangrove.overlay.protocol.control_messages import control_body, control_frame
from mangrove.overlay.protocol.frames import Frame, FrameError, FrameType
from mangrove.overlay.stimuli.replay import replay
from mangrove.overlay.trust.trust import KeyTrust
from mangrove.overlay.versions.messages import VersionNotice, VersionText
from mangrove.simulation.forging.keys import SimulatedAuthority
from mangrove.simulation.overlay_network import SimulatedOverlay

ALERT = Contract(match="alert.>", deadline_ms=500)
NAMES = ("a", "b", "c", "d")


def ring(*contracts: Contract) -> Federation:
    return Federation(
        name="ring",
        domains={name: Domain(name=name, base_port=1) for name in NAMES},
        links=tuple(
            Link(between=(one, other), delay_ms=5.0)
            for one, other in zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True)
        ),
        topics=TopicRules(contracts),
    )


def running(*contracts: Contract, authority: SimulatedAuthority | None = None) -> SimulatedOverlay:
    net = SimulatedOverlay(ring(*contracts), 1, authority=authority)
    net.run(1.0)
    return net


def version(net: SimulatedOverlay, name: str, *contracts: Contract) -> WrittenDocument:
    text = successor(net.engines[name].document, contracts, by="me", at="").text()
    return WrittenDocument(text=text, signature=b"" if net.authority is None else net.authority.approve(text))


def leaves_and_joins(net: SimulatedOverlay, name: str, between_s: float) -> None:
    """A domain is taken out, and made a member again under its name."""
    before = network_of(net.engines["a"].federation)
    for network in (before.without(name), before):
        document = net.engines["a"].document
        after = successor(document, document.topics.contracts, by="me", at="", network=network)
        net.propose("a", WrittenDocument(text=after.text()))
        net.run(net.now + between_s)


def versions(net: SimulatedOverlay) -> dict[str, int]:
    return {name: engine.document.version for name, engine in net.engines.items()}


def test_a_change_is_in_force_everywhere_after_some_round_trips_and_is_told() -> None:
    net = running(ALERT)
    written = version(net, "a", ALERT, Contract(match="new.>"))
    net.propose("a", written)
    net.run(net.now + 0.2)
    assert versions(net) == dict.fromkeys(NAMES, 2)
    change = net.engines["a"].change(written.digest)
    assert change is not None
    assert change.state is ChangeState.IN_FORCE
    assert net.engines["c"].versions_in_force() == dict.fromkeys(NAMES, 2)
    told = [event.happening.sentence() for event in net.engines["c"].recent_events()]
    assert any("version 2 of me is in force, after 1: contracts: 1 new" in each for each in told)
    net.validate()


def test_messages_in_between_arrive_once_and_in_order_whether_their_contract_changes_or_not() -> None:
    net = running(ALERT)
    net.subscribe("c", "alert.>", "other.>")
    net.run(net.now + 0.5)
    contracts = [
        (msgspec.structs.replace(ALERT, deadline_ms=100),),
        (msgspec.structs.replace(ALERT, deadline_ms=100, paths=2), Contract(match="other.x", paths=2)),
        (Contract(match="x"), ALERT),
        (),
        (Contract(match=">", deadline_ms=900, order=Order.PUBLISHER),),
    ]
    sent = 0
    for number, each in enumerate(contracts):
        net.propose(NAMES[number % 4], version(net, NAMES[number % 4], *each))
        for _ in range(100):
            for subject in ("alert.x", "other.x", "other.y"):
                net.publish("a", subject, b"%b %d" % (subject.encode(), sent))
            sent += 1
            net.run(net.now + 0.002)
        net.validate()
    net.run(net.now + 1.0)
    assert versions(net) == dict.fromkeys(NAMES, 1 + len(contracts))
    assert not net.duplicates
    assert not net.dropped
    for told in (b"alert.x", b"other.x", b"other.y"):
        numbers = [int(body.split()[1]) for _, body in net.delivered if body.startswith(told + b" ")]
        assert numbers == list(range(sent)), told


def test_a_topic_may_be_told_to_stay_at_home_and_to_travel_again() -> None:
    net = running(ALERT)
    net.subscribe("c", "alert.x")
    net.run(net.now + 0.5)
    assert net.publish("a", "alert.x", b"1")
    home = msgspec.structs.replace(ALERT, scope=Scope.DOMAIN)
    net.propose("b", version(net, "b", home))
    net.run(net.now + 0.5)
    assert not net.publish("a", "alert.x", b"2")
    assert not net.engines["a"].wanted_elsewhere(), "what cannot come is not asked for"
    net.propose("b", version(net, "b", ALERT))
    net.run(net.now + 0.5)
    assert net.publish("a", "alert.x", b"3")
    net.run(net.now + 0.5)
    assert [body for _, body in net.delivered] == [b"1", b"3"]
    net.validate()


def test_one_that_was_cut_off_or_started_again_catches_up_before_it_hears_anything_else() -> None:
    net = running(ALERT)
    net.subscribe("c", "new.>")
    for peer in ("b", "d"):
        net.black_hole("c", peer, True)
    net.run(net.now + 3.0)
    net.propose("a", version(net, "a", ALERT, Contract(match="new.>", paths=2)))
    net.run(net.now + 1.0)
    assert versions(net) == {"a": 2, "b": 2, "c": 1, "d": 2}
    net.crash("b", silent=False)
    net.run(net.now + 0.2)
    net.start("b")
    assert net.engines["b"].document.version == 2, "it is on its disk"
    for peer in ("b", "d"):
        net.black_hole("c", peer, False)
    net.run(net.now + 3.0)
    assert versions(net) == dict.fromkeys(NAMES, 2)
    assert net.publish("a", "new.x", b"1")
    net.run(net.now + 1.0)
    assert net.delivered == {("c", b"1"): 1}
    net.validate()


def test_with_keys_only_what_the_authority_has_signed_is_put_in_force() -> None:
    net = running(ALERT, authority=SimulatedAuthority(list(NAMES), 1))
    good = version(net, "a", ALERT, Contract(match="new.>"))
    with pytest.raises(InputError, match="no authority has signed it"):
        net.propose("a", WrittenDocument(text=good.text))
    net.propose("a", good)
    net.run(net.now + 0.5)
    assert versions(net) == dict.fromkeys(NAMES, 2)
    net.renew_keys("b")
    net.crash("d", silent=False)
    net.run(net.now + 0.5)
    net.disks.pop("d")
    net.start("d")
    net.run(net.now + 2.0)
    assert versions(net) == dict.fromkeys(NAMES, 2)
    net.validate()


def test_what_a_gateway_was_told_of_versions_can_be_replayed() -> None:
    stimuli: list[tuple[object, int]] = []
    authority = SimulatedAuthority(list(NAMES), 1)
    net = SimulatedOverlay(
        ring(ALERT), 1, authority=authority, record={"b": lambda *each: stimuli.append(each)}
    )
    net.run(1.0)
    net.subscribe("c", "alert.>")
    net.propose("b", version(net, "b", ALERT, Contract(match="new.>")))
    net.run(net.now + 0.5)
    net.propose("a", version(net, "a", Contract(match="new.>")))
    net.publish("a", "alert.x", b"1")
    net.run(net.now + 0.5)
    assert net.engines["b"].document.version == 3
    from mangrove.overlay.engine import OverlayEngine
    from mangrove.overlay.trust.recorded_trust import RecordedTrust

    engine = OverlayEngine(net.federation, "b", net.engines["b"].epoch, trust=RecordedTrust())
    found = replay(engine, stimuli)  # type: ignore[arg-type]
    assert found.identical, found.differences
    assert engine.document == net.engines["b"].document


@pytest.mark.parametrize("away", [True, False])
def test_a_gateway_whose_number_is_retired_serves_no_more_until_it_starts_again(away: bool) -> None:
    """It was cut off meanwhile, and hears only that one of its name is a member; or it has heard it all."""
    net = running(ALERT)
    net.subscribe("a", "alert.a")
    net.subscribe("c", "alert.c")
    net.run(net.now + 0.5)
    for peer in ("b", "d") if away else ():
        net.black_hole("c", peer, True)
    net.run(net.now + 3.0)
    leaves_and_joins(net, "c", 4.0 if away else 0.5)
    assert net.engines["a"].document.domains == ("a", "b", "c~2", "d", "c")
    for peer in ("b", "d") if away else ():
        net.black_hole("c", peer, False)
    net.run(net.now + 5.0)
    assert versions(net) == dict.fromkeys(NAMES, 3)
    assert net.engines["c"].departed
    assert net.engines["a"].reachable_domains() == {"b", "d"}, "nobody sends there, or through there"
    with pytest.raises(FrameError, match=r"'c' has left the federation \(version 3 is in force"):
        net.engines["c"].greet(net.engines["b"].hello(), None)
    net.validate()
    net.crash("c", silent=False)
    net.run(net.now + 1.0)
    net.start("c")
    net.run(net.now + 3.0)
    assert net.engines["a"].reachable_domains() == {"b", "c", "d"}
    assert net.publish("a", "alert.c", b"1")
    assert net.publish("c", "alert.a", b"2")
    net.run(net.now + 1.0)
    assert net.delivered == {("c", b"1"): 1, ("a", b"2"): 1}
    net.validate()


def test_what_else_a_neighbour_said_in_the_breath_that_ended_the_link_is_not_answered() -> None:
    """One of a name that was given up and taken again comes back, and is told so in one buffer."""
    before = network_of(ring())
    away = successor(first_document(ring()), (), by="me", at="", network=before.without("a"))
    back = successor(away, (), by="me", at="", network=before)
    kept = KeptVersions(committed=WrittenDocument(text=back.text()))
    old, neighbour = OverlayEngine(ring(), "a", 10), OverlayEngine(ring(), "b", 11, kept=kept)
    neighbour.greet(old.hello(), None)
    old.greet(neighbour.hello(), "b")
    old.peer_up("b", 1.0)
    told = [each.frame for each in neighbour.peer_up("a", 1.0) if isinstance(each, SendFrame)]
    done = [each for frame in told for each in old.receive("b", frame, 1.01)]
    assert old.departed
    (closed,) = [number for number, each in enumerate(done) if isinstance(each, CloseLink)]
    assert not [each for each in done[closed:] if isinstance(each, SendFrame)]


def triangle() -> SimulatedOverlay:
    """The way from a to b is short, and disks take longer than it."""
    names = NAMES[:3]
    delays_ms = {("a", "b"): 5.0, ("b", "c"): 50.0, ("a", "c"): 50.0}
    federation = Federation(
        name="triangle",
        domains={name: Domain(name=name, base_port=1) for name in names},
        links=tuple(Link(between=pair, delay_ms=delay_ms) for pair, delay_ms in delays_ms.items()),
        topics=TopicRules((ALERT,)),
    )
    net = SimulatedOverlay(federation, 1)
    net.disk_s = 0.03
    net.run(1.0)
    return net


def test_a_decision_that_hangs_on_this_domain_is_on_disk_before_it_is_told() -> None:
    net = triangle()
    net.propose("a", version(net, "a", ALERT, Contract(match="one.>")))
    while net.engines["a"].document.version == 1:
        net.run(net.now + 0.001)
    assert versions(net) == {"a": 2, "b": 2, "c": 1}, "two are a quorum"
    for pair in net.links:
        net.black_hole(*pair, True)
    net.crash("b", silent=True)
    net.run(net.now + 3.0)
    net.start("b")
    net.black_hole("b", "c", False)
    net.run(net.now + 3.0)
    if versions(net) == {"a": 2, "b": 1, "c": 1}:
        net.propose("c", version(net, "c", ALERT, Contract(match="other.>")))
    net.run(net.now + 10.0)
    for pair in net.links:
        net.black_hole(*pair, False)
    net.run(net.now + 10.0)
    assert versions(net) == dict.fromkeys(NAMES[:3], 2)
    assert len({engine.version_digest for engine in net.engines.values()}) == 1, "two texts of one version"
    net.validate()


def test_nobody_is_told_a_promise_that_is_not_on_disk_whatever_happens_meanwhile() -> None:
    net = triangle()
    early = []

    def heard(receiver: str, frame: Frame) -> None:
        body = control_body(frame) if frame.type is FrameType.VERSIONS else None
        if isinstance(body, VersionNotice):
            kept = net.disks.get(body.origin, KeptVersions())
            if body.version == (1 if kept.committed is None else kept.committed.read().version):
                early.extend([body] if body.promised > kept.promised else [])

    net.watch = heard
    net.disk_s = 0.9
    net.propose("a", version(net, "a", ALERT, Contract(match="one.>")))
    for _ in range(12):
        net.run(net.now + 0.5)
        net.reset("b", "c")
    assert not early
    net.run(net.now + 20.0)
    assert versions(net) == dict.fromkeys(NAMES[:3], 2)
    net.validate()


def test_a_document_under_a_false_signature_does_not_stand_in_the_way_of_the_true_one() -> None:
    """A member hears of a change first, and hurries to tell a neighbour the same text, signed by nobody."""
    net = running(ALERT, authority=SimulatedAuthority(list(NAMES), 1))
    good = version(net, "a", ALERT, Contract(match="new.>"))
    for signature in (b"", b"of nobody"):
        false = VersionText(document=WrittenDocument(text=good.text, signature=signature))
        net.put("b", "c", control_frame(false))
    net.run(net.now + 0.1)
    net.propose("a", good)
    net.run(net.now + 5.0)
    change = net.engines["a"].change(good.digest)
    assert change is not None
    assert (change.state, change.detail) == (ChangeState.IN_FORCE, "")
    assert versions(net) == dict.fromkeys(NAMES, 2)
    net.validate()


def remembered(engine: OverlayEngine, frames: list[Frame], now: float) -> int:
    """So many bytes are held on to after a neighbour has sent all this."""
    tracemalloc.start()
    for frame in frames:
        engine.receive("b", frame, now)
    gc.collect()
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return grown


class NotYet(KeyTrust):
    """A site that does not know of the authority's new key."""

    def approved(self, text: bytes, signature: bytes) -> str:
        return "no authority of this federation has signed it"


def test_a_site_whose_keys_come_late_follows_when_they_have_come() -> None:
    """Its neighbours have told it what is in force, and do not tell it again."""
    authority = SimulatedAuthority(list(NAMES), 1)
    net = running(ALERT, authority=authority)
    net.crash("c", silent=False)
    net.run(net.now + 1.0)
    net.propose("a", version(net, "a", ALERT, Contract(match="new.>")))
    net.run(net.now + 1.0)
    right = net.trust_of
    late = NotYet("ring", authority.keys["c"], authority, net.time_ns)
    net.trust_of = lambda name: late if name == "c" else right(name)  # type: ignore[method-assign]
    net.start("c")
    net.run(net.now + 10.0)
    net.renew_keys("c")
    net.run(net.now + 10.0)
    assert versions(net) == {"a": 2, "b": 2, "c": 1, "d": 2}
    net.trust_of = right  # type: ignore[method-assign]
    net.renew_keys("c")
    net.run(net.now + 1.0)
    assert versions(net) == dict.fromkeys(NAMES, 2)
    net.validate()


def test_documents_that_come_and_go_are_not_remembered() -> None:
    net = running(ALERT)
    engine = net.engines["c"]

    def tell(numbers: range) -> int:
        noted = [successor(engine.document, (), by="me", at="", note=f"{each}").text() for each in numbers]
        frames = [control_frame(VersionText(document=WrittenDocument(text=text))) for text in noted]
        return remembered(engine, frames, net.now)

    tell(range(1_500))
    assert tell(range(1_500, 5_000)) < 200_000
    net.validate()


def test_what_is_no_document_is_not_remembered_however_much_of_it_comes() -> None:
    net = running(ALERT, authority=SimulatedAuthority(list(NAMES), 1))
    engine = net.engines["c"]

    def tell(count: int) -> int:
        frames = [
            control_frame(VersionText(document=WrittenDocument(text=b"%d" % each))) for each in range(count)
        ]
        return remembered(engine, frames, net.now)

    tell(100)
    assert tell(2_000) < 60_000
    net.validate()
