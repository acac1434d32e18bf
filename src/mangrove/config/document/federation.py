"""The federation file as a whole: shape, types and ranges. Rules across fields are in `rules`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from mangrove.config.document.contracts import LimitsDocument, TopicDocument
from mangrove.config.document.decisions import BalancingDocument, CongestionDocument, PlansDocument
from mangrove.config.document.fields import (
    MAX_MESSAGE_LIMIT_BYTES,
    Name,
    Strict,
    access_section,
    security_section,
)
from mangrove.config.document.security import AccessDocument, SecurityDocument
from mangrove.config.document.sites import DomainDocument, LinkDocument, RegionDocument, RiskGroupDocument
from mangrove.config.document.transforms import TransformDocument
from mangrove.model.federation import (
    DEFAULT_MAX_MESSAGE_BYTES,
    DEFAULT_QUEUE_BYTES,
    Prepare,
    Urgency,
)
from mangrove.model.security.rules import SecurityMode

MAX_TRANSFORMS = 256


class FederationDocument(Strict):
    """The whole file."""

    federation: Name = Field(description="Name of the federation.")
    domains: Annotated[dict[Name, DomainDocument], Field(min_length=1)] = Field(description="The sites.")
    links: list[LinkDocument] = Field(default=[], description="Which sites are linked.")
    topics: list[TopicDocument] = Field(default=[], description="Contracts, the first match wins.")
    transforms: Annotated[dict[Name, TransformDocument], Field(max_length=MAX_TRANSFORMS)] = Field(
        default={}, description="What contracts may have done with messages, by name."
    )
    max_message_bytes: Annotated[int, Field(ge=1024, le=MAX_MESSAGE_LIMIT_BYTES)] = Field(
        default=DEFAULT_MAX_MESSAGE_BYTES, description="Larger messages are refused."
    )
    queue_bytes: Annotated[int, Field(ge=1 << 16)] = Field(
        default=DEFAULT_QUEUE_BYTES, description="What may wait for each link, and for the head broker."
    )
    limits: LimitsDocument = Field(default=LimitsDocument(), description="What each domain may ask for.")
    failures: str | None = Field(
        default=None,
        description="File with failure probabilities such as `mangrove pipeline availability` writes, "
        "relative to this one; what the sites and links below say is stronger.",
    )
    calibration: str | None = Field(
        default=None,
        description="File with a broker model such as `mangrove pipeline calibrate` writes (`model.json`), "
        "relative to this one: the `capacity` of brokers that state none is what it gives for messages to "
        "one subscriber, with no further filters.",
    )
    regions: dict[Name, RegionDocument] = Field(default={}, description="Regions that contracts name.")
    risk_groups: dict[Name, RiskGroupDocument] = Field(
        default={}, description="What fails together; next hops for the failure of each are prepared."
    )
    prepare: Prepare = Field(
        default=Prepare.SINGLES,
        description="Failures for which next hops are prepared: of one link or site, or `pairs` of them too.",
    )
    urgency: Urgency = Field(
        default=Urgency.LAXITY,
        description="What leaves a queue first: what has the least time to spare in all (`laxity`) or for "
        "this hop (`budget`, `equal-budget`), or what came first (`arrival`).",
    )
    balancing: BalancingDocument = Field(
        default=BalancingDocument(), description="How agents detect load and move it."
    )
    congestion: CongestionDocument = Field(
        default=CongestionDocument(), description="Who speaks less when capacity is short."
    )
    plans: PlansDocument = Field(default=PlansDocument(), description="How plans come into force.")
    access: Annotated[AccessDocument, BeforeValidator(access_section)] = Field(
        default=AccessDocument(),
        description="Who may publish and subscribe to what: a list of rules, or the section below.",
    )
    security: Annotated[SecurityDocument, BeforeValidator(security_section)] = Field(
        default=SecurityDocument(mode=SecurityMode.KEYS), description="Whether everybody proves who it is."
    )


def nulls_as_empty(raw: Any) -> Any:
    """`seattle:` with nothing behind it means a site with all defaults."""
    if isinstance(raw, dict) and isinstance(raw.get("domains"), dict):
        domains = {name: {} if value is None else value for name, value in raw["domains"].items()}
        return {**raw, "domains": domains}
    return raw
