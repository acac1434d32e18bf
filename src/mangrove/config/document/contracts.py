"""Contracts of topics, and limits, of a federation file."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from mangrove.config.document.fields import Paths, Rate, Resiliency, Strict, mirror_mode, pattern
from mangrove.config.document.transforms import TransformUseDocument, transform_section
from mangrove.model.congestion.terms import Slow
from mangrove.model.federation import (
    DEFAULT_MAX_SUBJECTS,
)
from mangrove.model.topics import DEFAULT_MAX_PATHS, Late, Mirror, Order, Queue, Scope


class SessionLimitsDocument(Strict):
    """How much more than the contract a publisher or subscriber may ask for through the SDK."""

    deadline_ms: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="The shortest deadline that may be asked for."
    )
    paths: Paths | None = Field(default=None, description="The most paths that may be asked for.")
    resiliency: Resiliency | None = Field(
        default=None, description="The highest resiliency that may be asked for."
    )


class TopicDocument(Strict):
    """A contract; the first that matches a subject governs it."""

    match: Annotated[str, AfterValidator(pattern)] = Field(description="Subject, with wildcards * and >.")
    deadline_ms: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="From publish to delivery."
    )
    paths: Paths = Field(default=1, description="Paths used at the same time, at least.")
    resiliency: Resiliency | None = Field(
        default=None,
        description="Probability that one of the paths is up: the fewest paths that reach it are used.",
    )
    max_paths: Paths = Field(
        default=DEFAULT_MAX_PATHS, description="Most paths that `resiliency` may use at the same time."
    )
    max_hops: Annotated[int, Field(ge=1, le=31)] | None = Field(
        default=None, description="Most links that a path may have."
    )
    rate_mbps: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="Megabits/second from each source, for the choice of routes; by default as observed.",
    )
    separation_km: Annotated[float, Field(ge=0, le=20_040)] = Field(
        default=0.0, description="Least distance between the paths, and from what `apart_from` names."
    )
    apart_from: Annotated[list[str], Field(max_length=16)] = Field(
        default=[],
        description="Regions, or `match` of other contracts, from whose paths to keep `separation_km`.",
    )
    limits: SessionLimitsDocument = Field(
        default=SessionLimitsDocument(), description="What single publishers and subscribers may ask for."
    )
    mirror: Annotated[Mirror, BeforeValidator(mirror_mode)] = Field(
        default=Mirror.NONE,
        description="Whether each message is published to a second broker as well (`true`), or can be at "
        "once when its broker fails (`standby`).",
    )
    durable: bool = Field(default=False, description="Keep until consumed. Not in force yet.")
    order: Order = Field(
        default=Order.PUBLISHER,
        description="Keep each publisher's order on a subject; `none` does not wait for it.",
    )
    queue: Queue = Field(
        default=Queue.ONCE,
        description="Who serves a queue group: `once` in the federation, or one member in each domain.",
    )
    late: Late = Field(default=Late.DELIVER, description="What happens after the deadline.")
    scope: Scope = Field(default=Scope.FEDERATION, description="`domain` topics never leave their domain.")
    rate_msg_s: Rate | None = Field(
        default=None,
        description="Messages per second that all publishers of one domain together may publish on each "
        "subject; shared fairly.",
    )
    rate_bytes_s: Rate | None = Field(
        default=None, description="Bytes of payload per second, in the same way."
    )
    slow: Slow = Field(
        default=Slow.DROP_OLDEST,
        description="What a subscriber that cannot keep up loses: `drop-oldest`, "
        "`drop-least-useful`, all but the last of each subject (`latest-only`), or its subscription "
        "(`disconnect`).",
    )
    always_send: bool = Field(
        default=False, description="Whether it is published even when nobody in the federation subscribes."
    )
    protected: bool = Field(default=False, description="Whether congestion control leaves it alone.")
    confidential: bool = Field(
        default=False,
        description="Whether messages are sealed from the publisher's gateway to the subscribers', so that "
        "no domain in between can read them. Needs `security: keys`.",
    )
    sample_text: bool = Field(
        default=False,
        description="Whether the recorder keeps words of some of its messages in the lake, for "
        "`mangrove pipeline semantics`. Not together with `confidential`.",
    )
    transform: Annotated[TransformUseDocument | None, BeforeValidator(transform_section)] = Field(
        default=None,
        description="What a gateway makes of its messages: a name under `transforms`, or the section below. "
        "Not together with `mirror`.",
    )


class ClientLimitsDocument(Strict):
    """What each client may publish, over all its topics."""

    rate_msg_s: Rate | None = Field(default=None, description="Messages per second.")
    rate_bytes_s: Rate | None = Field(default=None, description="Bytes of payload per second.")


class LimitsDocument(Strict):
    """What each domain may ask of the others, and each client of its domain."""

    subjects: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        default=DEFAULT_MAX_SUBJECTS,
        description="Different subjects that the subscribers of one domain may want. `mangrove status` warns "
        "at 80 %; those beyond the limit are counted, and served when others are given up.",
    )
    client: ClientLimitsDocument = Field(
        default=ClientLimitsDocument(), description="What each client may publish."
    )
