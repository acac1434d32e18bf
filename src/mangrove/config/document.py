"""The federation file as pydantic models: shape, types and ranges. Rules across fields are in `rules`."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from mangrove.model.access.rules import ANYBODY, Action, Default
from mangrove.model.address import Address, checked_host
from mangrove.model.balancing import Placement
from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.congestion.parameters import Congestion, Mode
from mangrove.model.congestion.terms import Slow
from mangrove.model.federation import (
    DEFAULT_MAX_MESSAGE_BYTES,
    DEFAULT_MAX_SUBJECTS,
    DEFAULT_QUEUE_BYTES,
    Prepare,
    Urgency,
)
from mangrove.model.plans.rules import PlanPolicy, PlanRules
from mangrove.model.plans.windows import window_problem
from mangrove.model.security.rules import SecurityMode
from mangrove.model.subjects import is_internal, subject_problem
from mangrove.model.topics import DEFAULT_MAX_PATHS, Late, Mirror, Order, Queue, Scope

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
MAX_MESSAGE_LIMIT_BYTES = 32 << 20
MAX_EDGES = 64
MAX_HOSTS = 16
MAX_ACCESS_RULES = 100_000


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ValueError("a name has letters, digits, '-' and '_', starts with a letter or digit, at most 63")
    return text


def _url(*schemes: str) -> AfterValidator:
    def check(text: str) -> str:
        allowed = ", ".join(f"{scheme}://host:port" for scheme in schemes)
        try:
            parts = urlsplit(text)
            complete = parts.scheme in schemes and bool(parts.hostname) and parts.port is not None
        except ValueError:
            complete = False
        if not complete:
            raise ValueError(f"a URL of the form {allowed} is expected")
        return text

    return AfterValidator(check)


def _endpoint(text: str) -> str:
    Address.parse(text)
    return text


def _pattern(text: str) -> str:
    problem = subject_problem(text, wildcards=True)
    if problem:
        raise ValueError(f"not a valid subject: {problem}")
    if is_internal(text):
        raise ValueError("subjects that start with '$' or '_' belong to the brokers and are never federated")
    return text


def _edges(value: Any) -> Any:
    """`edges: 2` is short for two edges without further properties."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= MAX_EDGES:
            raise ValueError(f"between 0 and {MAX_EDGES} edge brokers are possible")
        return [{}] * value
    return value


def _mirror(value: Any) -> Any:
    """`mirror: true` is short for `both`, and `false` for `none`."""
    if isinstance(value, bool):
        return Mirror.BOTH if value else Mirror.NONE
    return value


def _capacity(value: float) -> float:
    """Nothing can be said of a broker that can carry nothing: every load would be infinitely too much."""
    if value <= 0:
        raise ValueError("what a broker can carry is above 0; leave it out if it is not known")
    return value


def _elastic(value: Any) -> Any:
    """`elastic: true` switches brokers off at low load, and adds none."""
    return {"enabled": value} if isinstance(value, bool) else value


def _security(value: Any) -> Any:
    """`security: none` is short for the mode; a key directory alone means that there are keys."""
    return {"mode": value} if isinstance(value, str) else value


def _window(text: str) -> str:
    if problem := window_problem(text):
        raise ValueError(problem)
    return text


def _listed(value: Any) -> Any:
    """One is short for a list of it."""
    return [value] if isinstance(value, str) else value


def _names(value: Any) -> Any:
    """One name is short for a list of it, and `*` for no condition at all."""
    return [] if _listed(value) == [ANYBODY] else _listed(value)


def _access(value: Any) -> Any:
    """A list of rules is short for a section with all defaults."""
    return {"rules": value} if isinstance(value, list) else value


Name = Annotated[str, AfterValidator(_name)]
Host = Annotated[str, AfterValidator(checked_host)]
Latitude = Annotated[float, Field(ge=-90, le=90)]
Longitude = Annotated[float, Field(ge=-180, le=180)]
Place = tuple[Latitude, Longitude]
Probability = Annotated[float, Field(ge=0, lt=1)]
Resiliency = Annotated[float, Field(gt=0, lt=1)]
Paths = Annotated[int, Field(ge=1, le=8)]
Rate = Annotated[float, Field(gt=0, le=1e12)]
Names = Annotated[list[str], BeforeValidator(_names)]


