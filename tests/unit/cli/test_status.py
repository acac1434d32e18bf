"""What `mangrove status` shows of what was counted."""

from __future__ import annotations

from rich.console import Console

from mangrove.cli.federation.status_tables import show_status
from mangrove.model.status import (
    DomainStatus,
    Drop,
    FederationStatus,
    GatewayStatus,
    LimitFigures,
    PairStatus,
    SilenceFigures,
)


def gateway(**counted: object) -> GatewayStatus:
    plain = {
        "domain": "a", "epoch": 1, "uptime_s": 1.0, "head_connected": True, "links": (), "interest": {},
        "subscribed": 0, "sent": 0, "delivered": 0, "duplicates": 0, "colour": 0, "failed_links": (),
        "parked_bytes": 0, "routes": (), "arrivals": (), "drops": (),
    }  # fmt: skip
    return GatewayStatus(**{**plain, **counted})  # type: ignore[arg-type]


def shown(status: GatewayStatus, warnings: tuple[str, ...] = ()) -> str:
    console = Console(width=140, record=True, quiet=False, file=None, force_terminal=False)
    domain = DomainStatus(domain="a", brokers=(), gateway=status)
    with console.capture() as capture:
        show_status(FederationStatus(federation="f", domains=(domain,), warnings=warnings), console)
    return capture.get()


def test_everything_that_was_counted_is_shown() -> None:
    text = shown(
        gateway(
            drops=(Drop(topic="x", reason="late", count=3),),
            dropped={"late": 10},
            requests_sent=11,
            requests_delivered=12,
            sent_on=17,
            malformed_bodies=13,
            refused_connections=14,
            refused_subjects=15,
            ignored={"route message without a way": 16},
            gaps=17,
            out_of_turn=18,
            limits=LimitFigures(subjects=21, clients=22, arrivals=23),
            silence=SilenceFigures(clients=24, leaves=25, taken_back=26, awaited=27, refused={"why": 28}),
        )
    )
    also = text[text.index("Also counted") :]
    for count in (7, *range(11, 19), *range(21, 29)):
        assert f" {count}" in also, text
    assert "dropped on other topics: late" in also


def test_contracts_that_are_not_those_of_the_file_are_told() -> None:
    assert "version" not in shown(gateway())
    assert "Contracts of version 3 are in force" in shown(gateway(version=3))
    console = Console(width=80, force_terminal=False)
    domains = tuple(
        DomainStatus(domain=name, brokers=(), gateway=gateway(domain=name, version=version))
        for name, version in (("a", 3), ("b", 2), ("c", 3))
    )
    with console.capture() as capture:
        show_status(FederationStatus(federation="f", domains=domains), console)
    assert "Contracts differ in their version: 3 at a, c; 2 at b" in capture.get()


def test_both_gateways_of_a_domain_are_shown_with_their_roles() -> None:
    pair = PairStatus(
        number=2, process="a-gateway2", role="active", other="standby", takeovers=31, fences=32,
        names_told=33, ignored=34, given_up=35, sent_before=36, delivered_before=37,
    )  # fmt: skip
    text = shown(gateway(pair=pair))
    assert [line.split()[:2] for line in text.splitlines() if "a-gateway" in line][:2] == [
        ["a-gateway2", "active"],
        ["a-gateway", "standby"],
    ]
    also = text[text.index("Also counted") :]
    for count in range(31, 38):
        assert f" {count}" in also, text


def test_a_quiet_gateway_has_nothing_else_to_tell() -> None:
    assert "Also counted" not in shown(gateway())


def test_the_busiest_topics_are_shown_and_the_rest_is_counted() -> None:
    text = shown(
        gateway(busiest_sent={f"topic{n}": 1000 + n for n in range(12)}, busiest_delivered={"x": 5000})
    )
    lines = text[text.index("Busiest topics") :].splitlines()
    assert lines[3].split() == ["x", "0", "5,000"]
    assert lines[4].split() == ["topic11", "1,011", "0"]
    assert "… and 3 more; --json has everything" in lines


def test_warnings_are_shown_as_they_are() -> None:
    assert "warning: topics[0] (x): `mirror` …" in shown(gateway(), ("topics[0] (x): `mirror` …",))
