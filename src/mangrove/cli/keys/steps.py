"""The steps in which keys are replaced, so that nobody meets a key that it does not believe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mangrove.host.keys.inspection import KeysReport
from mangrove.host.keys.rotation import Part, change_authority, finish, introduce_authority, rotate


@dataclass(frozen=True, slots=True)
class Step:
    """One change of the key directory; all sites should have it before the next."""

    said: str
    """What is so when it is done."""
    take: Callable[[Path], object]
    options: str
    ends: bool = False
    """Whether keys are believed no longer after it."""

    def command(self, file: Path) -> str:
        """By which it is taken."""
        return f"mangrove keys rotate {file} {self.options}"


def steps(
    report: KeysReport,
    *,
    everything: bool = False,
    authority: bool = False,
    finish: bool = False,
    domains: tuple[str, ...] = (),
    parts: tuple[str, ...] = (),
    client: str = "",
) -> list[Step]:
    """What is to be done from here: what was begun is gone on with."""
    end = Step("what was replaced is no longer believed", _finish, "--finish", ends=True)
    if finish:
        return [end]
    if domains:
        chosen = [Part(each) for each in parts] or ([Part.CLIENTS] if client else list(Part))
        return [_of_domains(domains, chosen, client), end]
    option = "--all" if everything else "--authority"
    begin = Step("a next authority is believed, and issues nothing yet", introduce_authority, option)
    change = Step("the next authority has certified everybody anew", change_authority, option)
    if everything:
        change = Step("everything is new, from the next authority on", _everything, option)
    if report.authority_follows:
        return [change, end]
    if report.overlapping and len([each for each in report.certificates if not each.domain]) > 1:
        return [end]
    return [begin, change, end]


def _of_domains(domains: tuple[str, ...], parts: list[Part], client: str) -> Step:
    whose = f"the client {client}" if client else ", ".join(parts)
    return Step(
        f"{', '.join(domains)}: new keys for {whose}",
        lambda path: rotate(path, domains=domains, parts=parts, client=client),
        " ".join(f"--domain {each}" for each in domains),
    )


def _everything(path: Path) -> None:
    change_authority(path)
    rotate(path)


def _finish(path: Path) -> None:
    finish(path)
