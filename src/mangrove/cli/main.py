"""Entry point of the `mangrove` command: the list of commands, and errors turned into exit codes."""

from __future__ import annotations

import errno
import os
import signal
import sys
from typing import Annotated, NoReturn, TextIO

import typer

from mangrove.cli.access import access
from mangrove.cli.agents import leader, pause
from mangrove.cli.audit import audit
from mangrove.cli.demonstration import demo
from mangrove.cli.federation import (
    avoid,
    broker,
    directory,
    link,
    load,
    pubsub,
    replay,
    status,
    story,
    up,
)
from mangrove.cli.keys import keys
from mangrove.cli.measurement import bench, evaluate
from mangrove.cli.mediation import dead_letters, transform
from mangrove.cli.monitoring import metrics, monitor
from mangrove.cli.names import names
from mangrove.cli.optional import missing_library
from mangrove.cli.pipeline import calibrate, pipeline
from mangrove.cli.planning import plan
from mangrove.cli.routing import route
from mangrove.cli.spool import spool
from mangrove.cli.versions import apply, contract, membership, reload, rollback
from mangrove.errors import EXIT_INTERRUPTED, EXIT_NEGATIVE, MangroveError

app = typer.Typer(
    name="mangrove",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("up")(up.up)
app.command("demo")(demo.demo)
app.command("status")(status.status)
app.command("load")(load.load)
app.command("directory")(directory.directory)
app.command("leader")(leader.leader)
app.command("pause")(pause.pause)
app.command("resume")(pause.resume)
app.command("story")(story.story)
app.command("replay")(replay.replay)
app.command("pub")(pubsub.pub)
app.command("sub")(pubsub.sub)
app.command("dead-letters")(dead_letters.dead_letters)
app.command("metrics")(metrics.metrics)
app.command("link")(link.link)
app.command("broker")(broker.broker)
app.command("avoid")(avoid.avoid)
app.command("monitor")(monitor.monitor)
app.command("bench")(bench.bench)
app.command("calibrate")(calibrate.calibrate)
app.command("apply")(apply.apply)
app.command("history")(apply.history)
app.command("rollback")(rollback.rollback)
app.command("reload")(reload.reload)
app.command("join")(membership.join)
app.command("leave")(membership.leave)
app.command("expel")(membership.expel)
app.add_typer(contract.app, name="contract")
app.add_typer(access.app, name="access")
app.add_typer(audit.app, name="audit")
app.add_typer(keys.app, name="keys")
app.add_typer(names.app, name="names")
app.add_typer(plan.app, name="plan")
app.add_typer(spool.app, name="spool")
app.add_typer(route.app, name="route")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(evaluate.app, name="evaluate")
app.add_typer(transform.app, name="transform")


_OUTPUT_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EPIPE)
"""What happens to an output that was open."""


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Resilient, QoS-aware, federated publish/subscribe messaging over real brokers."""
    if version:
        from mangrove import __version__

        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line; errors raised on purpose become a message, a hint and an exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what a command has started ends with it
    try:
        try:
            app()
        except SystemExit:
            _flush(sys.stdout)
            raise
    except MangroveError as error:
        _fail(error)
    except ModuleNotFoundError as error:
        missing = missing_library(error)
        if missing is None:
            raise
        _fail(missing)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except OSError as error:
        if error.errno not in _OUTPUT_LOST:
            raise
        _drop_output()
        if error.errno == errno.EPIPE:  # whoever read has read enough
            sys.exit(EXIT_NEGATIVE)
        problem = error.strerror or str(error)
        where = error.filename or "the output"
        _fail(MangroveError(f"cannot write {where}: {problem}", hint="make room there, or write elsewhere"))


def _flush(output: TextIO | None) -> None:
    """Here, where what goes wrong can be told; a process that was started without an output has None."""
    if output is not None and not output.closed:
        output.flush()


def _drop_output() -> None:
    """What could not be written is not tried again when the process ends."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass  # an output without a file, as in tests


def _fail(error: MangroveError) -> NoReturn:
    sys.stderr.write(f"error: {error.message}\n")
    if error.hint:
        sys.stderr.write(f"hint: {error.hint}\n")
    sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
