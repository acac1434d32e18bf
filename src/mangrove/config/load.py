"""From a federation file to a `Federation`, or to all of its mistakes at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec
from pydantic import ValidationError

from mangrove.config.access_rules import access_of, access_prefix
from mangrove.config.calibration import CalibrationFile, read_calibration
from mangrove.config.document.contracts import (
    ClientLimitsDocument,
    LimitsDocument,
    SessionLimitsDocument,
    TopicDocument,
)
from mangrove.config.document.decisions import BalancingDocument, CongestionDocument, PlansDocument
from mangrove.config.document.federation import FederationDocument, nulls_as_empty
from mangrove.config.document.fields import Strict
from mangrove.config.document.security import (
    AccessDocument,
    AccessRuleDocument,
    SecurityDocument,
    WhoDocument,
)
from mangrove.config.document.sites import (
    DomainDocument,
    EdgeDocument,
    ElasticDocument,
    ExternalCredentialsDocument,
    ExternalDocument,
    HostDocument,
    LinkDocument,
    NameDocument,
    RegionDocument,
    RiskGroupDocument,
)
from mangrove.config.document.transforms import TransformDocument, TransformUseDocument
from mangrove.config.failures import FailuresFile, read_failures
from mangrove.config.found import found_text
from mangrove.config.kind_rules import kind_in
from mangrove.config.rules import cross_field_mistakes, default_base_port
from mangrove.config.transform_rules import read_transforms, transforms_of
from mangrove.config.yaml_text import read_yaml
from mangrove.errors import InputError, InvalidDocumentError, Mistake
from mangrove.model.access.analysis import contradictions
from mangrove.model.address import Address
from mangrove.model.balancing import Balancing
from mangrove.model.broker_kinds import BROKER_URLS, BrokerKind
from mangrove.model.congestion.parameters import Congestion
from mangrove.model.federation import (
    Domain,
    Edge,
    Elastic,
    External,
    Federation,
    Host,
    Limits,
    Link,
    Region,
    RiskGroup,
)
from mangrove.model.names.mapping import NameMapping
from mangrove.model.plans.rules import PlanRules
from mangrove.model.security.external import ExternalCredentials
from mangrove.model.security.rules import Security
from mangrove.model.site_pair import site_pair
from mangrove.model.topics import Contract, TopicRules

HINT = "see docs/how-to/write-a-federation-file.md for all keys, with an example"


@dataclass(frozen=True, slots=True)
class Reading:
    """What became of a file: a federation, or mistakes; and the external brokers it names, by their place."""

    source: str
    federation: Federation | None
    mistakes: tuple[Mistake, ...]
    external_heads: dict[str, tuple[str, BrokerKind]]
    """Where gateways are to attach, and to what kind of broker."""

    def require(self, further: list[Mistake] | None = None) -> Federation:
        """The federation, or one error with all mistakes and the `further` ones found by looking around."""
        mistakes = [*self.mistakes, *(further or [])]
        if mistakes or self.federation is None:
            raise InvalidDocumentError(self.source, mistakes, hint=HINT)
        return self.federation


def load_federation(path: Path) -> Federation:
    """Read a federation file, or raise InvalidDocumentError with every mistake in it."""
    return read_federation(path).require()


def read_federation(path: Path) -> Reading:
    """Read a federation file without judging it yet."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"cannot read {path}: {problem}", hint="give the path of a federation file"
        ) from None
    return parse_federation(text, str(path), path.parent)


def parse_federation(text: str, source: str, directory: Path | None = None) -> Reading:
    """Parse the text of a federation file; other files that it names are in `directory`, or here."""
    raw, mistakes = read_yaml(text)
    if raw is None and not mistakes:
        mistakes = [Mistake("", "the file is empty", "at least `federation:` and `domains:`")]
    if raw is None:
        return Reading(source, None, tuple(mistakes), {})
    raw = nulls_as_empty(raw)
    document = None
    try:
        document = FederationDocument.model_validate(raw)
    except ValidationError as error:
        mistakes += [_mistake(item, access_prefix(raw)) for item in error.errors(include_url=False)]
    mistakes += cross_field_mistakes(raw)
    failures = read_failures(raw, directory or Path())
    calibration = read_calibration(raw, directory or Path())
    transforms = read_transforms(raw, directory or Path())
    mistakes += [*failures.mistakes, *calibration.mistakes, *transforms.mistakes]
    federation = None
    if document is not None and not mistakes:
        federation = _federation(document, failures, calibration, directory or Path(), access_prefix(raw))
        federation = msgspec.structs.replace(
            federation, transforms=transforms_of(document.transforms, transforms)
        )
        mistakes += contradictions(federation.access)
    return Reading(source, federation, tuple(mistakes), _external_heads(raw))


