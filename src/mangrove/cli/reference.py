"""The reference page of the command line. `python -m mangrove.cli.reference DIR` writes all pages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer.main

from mangrove.cli.main import app
from mangrove.config.reference import federation_file_reference
from mangrove.lake.reference import lake_reference
from mangrove.model.metrics.catalogue import metrics_reference


def command_line_reference() -> str:
    """Markdown with the usage, arguments and options of every command."""
    parts = ["# Command line", "", "Generated from the code by `make docs`."]
    parts += [
        "",
        "Exit codes: 0 done, 1 the answer is negative (down, lost, infeasible, bar missed), 2 bad input, "
        "130 interrupted. With `--json`, stdout has one JSON document; logs and progress go to stderr.",
    ]
    _describe(typer.main.get_command(app), "mangrove", parts)
    return "\n".join(parts) + "\n"


def _describe(command: Any, path: str, parts: list[str]) -> None:
    for name, child in getattr(command, "commands", {}).items():
        if getattr(child, "commands", None):
            _describe(child, f"{path} {name}", parts)
            continue
        arguments = [param for param in child.params if param.param_type_name == "argument"]
        options = [param for param in child.params if param.param_type_name == "option" and not param.hidden]
        usage = " ".join(
            argument.name.upper() if argument.required else f"[{argument.name.upper()}]"
            for argument in arguments
        )
        parts += ["", f"## {path} {name} {usage}".rstrip(), "", " ".join((child.help or "").split())]
        rows = [(f"`{argument.name.upper()}`", argument) for argument in arguments]
        rows += [(", ".join(f"`{flag}`" for flag in option.opts), option) for option in options]
        rows = [(flags, param) for flags, param in rows if param.name != "help"]
        if rows:
            parts += ["", "| argument or option | default | meaning |", "|---|---|---|"]
        for flags, param in rows:
            default = param.default
            absent = default is None or default is False or default == "" or callable(default)
            shown = "" if absent else f"`{default}`"
            parts.append(f"| {flags} | {shown} | {param.help or ''} |")


PAGES = {
    "federation-file.md": federation_file_reference,
    "command-line.md": command_line_reference,
    "telemetry-lake.md": lake_reference,
    "metrics.md": metrics_reference,
}


def main() -> None:
    """Write the reference pages into a directory."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, render in PAGES.items():
        (directory / name).write_text(render())


if __name__ == "__main__":
    main()
