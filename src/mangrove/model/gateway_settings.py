"""What a gateway process is told when it starts: every address resolved."""

from __future__ import annotations

import msgspec

from mangrove.model.address import Address
from mangrove.model.agents.directions import Directions
from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.federation import Federation


class Call(msgspec.Struct, frozen=True):
    """A neighbour to call, and the own address to call from (empty: whatever the system picks).

    Where it has two gateways there are two addresses, and both are called: one carries, the other holds the
    connection until it does.
    """

    peer: str
    addresses: tuple[Address, ...]
    local_host: str = ""


class PairSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two gateways of a domain."""

    number: int
    """1 or 2. When both start, the first carries."""
    process: str
    """What this gateway is called."""
    line: Address
    """Where the first listens for the second."""
    other_journal: str = ""
    """Where the other one keeps what it delivered, should it be on the same machine: both may have died."""


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a gateway needs to know."""

    federation: Federation
    domain: str
    head_urls: tuple[str, ...]
    """Where the gateway attaches: at the head broker, or at the first after it, in the order of succession,
    that answers."""
    management_urls: tuple[str, ...] = ()
    """Of the management brokers; none: nobody is answered."""
    listen: tuple[Address, ...]
    calls: tuple[Call, ...]
    events_path: str = ""
    journal_path: str = ""
    audit_path: str = ""
    """Where to write down who connected and was refused; empty: nowhere."""
    stimuli_path: str = ""
    """Where to record what the engine is told; empty: nowhere."""
    versions_path: str = ""
    """The folder where versions of the federation document are kept; empty: nowhere."""
    reloaded_path: str = ""
    """Where what the site has reloaded from a changed file is found; empty: nowhere."""
    head_kind: BrokerKind = BrokerKind.NATS
    head_client_url: str = ""
    """Where clients connect to the head broker; empty: retained messages stay in their domain."""
    head_is_ours: bool = True
    mirror_urls: dict[str, str] = {}
    """Where the gateway attaches to the edge brokers of ours for the second copies of mirrored topics, by the
    broker's name."""
    edge_client_urls: dict[str, str] = {}
    """Where clients connect to the edge brokers, by name: so far are messages timed on their way out."""
    pair: PairSettings | None = None
    """None: this is the only gateway of its domain."""
    keys: str = ""
    """The folder with the keys of the domain; empty: nobody proves who it is."""
    directions: Directions | None = None
    """What clients of this domain are told when they ask; None: they are not answered."""
    health: Address | None = None
    """Where to tell of its health; None: nowhere."""