class Strict(BaseModel):
    """Unknown keys are mistakes; numbers are numbers."""

    model_config = ConfigDict(extra="forbid", strict=False, allow_inf_nan=False)


class EdgeDocument(Strict):
    """What is known of a head or edge broker; what is not known is never judged too loaded."""

    capacity: Annotated[float, AfterValidator(_capacity)] | None = Field(
        default=None,
        description="Messages per second that this broker can handle, if known; see `calibration`.",
    )
    bandwidth_mbps: Annotated[float, AfterValidator(_capacity)] | None = Field(
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

    kind: BrokerKind = Field(default=BrokerKind.NATS, description="What kind of brokers they are.")
    head: Annotated[str, _url("nats")] = Field(description="Where clients reach the head broker.")
    leaf: Annotated[str, _url("nats-leaf")] | None = Field(
        default=None, description="Its leaf-node listener; by default port 7422 of the same host."
    )
    monitor: Annotated[str, _url("http")] | None = Field(
        default=None, description="Its monitoring pages, for `mangrove status`."
    )
    edges: list[Annotated[str, _url("nats")]] = Field(
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


class DomainDocument(Strict):
    """One site."""

    location: Place | None = Field(default=None, description="Latitude and longitude in degrees.")
    failure_probability: Probability | None = Field(
        default=None, description="Share of time in which the site is down, if known; see `failures`."
    )
    head: EdgeDocument = Field(default=EdgeDocument(), description="Properties of the head broker.")
    edges: Annotated[list[EdgeDocument], BeforeValidator(_edges), Field(max_length=MAX_EDGES)] = Field(
        default=[], description="Number of edge brokers, or a list with the properties of each."
    )
    address: Host = Field(default="127.0.0.1", description="Where the site's processes listen.")
    base_port: Annotated[int, Field(ge=1, le=65000)] | None = Field(
        default=None, description="First of the ports that the site uses; by default 7000, 7100, …"
    )
    external: ExternalDocument | None = Field(default=None, description="Brokers that we do not start.")
    placement: Placement = Field(
        default=Placement.LAN,
        description="New subscribers go to the edge with most headroom (`lan`), or to the nearest (`wan`).",
    )
    accept_load_from: list[Name] = Field(
        default=[], description="Domains of the same owner whose clients may be moved here."
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
    elastic: Annotated[ElasticDocument, BeforeValidator(_elastic)] = Field(
        default=ElasticDocument(enabled=False),
        description="Whether brokers are switched off and added as load asks for it.",
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
    endpoints: dict[Name, Annotated[str, AfterValidator(_endpoint)]] = Field(
        default={}, description="host:port where a side listens for this link, by domain."
    )


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

    match: Annotated[str, AfterValidator(_pattern)] = Field(description="Subject, with wildcards * and >.")
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
    mirror: Annotated[Mirror, BeforeValidator(_mirror)] = Field(
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


class RegionDocument(Strict):
    """A part of the earth that contracts may keep away from."""

    centre: Place = Field(description="Latitude and longitude in degrees.")
    radius_km: Annotated[float, Field(gt=0, le=20_040)] = Field(description="Its radius.")


class RiskGroupDocument(Strict):
    """Links and sites that fail together."""

    links: list[tuple[Name, Name]] = Field(default=[], description="Ends of each link.")
    sites: list[Name] = Field(default=[], description="Domains.")


Share = Annotated[float, Field(gt=0, le=1)]


class BalancingDocument(Strict):
    """How agents detect load and move it. The defaults are those of ePEER, where it has some."""

    enabled: bool = Field(default=True, description="Whether load is moved; it is watched in any case.")
    method: str = Field(
        default="drd", description="What is moved: `drd`, `drd-optimal`, `peer` or `peer-drd`."
    )
    distribution: str = Field(
        default="headroom",
        description="Where new topics go: `headroom` (or the nearest edge, in a `wan`), `round-robin`, "
        "`least-connections` or `random`.",
    )
    low: Share = Field(default=0.90, description="From this utilisation on a broker takes no more.")
    high: Share = Field(default=0.95, description="From this utilisation on a broker is overloaded.")
    ceiling: Share | None = Field(
        default=None,
        description="Up to where a broker is filled by moves; by default halfway from `low` to `high`.",
    )
    target: Share | None = Field(
        default=None, description="Down to where an overloaded broker is relieved; by default to `low`."
    )
    period_s: Annotated[float, Field(ge=0.2, le=60)] = Field(
        default=1.0, description="How often brokers are looked at."
    )
    window: Annotated[int, Field(ge=1, le=60)] = Field(
        default=2, description="Over how many looks utilisation is smoothed; the latest weigh more."
    )
    confirm_periods: Annotated[int, Field(ge=1, le=60)] = Field(
        default=1, description="How many looks in a row must find overload."
    )
    cooldown_s: Annotated[float, Field(ge=0, le=3600)] = Field(
        default=3.0, description="Rest of a broker after its load was moved."
    )
    migration_timeout_s: Annotated[float, Field(ge=1, le=600)] = Field(
        default=30.0, description="How long clients may take to move."
    )
    delay_ms: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="A broker through which a probe takes so long is overloaded."
    )
    cpu_percent: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="A broker that uses so much of a processor is overloaded; 100 is one core."
    )
    memory_mb: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="A broker that uses so many million bytes of memory is overloaded."
    )
    pending_bytes: Annotated[int, Field(gt=0)] | None = Field(
        default=None, description="A broker where so many bytes wait, and rise for five looks, is overloaded."
    )
    imbalance: Share = Field(
        default=0.10, description="For `peer` and `peer-drd`: the difference of two edges that starts moves."
    )
    imbalance_stop: Share | None = Field(
        default=None,
        description="For `peer` and `peer-drd`: down to which difference; by default half of `imbalance`.",
    )
    publish_at_edges: bool = Field(
        default=False, description="Whether topics with subscribers at one edge alone are published there."
    )


class CongestionDocument(Strict):
    """Who speaks less when capacity is short. The defaults are those of ePEER, where it has some."""

    mode: Mode = Field(
        default=Mode.CONGESTED,
        description="When publishers are limited: while no broker has room left (`congested`), `always`, "
        "or never (`off`).",
    )
    selection: str = Field(
        default="greedy", description="What may be said is chosen by `greedy` or `knapsack`."
    )
    stop_at_first: bool = Field(
        default=False, description="Whether nothing is chosen after the first topic that does not fit."
    )
    regions: Annotated[list[Share], Field(min_length=1, max_length=32)] = Field(
        default=list(Congestion().regions), description="Where the ranges of a publisher's utility end."
    )
    ladder: Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=2, max_length=33)] = Field(
        default=list(Congestion().ladder),
        description="What publishers in each range may say: parts of a publisher's share of its broker.",
    )
    probe_msg_s: Annotated[float, Field(gt=0, le=1000)] = Field(
        default=1.0, description="What a stopped publisher may still say, so that it can be judged anew."
    )
    lift_after_s: Annotated[float, Field(ge=0, le=3600)] = Field(
        default=5.0, description="For how long there must be room before limits are raised."
    )
    hysteresis: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.05, description="How much more important a topic must be to overtake another."
    )
    protect_deadline_ms: Annotated[float, Field(ge=0)] | None = Field(
        default=1000.0,
        description="Topics with a deadline of at most this are never limited; `null`: only `protected`.",
    )
    max_weight: Annotated[float, Field(ge=1, le=1e6)] = Field(
        default=10.0, description="How many times another's one subscriber's opinion may count."
    )
    disconnect_plain_publishers: bool = Field(
        default=False,
        description="Whether clients without the SDK that exceed `limits.client` are disconnected.",
    )


