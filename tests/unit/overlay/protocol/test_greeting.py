"""Who may be a peer, and what strangers are told."""

from __future__ import annotations

import pytest
from tests.kit.engines import engine, federation

from mangrove.errors import InputError
from mangrove.model.federation import Federation
from mangrove.model.topics import Contract
from mangrove.model.versions.document import WrittenDocument
from mangrove.model.versions.kept import KeptVersions
from mangrove.model.versions.succession import successor
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.protocol.control_messages import Hello, control_body, control_frame
from mangrove.overlay.protocol.frames import (
    LOWEST_PROTOCOL,
    PROTOCOL_VERSION,
    Frame,
    FrameError,
    FrameType,
)


def test_a_peer_of_the_same_federation_is_greeted() -> None:
    shape = federation(("a", "b"))
    assert engine(shape, "a").greet(engine(shape, "b").hello(), None).domain == "b"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"protocol": 99}, "protocol 99"),
        ({"federation": "other"}, "federation 'other'"),
        ({"topology": "0" * 24}, "another federation file"),
        ({"domain": "c"}, "no link between 'a' and 'c'"),
        ({"domain": "a"}, "claims to be 'a'"),
    ],
)
def test_strangers_are_refused_with_the_reason(change: dict[str, object], reason: str) -> None:
    shape = federation(("a", "b"), ("b", "c"))
    fields: dict[str, object] = {
        "protocol": PROTOCOL_VERSION,
        "federation": "test",
        "topology": shape.topology_hash(),
        "domain": "b",
        "epoch": 1,
    } | change
    with pytest.raises(FrameError, match=reason):
        engine(shape, "a").greet(control_frame(Hello(**fields)), None)  # type: ignore[arg-type]


def test_the_called_domain_must_answer() -> None:
    shape = federation(("a", "b"), ("a", "c"))
    with pytest.raises(FrameError, match="called 'b', but 'c' answered"):
        engine(shape, "a").greet(engine(shape, "c").hello(), "b")
    with pytest.raises(FrameError, match="began with a DATA frame"):
        engine(shape, "a").greet(Frame(FrameType.DATA), None)


def said(shape: Federation, **changes: object) -> Frame:
    fields: dict[str, object] = {
        "protocol": LOWEST_PROTOCOL,
        "federation": "test",
        "topology": shape.topology_hash(),
        "domain": "b",
        "epoch": 1,
    } | changes
    return control_frame(Hello(**fields))  # type: ignore[arg-type]


def test_gateways_speak_the_highest_protocol_that_both_know() -> None:
    shape = federation(("a", "b"))
    here = engine(shape, "a")
    assert here.greet(said(shape), None).spoken == LOWEST_PROTOCOL, "the release before says one number"
    later = said(shape, protocol=PROTOCOL_VERSION, newest=PROTOCOL_VERSION + 3)
    assert here.greet(later, None).spoken == PROTOCOL_VERSION + 3
    assert control_body(here.hello()) == Hello(
        protocol=LOWEST_PROTOCOL,
        newest=PROTOCOL_VERSION,
        federation="test",
        topology=shape.topology_hash(),
        domain="a",
        epoch=here.epoch,
    )
    with pytest.raises(FrameError, match=f"protocol 3, this gateway {LOWEST_PROTOCOL} to {PROTOCOL_VERSION}"):
        here.greet(said(shape, protocol=3), None)


def test_a_peer_of_the_release_before_is_served_until_contracts_change() -> None:
    shape = federation(("a", "b"))
    here = engine(shape, "a")
    here.peer_up("b", 0.0, protocol=LOWEST_PROTOCOL)
    after = successor(here.document, [Contract(match="x")], by="", at="")
    written = WrittenDocument(text=after.text())
    with pytest.raises(InputError, match="older release"):
        here.propose(written, 0.0)
    changed = OverlayEngine(shape, "a", 1, kept=KeptVersions(committed=written))
    with pytest.raises(FrameError, match="version 2 of them is in force"):
        changed.greet(said(shape), None)
    assert changed.greet(here_says(shape), None).version == 1, "who is behind is let in, and told"


def here_says(shape: Federation) -> Frame:
    return engine(shape, "b").hello()
