"""`mangrove pub` and `mangrove sub`: the SDK from the command line."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, print_json, stderr_console
from mangrove.cli.running import run_async
from mangrove.errors import EXIT_NEGATIVE, InputError, MangroveError

if TYPE_CHECKING:
    from mangrove.client import Connection, Message
    from mangrove.client.connecting import Connecting
    from mangrove.client.subscription import Subscription

DomainOption = Annotated[str | None, typer.Option("--domain", "-d", help="Site to connect to.")]
ServerOption = Annotated[str | None, typer.Option("--server", help="URL of a broker, instead of a domain.")]
CredentialsOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the client to connect as. [default: MANGROVE_CREDENTIALS, or what `up` made]"
    ),
]


def pub(
    subject: Annotated[str, typer.Argument(help="Subject to publish on.")],
    data: Annotated[str | None, typer.Argument(help="Text to send; `-` or nothing reads stdin.")] = None,
    domain: DomainOption = None,
    federation: FederationOption = None,
    server: ServerOption = None,
    run_dir: RunDirOption = None,
    credentials: CredentialsOption = None,
    count: Annotated[int, typer.Option(min=1, help="How often.")] = 1,
    rate: Annotated[float, typer.Option(min=0, help="Messages per second; 0 means no pause.")] = 0.0,
    header: Annotated[list[str] | None, typer.Option("--header", "-H", help="name:value")] = None,
    as_json: JsonOption = False,
) -> None:
    """Publish messages in a domain. Exit code 1 if a limit kept some of them back."""
    payload = sys.stdin.buffer.read() if data in (None, "-") else str(data).encode()
    headers = _headers(header or [])
    outcomes: Counter[str] = Counter()
    refused: dict[str, str] = {}

    async def publish() -> None:
        start = time.monotonic()
        async with connecting(server, domain, federation, run_dir, credentials) as connection:
            for number in range(count):
                outcome = await connection.publish(subject, payload, headers=headers)
                outcomes[outcome.value] += 1
                if rate:
                    await asyncio.sleep(max(0.0, start + (number + 1) / rate - time.monotonic()))
            await connection.flush()
            if server is None:
                refused.update(await _refusals(connection, subject))

    run_async(publish())
    sent, limited, unwanted = (outcomes[key] for key in ("sent", "limited", "unwanted"))
    if as_json:
        withheld = {key: outcomes[key] for key in ("limited", "unwanted") if outcomes[key]}
        rules = {"refused": refused} if refused else {}
        print_json({"subject": subject, "published": sent, "bytes": len(payload), **withheld, **rules})
    else:
        stderr_console().print(f"published {sent} × {len(payload)} bytes on {subject}")
        if limited:
            stderr_console().print(f"{limited} were not sent: the limit of {subject} is reached")
        if unwanted:
            stderr_console().print(f"{unwanted} were not sent: nobody in the federation subscribes")
        for why in dict.fromkeys(refused.values()):
            domains = ", ".join(name for name, reason in refused.items() if reason == why)
            stderr_console().print(f"it does not reach {domains}: {why}", markup=False)
    if limited:
        raise typer.Exit(EXIT_NEGATIVE)


async def _refusals(connection: Connection, subject: str) -> dict[str, str]:
    """Where what was published may not go; nothing if nobody knows."""
    with suppress(TimeoutError, MangroveError):
        return await connection.refusals(subject)
    return {}


def sub(
    subject: Annotated[str, typer.Argument(help="Subject or pattern to subscribe to.")],
    domain: DomainOption = None,
    federation: FederationOption = None,
    server: ServerOption = None,
    run_dir: RunDirOption = None,
    credentials: CredentialsOption = None,
    count: Annotated[int, typer.Option(min=0, help="Stop after so many messages; 0 means never.")] = 0,
    timeout: Annotated[float, typer.Option(min=0, help="Stop after so many seconds; 0 means never.")] = 0.0,
    queue: Annotated[str, typer.Option(help="Queue group to join.")] = "",
    where: Annotated[
        str | None, typer.Option(help="Only messages whose headers meet a condition: severity >= 3")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Say when the subscription is known in every reachable domain.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document a line.")] = False,
) -> None:
    """Print the messages of a subject as they arrive. With --count, exit code 1 if fewer came in time."""
    seen = 0

    from mangrove.client.selection import selection_of

    async def receive() -> None:
        nonlocal seen
        selection_of(where, queue, told=False)  # a mistake is told before anything is connected to
        async with connecting(server, domain, federation, run_dir, credentials) as connection:
            subscription = await connection.subscribe(subject, queue=queue, where=where)
            stderr_console().print(f"subscribed to {subject}; Ctrl-C stops")
            if wait:
                await _wait_until_ready(subscription)
            async for message in subscription:
                _print_message(message, as_json)
                seen += 1
                if count and seen >= count:
                    return

    async def limited() -> None:
        try:
            async with asyncio.timeout(timeout or None):
                await receive()
        except TimeoutError:
            stderr_console().print(f"{seen} messages in {timeout:g} s")

    run_async(limited())
    if seen < count:
        raise typer.Exit(EXIT_NEGATIVE)


async def _wait_until_ready(subscription: Subscription) -> None:
    try:
        await subscription.ready()
    except TimeoutError as error:
        raise MangroveError(str(error), hint="mangrove status tells what is down") from None
    stderr_console().print("ready: every domain that can be reached sends what it publishes")


def connecting(
    server: str | None,
    domain: str | None,
    federation: str | None,
    run_dir: Path | None,
    credentials: Path | None,
) -> Connecting:
    from mangrove.client import connect

    if server is not None:
        return connect(server, domain=domain, name="mangrove-cli", credentials=credentials)
    return connect(
        domain=domain,
        federation=federation,
        run_dir=run_dir,
        name="mangrove-cli",
        credentials=credentials,
    )


def _headers(pairs: list[str]) -> dict[str, str]:
    headers = {}
    for pair in pairs:
        name, colon, value = pair.partition(":")
        if not colon or not name.strip():
            raise InputError(f"the header {pair!r} is not of the form name:value")
        headers[name.strip()] = value.strip()
    return headers


def _print_message(message: Message, as_json: bool) -> None:
    import msgspec

    text = message.data.decode(errors="replace")
    if as_json:
        line = msgspec.json.encode(
            {
                "subject": message.subject,
                "data": text,
                "headers": dict(message.headers),
                "reply": message.reply or None,
                "received_at": time.time(),
            }
        ).decode()
    else:
        line = f"{message.subject}: {text}"
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
