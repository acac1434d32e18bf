"""What is said to those who run the processes of a domain's hosts: requests on `supervisor_subject`."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mangrove.model.hosting.broker_status import BrokerStatus


class BrokerAction(StrEnum):
    """What is done with a broker; one that was stopped stays so until it is started."""

    START = "start"
    STOP = "stop"
    RESTART = "restart"
    """Killed and started anew, if it does not answer."""


class BrokerOrder(msgspec.Struct, frozen=True, kw_only=True, tag="broker"):
    """Do something with a broker of your host."""

    broker: str
    action: BrokerAction
    term: int
    """Of the leader who orders: what one of before ordered, and was delayed on its way, is not done."""


class HostGreeting(msgspec.Struct, frozen=True, kw_only=True, tag="greeting"):
    """Who runs a host, since when, and by which federation file."""

    host: str
    digest: str
    started_at: float
    """Seconds since 1970."""


class HostQuestion(msgspec.Struct, frozen=True, kw_only=True, tag="question"):
    """What runs on your host?"""

    brokers: bool = False
    """And what do its brokers say of themselves? For who is on another machine and cannot see their pages."""
    old_keys: bool = False
    """And which clients are connected to them by keys that were replaced?"""


SupervisorRequest = BrokerOrder | HostGreeting | HostQuestion


class ProcessState(msgspec.Struct, frozen=True, kw_only=True):
    """One process of a host."""

    name: str
    pid: int | None = None
    """None: it does not run."""
    restarts: int = 0
    switched_off: bool = False


class OldLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A client that is connected by a key of before, and disconnected when that is believed no longer."""

    broker: str
    client: str
    name: str = ""
    """How the connections call themselves."""
    connections: int = 1


class HostAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a host's supervisor says of itself, and what became of an order."""

    greeting: HostGreeting
    processes: tuple[ProcessState, ...] = ()
    brokers: tuple[BrokerStatus, ...] = ()
    """What the host's brokers say of themselves, if that was asked."""
    old_logins: tuple[OldLogin, ...] = ()
    """If that was asked."""
    keys_generation: int = 0
    """Which keys the host's brokers have, if that was asked."""
    problem: str = ""
    """Why an order was not carried out."""
