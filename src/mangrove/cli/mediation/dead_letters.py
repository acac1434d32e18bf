"""`mangrove dead-letters`: messages that a domain's gateway could not transform, as they are told."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mangrove.cli.federation.pubsub import (
    CredentialsOption,
    DomainOption,
    ServerOption,
    connecting,
)
from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.mediation.kept_payloads import KeptPayloads
from mangrove.cli.output import stderr_console
from mangrove.cli.running import run_async
from mangrove.errors import EXIT_NEGATIVE, InputError

if TYPE_CHECKING:
    from mangrove.client import Message

MAX_SIZE_DIGITS = 12


def dead_letters(
    subject: Annotated[str, typer.Argument(help="Only messages of this subject or pattern.")] = ">",
    domain: DomainOption = None,
    federation: FederationOption = None,
    server: ServerOption = None,
    run_dir: RunDirOption = None,
    credentials: CredentialsOption = None,
    count: Annotated[int, typer.Option(min=0, help="Stop after so many; 0 means never.")] = 0,
    timeout: Annotated[float, typer.Option(min=0, help="Stop after so many seconds; 0 means never.")] = 0.0,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write payloads into this directory, a file each.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document a line.")] = False,
) -> None:
    """Show messages that could not be transformed in a domain, with the reason, while they occur.

    With --count, exit code 1 if fewer came in time.
    """
    from mangrove.model.subjects import DEAD_LETTER_PREFIX, matches, subject_problem

    if problem := subject_problem(subject, wildcards=True):
        raise InputError(f"{subject!r} is no subject or pattern: {problem}")
    kept = None if out is None else KeptPayloads(out)
    seen = 0

    async def receive() -> None:
        nonlocal seen
        async with connecting(server, domain, federation, run_dir, credentials) as connection:
            subscription = await connection.subscribe(f"{DEAD_LETTER_PREFIX}>")
            await connection.flush()
            stderr_console().print("waiting for messages that cannot be transformed; Ctrl-C stops")
            async for message in subscription:
                letter = described(message)
                if not matches(subject, letter["subject"]):
                    continue
                seen += 1
                if kept is not None:
                    letter["file"] = str(kept.keep(message.data))
                _show(letter, as_json)
                if count and seen >= count:
                    return

    async def limited() -> None:
        try:
            async with asyncio.timeout(timeout or None):
                await receive()
        except TimeoutError:
            stderr_console().print(f"{seen} in {timeout:g} s")

    run_async(limited())
    if seen < count:
        raise typer.Exit(EXIT_NEGATIVE)


def described(message: Message) -> dict[str, Any]:
    """What a letter tells."""
    from mangrove.gateway.mediation.job import CUT_HEADER, REASON_HEADER, SUBJECT_HEADER, TRANSFORM_HEADER
    from mangrove.model.subjects import DEAD_LETTER_PREFIX

    headers = dict(message.headers)
    told = message.subject.removeprefix(DEAD_LETTER_PREFIX)
    whole = headers.pop(CUT_HEADER, "")
    text = message.data.decode(errors="replace")
    return {
        "received_at": time.time(),
        "subject": headers.pop(SUBJECT_HEADER, "") or told,
        "transform": headers.pop(TRANSFORM_HEADER, ""),
        "reason": headers.pop(REASON_HEADER, ""),
        "bytes": int(whole) if _is_size(whole) else len(message.data),
        "cut": bool(whole),
        "text": text if text.encode() == message.data else None,
        "hex": message.data.hex(),
        "headers": headers,
    }


def _is_size(text: str) -> bool:
    """Anybody may write such a header, and Python reads no number of more than some thousand digits."""
    return text.isascii() and text.isdecimal() and len(text) <= MAX_SIZE_DIGITS


def _show(letter: dict[str, Any], as_json: bool) -> None:
    import msgspec

    if as_json:
        line = msgspec.json.encode(letter).decode()
    else:
        at = time.strftime("%H:%M:%S", time.localtime(letter["received_at"]))
        size = f"{letter['bytes']:,} bytes{', cut' if letter['cut'] else ''}"
        line = f"{at} {letter['subject']} ({size}): {letter['reason']}"
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
