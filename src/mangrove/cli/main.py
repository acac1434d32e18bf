"""Entry point of the `mangrove` command: the list of commands, and errors turned into exit codes."""

from __future__ import annotations

import sys

import typer

from mangrove.cli import bench, evaluate, plan
from mangrove.errors import EXIT_INTERRUPTED, MangroveError

app = typer.Typer(
    name="mangrove",
    help="Resilient, QoS-aware, federated publish/subscribe messaging over real brokers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("bench")(bench.bench)
app.add_typer(plan.app, name="plan")
app.add_typer(evaluate.app, name="evaluate")


def main() -> None:
    """Run the command line; errors raised on purpose become a message, a hint and an exit code."""
    try:
        app()
    except MangroveError as error:
        sys.stderr.write(f"error: {error.message}\n")
        if error.hint:
            sys.stderr.write(f"hint: {error.hint}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
