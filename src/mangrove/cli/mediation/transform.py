"""`mangrove transform`: try a transform of a federation file, without a federation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mangrove.cli.output import JsonOption, print_json, stderr_console
from mangrove.cli.running import run_async
from mangrove.errors import EXIT_NEGATIVE, InputError

app = typer.Typer(help="What gateways make of messages.", no_args_is_help=True)


@app.callback()
def root() -> None:
    """What gateways make of messages."""


@app.command("test")
def try_out(
    file: Annotated[Path, typer.Argument(help="A federation file.")],
    name: Annotated[str, typer.Argument(help="A name under `transforms`.")],
    payload: Annotated[
        Path | None, typer.Option("--input", help="File with a payload. [default: standard input]")
    ] = None,
    subject: Annotated[str, typer.Option(help="The subject of the message.")] = "test",
    header: Annotated[list[str] | None, typer.Option(help="A header, NAME: VALUE. May be repeated.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Transform one payload as a gateway would, in a process and within its limits, and print the result."""
    from mangrove.broker.message_heads import encode_head
    from mangrove.config import load_federation
    from mangrove.gateway.mediation.exchange import Given, Outcome
    from mangrove.gateway.mediation.trial import tried

    federation = load_federation(file)
    transform = federation.transforms.get(name)
    if transform is None:
        known = ", ".join(federation.transforms) or "it has none"
        raise InputError(f"there is no transform {name!r} in {file}", hint=f"one of: {known}")
    headers = _headers(header or [])
    given = Given(subject, encode_head(headers) if headers else b"", _payload(payload))
    trial = run_async(tried(transform, given, federation.max_message_bytes))
    result = trial.result
    if as_json:
        text = result.payload.decode(errors="replace")
        print_json(
            {
                "outcome": result.outcome.name.lower(),
                "bytes": len(result.payload),
                "text": text if text.encode() == result.payload else None,
                "hex": result.payload.hex(),
                "failure": "" if result.failure is None else result.failure.value,
                "detail": result.detail,
                "ms": round(1000 * trial.took_s, 3),
            }
        )
    elif result.outcome is Outcome.TRANSFORMED:
        sys.stdout.buffer.write(result.payload)
        sys.stdout.buffer.flush()
    elif result.outcome is Outcome.LEFT_OUT:
        stderr_console().print("left out: no subscriber gets it", markup=False)
    else:
        failure = "" if result.failure is None else result.failure.value
        why = ": ".join(filter(None, (f"the transform {name} {failure}", result.detail)))
        stderr_console().print(f"a dead letter: {why}", markup=False, soft_wrap=True)
    if result.outcome is Outcome.FAILED:
        raise typer.Exit(EXIT_NEGATIVE)


def _payload(path: Path | None) -> bytes:
    if path is None:
        return sys.stdin.buffer.read()
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", hint="--input FILE") from None


def _headers(given: list[str]) -> dict[str, str]:
    from mangrove.broker.message_heads import header_problem

    headers: dict[str, str] = {}
    for each in given:
        name, colon, value = each.partition(":")
        problem = header_problem(name, value.strip()) if colon else "there is no colon in it"
        if problem:
            raise InputError(f"{each!r} is no header: {problem}", hint="--header 'NAME: VALUE'")
        headers[name] = value.strip()
    return headers