class PlansDocument(Strict):
    """How plans that the pipelines made come into force."""

    policy: PlanPolicy = Field(
        default=PlanPolicy.MANUAL,
        description="What agents do with a plan that they find: nothing, tell of it, or put it in force.",
    )
    directory: str | None = Field(
        default=None, description="Where the pipelines leave plans, relative to this file."
    )
    window: Annotated[list[Annotated[str, AfterValidator(_window)]], Field(max_length=16)] = Field(
        default=[],
        description="Times of day at which plans are applied, in UTC, as `22:00-05:30`; by default at once.",
    )
    moves_at_once: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=PlanRules().moves_at_once, description="Topics that move at the same time."
    )
    max_age_h: Annotated[float, Field(gt=0, le=8760)] = Field(
        default=PlanRules().max_age_s / 3600, description="A plan whose data are older is refused."
    )


class WhoDocument(Strict):
    """Whom a rule speaks of. What is left out, or is `*`, is anybody."""

    domain: Names = Field(default=[], description="Domain, or several.")
    role: Names = Field(
        default=[], description="`client`, `operator`, or a role that `access.roles` defines; or several."
    )
    client: Names = Field(default=[], description="Name of a client as its key was issued; or several.")


class AccessRuleDocument(Strict):
    """Who may, or may not, publish or subscribe to what. A `may_not` wins over every `may`."""

    who: WhoDocument = Field(default=WhoDocument(), description="Whom it speaks of; by default anybody.")
    may: Annotated[list[Action], BeforeValidator(_listed)] = Field(
        default=[], description="What they may do."
    )
    may_not: Annotated[list[Action], BeforeValidator(_listed)] = Field(
        default=[], description="What they may not do; either this or `may`."
    )
    subjects: Annotated[list[Annotated[str, AfterValidator(_pattern)]], BeforeValidator(_listed)] = Field(
        description="Subjects, with wildcards * and >."
    )
    to: Names = Field(
        default=[],
        description="Domains into which it may, or may not, be published; by default everywhere. A rule "
        "with it is the gateways' alone.",
    )
    origin: Names = Field(
        default=[],
        description="Domains whose messages may, or may not, be subscribed to; by default all. A rule with "
        "it is the gateways' alone.",
    )


