"""What values of a federation file may be: names, places, patterns, and what is short for what."""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from mangrove.model.access.rules import ANYBODY
from mangrove.model.address import Address, checked_host
from mangrove.model.plans.windows import window_problem
from mangrove.model.subjects import is_internal, subject_problem
from mangrove.model.topics import Mirror

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
MAX_MESSAGE_LIMIT_BYTES = 32 << 20
MAX_EDGES = 64
MAX_HOSTS = 16
MAX_NAMES = 1_000
MAX_ACCESS_RULES = 100_000


def checked_name(text: str) -> str:
    """What a site, a link or a region may be called."""
    if not NAME.fullmatch(text):
        raise ValueError("a name has letters, digits, '-' and '_', starts with a letter or digit, at most 63")
    return text


def url(*schemes: str) -> AfterValidator:
    """A URL of one of these schemes, with a port."""

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


def endpoint(text: str) -> str:
    """A host and a port."""
    Address.parse(text)
    return text


def pattern(text: str) -> str:
    """Subjects that clients may use, with wildcards."""
    problem = subject_problem(text, wildcards=True)
    if problem:
        raise ValueError(f"not a valid subject: {problem}")
    if is_internal(text):
        raise ValueError("subjects that start with '$' or '_' belong to the brokers and are never federated")
    return text


def listed_edges(value: Any) -> Any:
    """`edges: 2` is short for two edges without further properties."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= MAX_EDGES:
            raise ValueError(f"between 0 and {MAX_EDGES} edge brokers are possible")
        return [{}] * value
    return value


def mirror_mode(value: Any) -> Any:
    """`mirror: true` is short for `both`, and `false` for `none`."""
    if isinstance(value, bool):
        return Mirror.BOTH if value else Mirror.NONE
    return value


def positive_capacity(value: float) -> float:
    """Nothing can be said of a broker that can carry nothing: every load would be infinitely too much."""
    if value <= 0:
        raise ValueError("what a broker can carry is above 0; leave it out if it is not known")
    return value


def elastic_section(value: Any) -> Any:
    """`elastic: true` switches brokers off at low load, and adds none."""
    return {"enabled": value} if isinstance(value, bool) else value


def security_section(value: Any) -> Any:
    """`security: none` is short for the mode; a key directory alone means that there are keys."""
    return {"mode": value} if isinstance(value, str) else value


def checked_window(text: str) -> str:
    """A time of the day and of the week."""
    if problem := window_problem(text):
        raise ValueError(problem)
    return text


def listed(value: Any) -> Any:
    """One is short for a list of it."""
    return [value] if isinstance(value, str) else value


def listed_names(value: Any) -> Any:
    """One name is short for a list of it, and `*` for no condition at all."""
    return [] if listed(value) == [ANYBODY] else listed(value)


def access_section(value: Any) -> Any:
    """A list of rules is short for a section with all defaults."""
    return {"rules": value} if isinstance(value, list) else value


Name = Annotated[str, AfterValidator(checked_name)]
Host = Annotated[str, AfterValidator(checked_host)]
Latitude = Annotated[float, Field(ge=-90, le=90)]
Longitude = Annotated[float, Field(ge=-180, le=180)]
Place = tuple[Latitude, Longitude]
Probability = Annotated[float, Field(ge=0, lt=1)]
Resiliency = Annotated[float, Field(gt=0, lt=1)]
Paths = Annotated[int, Field(ge=1, le=8)]
Rate = Annotated[float, Field(gt=0, le=1e12)]
Names = Annotated[list[str], BeforeValidator(listed_names)]


class Strict(BaseModel):
    """Unknown keys are mistakes; numbers are numbers."""

    model_config = ConfigDict(extra="forbid", strict=False, allow_inf_nan=False)


Share = Annotated[float, Field(gt=0, le=1)]
