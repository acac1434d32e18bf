"""Sites and links of a federation file."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from mangrove.config.document.fields import (
    MAX_EDGES,
    MAX_HOSTS,
    MAX_NAMES,
    Host,
    Name,
    Place,
    Probability,
    Strict,
    elastic_section,
    endpoint,
    listed_edges,
    positive_capacity,
    url,
)
from mangrove.model.balancing import Placement
from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.names.mapping import Direction


class EdgeDocument(Strict):
    """What is known of a head or edge broker; what is not known is never judged too loaded."""

    capacity: Annotated[float, AfterValidator(positive_capacity)] | None = Field(
        default=None,
        description="Messages per second that this broker can handle, if known; see `calibration`.",
    )
    bandwidth_mbps: Annotated[float, AfterValidator(positive_capacity)] | None = Field(
        default=None, description="Megabits per second that it can take in, and give out, if known."
    )


class ExternalCredentialsDocument(Strict):
    """How we log in at brokers that somebody else runs. The secret is in a file or in the environment."""

    user: str = Field(default="", description="Name of the user, unless it comes with an NKEY.")
    password_file: str = Field(default="", description="File with its password, readable by its owner alone.")
    password_env: Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")] = Field(
        default="", description="Environment variable with its password."
    )
    nkey_file: str = Field(
        default="", description="File with the seed of its NKEY, readable by its owner alone."
    )
    ca_file: str = Field(
        default="",
        description="Certificates that its brokers must be certified by; then nothing is said without TLS.",
    )

    @model_validator(mode="after")
    def _one_secret(self) -> Self:
        given = [name for name in ("password_file", "password_env", "nkey_file") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError("exactly one of password_file, password_env and nkey_file is needed")
        if not self.user and not self.nkey_file:
            raise ValueError("a password needs a user")
        return self


class ExternalDocument(Strict):
    """Brokers that run already."""

    kind: BrokerKind | None = Field(
        default=None, description="What kind of brokers they are; by default that of the domain."
    )
    head: Annotated[str, url("nats", "amqp", "amqps")] = Field(
        description="Where clients reach the head broker; the path of an AMQP URL is its virtual host."
    )
    leaf: Annotated[str, url("nats-leaf")] | None = Field(
        default=None, description="Its leaf-node listener; by default port 7422 of the same host."
    )
    monitor: Annotated[str, url("http", "https")] | None = Field(
        default=None,
        description="Its monitoring pages, for `mangrove status`; of a RabbitMQ its management pages, which "
        "a gateway needs, by default port 15672 of the same host.",
    )
    exchange: str = Field(
        default="", description="Which exchange of a RabbitMQ is federated; by default `amq.topic`."
    )
    edges: list[Annotated[str, url("nats", "amqp", "amqps")]] = Field(
        default=[], description="Where clients reach its edge brokers."
    )
    credentials: ExternalCredentialsDocument | None = Field(
        default=None, description="How we log in there; by default as the URLs say."
    )


class HostDocument(Strict):
    """A machine of a site, and what runs there."""

    address: Host = Field(description="Where its processes listen, and the other hosts reach them.")
    brokers: list[str] = Field(
        default=[],
        description="Data brokers that run there: `head`, `edge1`, `edge2`, …; each on one host.",
    )


class ElasticDocument(Strict):
    """How many brokers a site runs as load comes and goes; `elastic: true` is short for all defaults."""

    enabled: bool = Field(default=True, description="Whether brokers are switched off at low load.")
    max_edges: Annotated[int, Field(ge=0, le=MAX_EDGES)] = Field(
        default=0,
        description="Edge brokers in all, with those that are added when load or risk asks for it; 0: none.",
    )


class NameDocument(Strict):
    """What a site calls otherwise than the federation: a subject, or a space of them that ends with `.>`."""

    local: str = Field(description="What it is called at this site.")
    federation: str = Field(description="What it is called everywhere else, in contracts and in rules.")
    direction: Direction = Field(
        default=Direction.BOTH,
        description="Whether messages pass under these names into the site (`in`), out of it (`out`), "
        "or `both`.",
    )


class DomainDocument(Strict):
    """One site."""

    location: Place | None = Field(default=None, description="Latitude and longitude in degrees.")
    failure_probability: Probability | None = Field(
        default=None, description="Share of time in which the site is down, if known; see `failures`."
    )
    head: EdgeDocument = Field(default=EdgeDocument(), description="Properties of the head broker.")
    edges: Annotated[list[EdgeDocument], BeforeValidator(listed_edges), Field(max_length=MAX_EDGES)] = Field(
        default=[], description="Number of edge brokers, or a list with the properties of each."
    )
    address: Host = Field(default="127.0.0.1", description="Where the site's processes listen.")
    base_port: Annotated[int, Field(ge=1, le=65000)] | None = Field(
        default=None, description="First of the ports that the site uses; by default 7000, 7100, …"
    )
    kind: BrokerKind = Field(
        default=BrokerKind.NATS,
        description="What its data brokers are. A RabbitMQ has no edges, and agents do not balance it.",
    )
    external: ExternalDocument | None = Field(default=None, description="Brokers that we do not start.")
    placement: Placement = Field(
        default=Placement.LAN,
        description="New subscribers go to the edge with most headroom (`lan`), or to the nearest (`wan`).",
    )
    accept_load_from: list[Name] = Field(
        default=[], description="Domains of the same owner whose clients may be moved here."
    )
    steer: bool = Field(
        default=False,
        description="Whether new subscribers of this site may be led to a linked one that publishes what "
        "they ask for, takes clients from here (`accept_load_from`) and is nearer to them.",
    )
    move_plain_clients: bool = Field(
        default=False,
        description="Whether clients without the SDK may be disconnected from an overloaded broker.",
    )
    hosts: Annotated[dict[Name, HostDocument], Field(max_length=MAX_HOSTS)] = Field(
        default={}, description="The machines of the site, by name; by default one, at `address`."
    )
    gateways: Annotated[int, Field(ge=1, le=2)] = Field(
        default=1,
        description="With 2, a second gateway stands by, on the second host where there are several, "
        "and takes over when the first dies or hangs.",
    )
    elastic: Annotated[ElasticDocument, BeforeValidator(elastic_section)] = Field(
        default=ElasticDocument(enabled=False),
        description="Whether brokers are switched off and added as load asks for it.",
    )
    health_port: Annotated[int, Field(ge=1, le=65000)] | None = Field(
        default=None,
        description="First of five ports for each host where its processes answer `/healthz`, `/readyz` and "
        "`/metrics`: the host itself, its gateways, its agent and the recorder. By default none do.",
    )
    names: Annotated[list[NameDocument], Field(max_length=MAX_NAMES)] = Field(
        default=[], description="What the site calls otherwise than the federation does."
    )


class LinkDocument(Strict):
    """A link between two domains. Delay, jitter, bandwidth and loss are emulated on one machine."""

    between: tuple[Name, Name]
    delay_ms: Annotated[float, Field(ge=0, le=60_000)] | None = Field(
        default=None, description="One-way delay; also the link's cost for routing."
    )
    jitter_ms: Annotated[float, Field(ge=0, le=60_000)] = Field(
        default=0.0, description="Largest random delay on top."
    )
    bandwidth_mbps: Annotated[float, Field(gt=0)] | None = Field(default=None, description="Megabits/second.")
    loss_ratio: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0, description="Share of segments that are lost and sent again."
    )
    failure_probability: Probability | None = Field(
        default=None, description="Share of time in which the link is down, if known; see `failures`."
    )
    via: Annotated[list[Place], Field(max_length=1000)] = Field(
        default=[],
        description="Places that the fibre passes between both ends, in the order of `between`: cables do "
        "not follow great circles.",
    )
    endpoints: dict[Name, Annotated[str, AfterValidator(endpoint)]] = Field(
        default={}, description="host:port where a side listens for this link, by domain."
    )


class RegionDocument(Strict):
    """A part of the earth that contracts may keep away from."""

    centre: Place = Field(description="Latitude and longitude in degrees.")
    radius_km: Annotated[float, Field(gt=0, le=20_040)] = Field(description="Its radius.")


class RiskGroupDocument(Strict):
    """Links and sites that fail together."""

    links: list[tuple[Name, Name]] = Field(default=[], description="Ends of each link.")
    sites: list[Name] = Field(default=[], description="Domains.")