def _mistake(item: Any, access: str) -> Mistake:
    """A pydantic error in our words: the path, what was found, what is allowed.

    Rules stand directly under `access` where that is a list.
    """
    path = ""
    for part in item["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    path = path.removesuffix(".[key]").replace("access.rules", access, 1)
    found = found_text(item.get("input"))
    match item["type"]:
        case "extra_forbidden":
            return Mistake(path, "unknown key", _keys_beside(item["loc"]))
        case "missing":
            return Mistake(path, "is missing")
        case "value_error":
            reason = str(item["ctx"]["error"])
            return Mistake(path, f"found {found}: {reason}")
        case _:
            return Mistake(path, f"found {found}", item["msg"].removeprefix("Input should be "))


def _keys_beside(loc: tuple[Any, ...]) -> str:
    """The keys that are allowed where an unknown one was found."""
    where: type[Strict] = FederationDocument
    tables: dict[str, type[Strict]] = {
        "domains": DomainDocument,
        "links": LinkDocument,
        "topics": TopicDocument,
        "head": EdgeDocument,
        "edges": EdgeDocument,
        "balancing": BalancingDocument,
        "congestion": CongestionDocument,
        "limits": LimitsDocument,
        "client": ClientLimitsDocument,
        "regions": RegionDocument,
        "risk_groups": RiskGroupDocument,
        "external": ExternalDocument,
        "credentials": ExternalCredentialsDocument,
        "hosts": HostDocument,
        "elastic": ElasticDocument,
        "names": NameDocument,
        "transforms": TransformDocument,
        "transform": TransformUseDocument,
        "plans": PlansDocument,
        "access": AccessDocument,
        "rules": AccessRuleDocument,
        "who": WhoDocument,
        "security": SecurityDocument,
    }
    for part in loc[:-1]:
        inside_topic = where is TopicDocument and part == "limits"
        where = SessionLimitsDocument if inside_topic else tables.get(str(part), where)
    return ", ".join(where.model_fields)


def _external_heads(raw: Any) -> dict[str, tuple[str, BrokerKind]]:
    """Where external brokers are to be attached to, by their path in the file, as far as it can be told."""
    found: dict[str, tuple[str, BrokerKind]] = {}
    domains = raw.get("domains") if isinstance(raw, dict) else None
    for name, domain in domains.items() if isinstance(domains, dict) else ():
        external = domain.get("external") if isinstance(domain, dict) else None
        if isinstance(external, dict):
            key = "leaf" if external.get("leaf") else "head"
            try:
                kind = kind_in(domain)
                if kind is None:
                    continue  # reported as a mistake of its own, as is what is no URL
                url = _attach_url(external, kind)
            except ValueError:
                continue
            found[f"domains.{name}.external.{key}"] = (url, kind)
    return found


def _attach_url(external: dict[str, Any], kind: BrokerKind) -> str:
    """Where a gateway attaches, with all that it has to know of the broker."""
    head, leaf = str(external.get("head", "")), external.get("leaf")
    if leaf:
        return str(leaf)
    parts = urlsplit(head)
    if not parts.hostname:
        raise ValueError(head)
    if kind is BrokerKind.RABBITMQ:
        asked = {"exchange": external.get("exchange"), "management": external.get("monitor")}
        query = urlencode({name: value for name, value in asked.items() if value})
        return urlunsplit(parts._replace(query=query))
    user = f"{parts.username}:{parts.password}@" if parts.username else ""
    urls = BROKER_URLS[kind]
    return f"{urls.attach_scheme}://{user}{Address(parts.hostname, urls.attach_port)}"


def _credentials(given: ExternalCredentialsDocument | None, directory: Path) -> ExternalCredentials | None:
    """Where the secrets of external brokers are; files are named from where the federation file is."""
    if given is None:
        return None
    files = {name: getattr(given, name) for name in ("password_file", "nkey_file", "ca_file")}
    return ExternalCredentials(
        user=given.user,
        password_env=given.password_env,
        **{name: str(directory / path) if path else "" for name, path in files.items()},
    )


def _federation(
    document: FederationDocument,
    failures: FailuresFile,
    calibration: CalibrationFile,
    directory: Path,
    access_place: str,
) -> Federation:
    domains = {}
    for position, (name, domain) in enumerate(document.domains.items()):
        external = domain.external
        kind = domain.kind if external is None or external.kind is None else external.kind
        domains[name] = Domain(
            name=name,
            location=domain.location,
            failure_probability=_first(domain.failure_probability, failures.sites.get(name)),
            head=_broker(domain.head, calibration),
            edges=tuple(_broker(edge, calibration) for edge in domain.edges),
            address=domain.address,
            base_port=domain.base_port or default_base_port(position),
            kind=kind,
            external=None
            if external is None
            else External(
                head=external.head,
                leaf=_attach_url(external.model_dump(), kind),
                monitor=external.monitor,
                edges=tuple(external.edges),
                kind=kind,
                credentials=_credentials(external.credentials, directory),
            ),
            placement=domain.placement,
            accept_load_from=tuple(domain.accept_load_from),
            steer=domain.steer,
            move_plain_clients=domain.move_plain_clients,
            hosts=tuple(
                Host(name=host, address=described.address, brokers=tuple(described.brokers))
                for host, described in domain.hosts.items()
            ),
            gateways=domain.gateways,
            elastic=msgspec.convert(domain.elastic.model_dump(), Elastic),
            health_port=domain.health_port,
            names=tuple(
                NameMapping(local=each.local, federation=each.federation, direction=each.direction)
                for each in domain.names
            ),
        )
    return Federation(
        name=document.federation,
        domains=domains,
        links=tuple(_link(link, failures) for link in document.links),
        topics=TopicRules(tuple(msgspec.convert(topic.model_dump(), Contract) for topic in document.topics)),
        max_message_bytes=document.max_message_bytes,
        queue_bytes=document.queue_bytes,
        limits=msgspec.convert(document.limits.model_dump(), Limits),
        regions=msgspec.convert(
            {name: region.model_dump() for name, region in document.regions.items()}, dict[str, Region]
        ),
        risk_groups={
            name: RiskGroup(links=tuple(site_pair(*link) for link in group.links), sites=tuple(group.sites))
            for name, group in document.risk_groups.items()
        },
        prepare=document.prepare,
        urgency=document.urgency,
        balancing=msgspec.convert(document.balancing.model_dump(), Balancing),
        congestion=msgspec.convert(document.congestion.model_dump(), Congestion),
        plans=_plans(document.plans, directory),
        access=access_of(document.access, access_place),
        security=_security(document.security, directory),
    )


def _plans(document: PlansDocument, directory: Path) -> PlanRules:
    """Agents run elsewhere than the file is: they are told the whole path."""
    return PlanRules(
        policy=document.policy,
        directory="" if document.directory is None else str((directory / document.directory).absolute()),
        window=tuple(document.window),
        moves_at_once=document.moves_at_once,
        max_age_s=document.max_age_h * 3600,
    )


def _security(document: SecurityDocument, directory: Path) -> Security:
    """Processes run elsewhere than the file is: they are told the whole path."""
    keys = "" if document.keys is None else str((directory / document.keys).absolute())
    return Security(mode=document.mode, keys=keys)


def _broker(document: EdgeDocument, calibration: CalibrationFile) -> Edge:
    return Edge(
        capacity=_first(document.capacity, calibration.capacity), bandwidth_mbps=document.bandwidth_mbps
    )


def _link(document: LinkDocument, failures: FailuresFile) -> Link:
    link = msgspec.convert(document.model_dump(), Link)
    probability = _first(link.failure_probability, failures.links.get(link.pair))
    return msgspec.structs.replace(link, failure_probability=probability)


def _first(stated: float | None, measured: float | None) -> float | None:
    """What the federation file states is stronger than what was measured."""
    return measured if stated is None else stated
