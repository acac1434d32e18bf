"""What operators ask of a domain's agents: requests on `operations_subject`, answered by the leader."""

from __future__ import annotations

import msgspec

MAX_OPERATION_BYTES = 7 << 20
"""Of a question or an answer on the wire: a little less than management brokers take."""


class PauseAsked(msgspec.Struct, frozen=True, kw_only=True, tag="pause"):
    """Decide nothing by yourself any more, or go on."""

    paused: bool
    by: str = ""


class HandOverAsked(msgspec.Struct, frozen=True, kw_only=True, tag="hand-over"):
    """Let another agent lead: the one on this host, or whoever is next."""

    to: str = ""


class PlanApplied(msgspec.Struct, frozen=True, kw_only=True, tag="plan-apply"):
    """Put a plan in force; with `check`, only say what would happen."""

    plan: bytes = b""
    """A document, compressed or not."""
    proposed: str = ""
    """Instead of a document, the name of a plan that the agent has found."""
    check: bool = False
    anyway: bool = False
    """Also if it is worse than what is in force."""
    at_once: bool = True
    """Whether not to wait for the window of the federation file."""
    by: str = ""


class PlanRolledBack(msgspec.Struct, frozen=True, kw_only=True, tag="plan-rollback"):
    """Put an earlier plan in force again; 0: the one before."""

    version: int = 0
    by: str = ""


class PlanShown(msgspec.Struct, frozen=True, kw_only=True, tag="plan-show"):
    """Tell of the plan in force, of proposed ones, and of those before."""

    version: int = 0
    """Of one that is to be told in full; 0: the one in force."""


Operation = PauseAsked | HandOverAsked | PlanApplied | PlanRolledBack | PlanShown


class OperationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it."""

    problem: str = ""
    """Why nothing was done, if so."""
    result: bytes = b""
    """JSON, by kind of operation."""
