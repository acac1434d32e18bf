"""The greeting: two gateways make sure that they belong together before they exchange anything else."""

from __future__ import annotations

from mangrove.model.federation import Federation
from mangrove.overlay.protocol.control_messages import Hello, control_body
from mangrove.overlay.protocol.frames import (
    LOWEST_PROTOCOL,
    PROTOCOL_VERSION,
    VERSIONS_PROTOCOL,
    Frame,
    FrameError,
    FrameType,
)


class OtherDomainError(FrameError):
    """A peer greets with another name than it has proven."""

    def __init__(self, said: str, proven: str) -> None:
        super().__init__(f"the peer says that it is {said!r}, but its certificate is of {proven!r}")


def make_hello(
    federation: Federation, domain: str, epoch: int, *, renews: bool = False, line: str = "", version: int = 1
) -> Hello:
    """What a gateway says of itself. `line` names the federation file with which everything began, if that
    is not the present one."""
    return Hello(
        protocol=LOWEST_PROTOCOL,
        newest=PROTOCOL_VERSION,
        version=version,
        federation=federation.name,
        topology=line or federation.topology_hash(),
        domain=domain,
        epoch=epoch,
        renews=renews,
    )


def check_hello(
    frame: Frame,
    federation: Federation,
    domain: str,
    expected: str | None,
    proven: str | None = None,
    *,
    line: str = "",
    version: int = 1,
) -> Hello:
    """What the peer behind a first frame says of itself, or FrameError with the reason to refuse it.

    `expected` is the domain that was called; None when the peer called us. `proven` is the domain of its
    certificate; None where nobody proves who he is.
    """
    if frame.type is not FrameType.HELLO:
        raise FrameError(f"the peer began with a {frame.type.name} frame instead of HELLO")
    hello = control_body(frame)
    if not isinstance(hello, Hello):
        raise FrameError("the peer's HELLO is malformed")
    if hello.spoken < LOWEST_PROTOCOL or hello.protocol > PROTOCOL_VERSION:
        theirs, ours = (
            f"{lowest} to {highest}" if lowest < highest else f"{lowest}"
            for lowest, highest in (
                (hello.protocol, hello.spoken),
                (LOWEST_PROTOCOL, PROTOCOL_VERSION),
            )
        )
        raise FrameError(f"the peer speaks protocol {theirs}, this gateway {ours}")
    if version > 1 and hello.spoken < VERSIONS_PROTOCOL:
        raise FrameError(
            f"the peer speaks protocol {hello.spoken}, which does not know that contracts may change, and "
            f"version {version} of them is in force; run the same release there"
        )
    if hello.federation != federation.name:
        raise FrameError(f"the peer belongs to federation {hello.federation!r}, not {federation.name!r}")
    if proven is not None and hello.domain != proven:
        raise OtherDomainError(hello.domain, proven)
    topology = line or federation.topology_hash()
    if hello.topology != topology:
        raise FrameError(
            f"the peer {hello.domain!r} runs with another federation file "
            f"(topology {hello.topology}, here {topology}); give all sites the same file"
        )
    if hello.domain == domain:
        raise FrameError(f"the peer claims to be {domain!r}, the domain of this gateway")
    if expected is not None and hello.domain != expected:
        raise FrameError(f"called {expected!r}, but {hello.domain!r} answered")
    if hello.domain not in federation.domains:
        former = [name for name in federation.domain_order if name.startswith(f"{hello.domain}~")]
        said = "has left the federation, or was expelled from it" if former else "is no domain of it"
        raise FrameError(
            f"{hello.domain!r} {said} (version {version} is in force here); "
            f"to become a member: mangrove join FILE --domain {hello.domain}"
        )
    if not any({domain, hello.domain} == set(link.between) for link in federation.links):
        raise FrameError(f"the federation has no link between {domain!r} and {hello.domain!r}")
    return hello