class AccessDocument(Strict):
    """Who may publish and subscribe to what; a list is short for `rules`."""

    default: Default = Field(
        default=Default.ALLOW, description="What holds inside a domain where no rule speaks."
    )
    between: Default = Field(
        default=Default.ALLOW,
        description="What holds between domains where no rule speaks, for subjects that leave their domain "
        "at all; `default: deny` denies both.",
    )
    roles: dict[Name, Names] = Field(
        default={}, description="Clients of each role: `name`, in any domain, or `domain/name`."
    )
    rules: Annotated[list[AccessRuleDocument], Field(max_length=MAX_ACCESS_RULES)] = Field(
        default=[], description="The rules; their order does not matter."
    )


class SecurityDocument(Strict):
    """Whether everybody proves who it is. `security: none` and `security: keys` are short for the `mode`."""

    mode: SecurityMode = Field(
        default=SecurityMode.KEYS,
        description="With `keys`, everybody proves who it is, and all connections are encrypted; "
        "with `none`, whoever reaches a port is believed.",
    )
    keys: str | None = Field(
        default=None,
        description="The key directory, relative to this file; by default in the run directory.",
    )


class FederationDocument(Strict):
    """The whole file."""

    federation: Name = Field(description="Name of the federation.")
    domains: Annotated[dict[Name, DomainDocument], Field(min_length=1)] = Field(description="The sites.")
    links: list[LinkDocument] = Field(default=[], description="Which sites are linked.")
    topics: list[TopicDocument] = Field(default=[], description="Contracts, the first match wins.")
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
    access: Annotated[AccessDocument, BeforeValidator(_access)] = Field(
        default=AccessDocument(),
        description="Who may publish and subscribe to what: a list of rules, or the section below.",
    )
    security: Annotated[SecurityDocument, BeforeValidator(_security)] = Field(
        default=SecurityDocument(mode=SecurityMode.NONE), description="Whether everybody proves who it is."
    )


def nulls_as_empty(raw: Any) -> Any:
    """`seattle:` with nothing behind it means a site with all defaults."""
    if isinstance(raw, dict) and isinstance(raw.get("domains"), dict):
        domains = {name: {} if value is None else value for name, value in raw["domains"].items()}
        return {**raw, "domains": domains}
    return raw
