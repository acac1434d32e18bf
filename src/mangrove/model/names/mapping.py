"""One name, or space of names, that a domain calls otherwise than the federation does."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from mangrove.model.subjects import is_internal, subject_problem
from mangrove.model.topics import TopicRules, overlaps


class Direction(StrEnum):
    """Which way messages pass under other names: into the domain, out of it, or both."""

    BOTH = "both"
    IN = "in"
    OUT = "out"


class NameMapping(msgspec.Struct, frozen=True, kw_only=True):
    """A subject, or a whole space of them (`a.b.>`), and what the federation calls it."""

    local: str
    federation: str
    direction: Direction = Direction.BOTH

    @property
    def whole_space(self) -> bool:
        """Whether it maps all that begins so."""
        return self.local.endswith(".>")


class NameProblem(msgspec.Struct, frozen=True):
    """A mapping that cannot be, by its position, and what would be allowed."""

    position: int
    key: str
    found: str
    allowed: str


def mapping_problems(mappings: tuple[NameMapping, ...]) -> list[NameProblem]:
    """Why names would not be told apart; empty if they would.

    Neither the local names nor those of the federation may overlap: each subject has one name on either side.
    """
    found: list[NameProblem] = []
    for position, each in enumerate(mappings):
        for key, text in (("local", each.local), ("federation", each.federation)):
            if problem := name_problem(text):
                found.append(NameProblem(position, key, problem, "a subject, or a space like `plant.hall.>`"))
        if each.whole_space != each.federation.endswith(".>"):
            found.append(
                NameProblem(
                    position,
                    "federation",
                    f"{each.local!r} and {each.federation!r} are not alike",
                    "two subjects, or two spaces that end with `.>`",
                )
            )
    if found:
        return found
    for position, each in enumerate(mappings):
        for earlier in mappings[:position]:
            for key, one, other in (
                ("local", each.local, earlier.local),
                ("federation", each.federation, earlier.federation),
            ):
                if spaces_overlap(one, other):
                    found.append(
                        NameProblem(
                            position,
                            key,
                            f"{one!r} overlaps {other!r}, so some name would mean two things",
                            "names that fall under no other mapping; divide the wider one",
                        )
                    )
    return found


def name_problem(text: str) -> str:
    """Why a text is neither a subject nor a space of subjects."""
    name = text.removesuffix(".>")
    if problem := subject_problem(name, wildcards=False):
        return f"{text!r}: {problem}"
    if is_internal(name):
        return f"{text!r} belongs to brokers and gateways"
    return ""


def spaces_overlap(one: str, other: str) -> bool:
    """Whether two names or spaces, without other wildcards, share a subject."""
    first, second = one.split("."), other.split(".")
    for left, right in zip(first, second, strict=False):
        if ">" in (left, right):
            return True
        if left != right:
            return False
    return len(first) == len(second)


def names_digest(mappings: tuple[NameMapping, ...]) -> str:
    """Tells the names of a domain apart from those that it had before; empty if it has none of its own."""
    if not mappings:
        return ""
    return hashlib.blake2b(msgspec.json.encode(mappings), digest_size=6).hexdigest()


def problems_beside(mappings: tuple[NameMapping, ...], mirrored: Iterable[str]) -> list[NameProblem]:
    """Why a domain cannot have these names where such topics are mirrored; empty if it can."""
    return mapping_problems(mappings) or list(_reaching_over(mappings, mirrored))[:1]


def _reaching_over(mappings: tuple[NameMapping, ...], mirrored: Iterable[str]) -> Iterator[NameProblem]:
    """Mappings of mirrored topics, whose second copies keep the names of the federation."""
    for match in mirrored:
        for position, each in enumerate(mappings):
            for key, text in (("local", each.local), ("federation", each.federation)):
                if overlaps(match, text):
                    yield NameProblem(
                        position,
                        key,
                        f"{text!r} overlaps the mirrored topics {match!r}",
                        "names of topics without `mirror`: second copies keep the names of the federation",
                    )


def names_problem(mappings: tuple[NameMapping, ...], topics: TopicRules) -> str:
    """Why a domain cannot have these names under these contracts, in words; empty if it can."""
    found = problems_beside(mappings, [each.match for each in topics.contracts if each.mirror])
    return "; ".join(f"names[{each.position}].{each.key}: {each.found}" for each in found[:3])
