"""A supervised RabbitMQ: one Erlang process that nobody can reach but by the listeners of its file.

It has a node name, a cookie and a data directory of its own. Erlang's distribution, by which nodes of a
cluster and RabbitMQ's command-line tools come in, is switched off: no epmd is started or asked, and there is
no port for it. The shell scripts replace themselves by the Erlang process, so that it is a child of who
started it, and dies with it.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from mangrove.errors import InputError
from mangrove.host.private_file import write_private
from mangrove.host.process import ManagedProcess
from mangrove.host.run_directory import RunDirectory

READY_TEXT = "Server startup complete"
READY_S = 90.0
"""Its first start takes ten seconds on an idle machine, six of which its MQTT plugin waits for a cluster."""
NOBODYS_PORT = 1
SCRIPT_PLACES = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "/opt/rabbitmq/sbin/rabbitmq-server")
PLUGINS = (
    "rabbitmq_event_exchange",
    "rabbitmq_management",
    "rabbitmq_mqtt",
    "rabbitmq_prometheus",
    "rabbitmq_stomp",
)


def rabbitmq_script() -> str:
    """The script that starts a RabbitMQ as whoever calls it, or InputError: Debian's command wants root."""
    here = (place for place in SCRIPT_PLACES if Path(place).exists())
    found = next(here, None) or shutil.which("rabbitmq-server")
    if found is None:
        raise InputError(
            "the program rabbitmq-server was not found",
            hint="on Debian or Ubuntu: apt-get install rabbitmq-server (and let it not run as a service), "
            "or name a broker that runs already under `external`",
        )
    return found


def rabbitmq_server(
    name: str, port: int, directory: Path, files: Mapping[str, bytes], plugins: tuple[str, ...] = PLUGINS
) -> ManagedProcess:
    """A RabbitMQ that will run with these files, of which `rabbitmq.conf` is the configuration."""
    run = RunDirectory(directory)
    home = run.broker_home(name)
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    home.chmod(0o700)
    for file, content in {**files, "enabled_plugins": _enabled(plugins)}.items():
        write_private(home / file, content)
    return ManagedProcess(
        name,
        ["/usr/bin/env", *environment(name, port, home), rabbitmq_script()],
        log_path=run.log(name),
        ready_text=READY_TEXT,
        ready_within_s=READY_S,
        may_be_cut_short=True,
    )


def _enabled(plugins: tuple[str, ...]) -> bytes:
    return f"[{','.join(plugins)}].\n".encode()


def environment(name: str, port: int, home: Path) -> list[str]:
    """What RabbitMQ's scripts are told, as arguments of `env`; the machine's own settings are not read."""
    node = f"{name}@localhost"
    # Who asks epmd for the port of a node is answered with this number, and nobody is asked. All Erlang
    # processes are told so: RabbitMQ starts one every minute whose only work is to start an epmd.
    alone = f"-dist_listen false -start_epmd false -erl_epmd_port {port}"
    settings = {
        "HOME": home,
        "RABBITMQ_NODENAME": node,
        "RABBITMQ_MNESIA_BASE": f"{home}/data",
        "RABBITMQ_LOG_BASE": f"{home}/log",
        "RABBITMQ_CONFIG_FILE": f"{home}/rabbitmq.conf",
        "RABBITMQ_ADVANCED_CONFIG_FILE": f"{home}/advanced.config",
        "RABBITMQ_CONF_ENV_FILE": f"{home}/environment",
        "RABBITMQ_GENERATED_CONFIG_DIR": f"{home}/generated",
        "RABBITMQ_ENABLED_PLUGINS_FILE": f"{home}/enabled_plugins",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-sname {node}",
        "ERL_AFLAGS": alone,
        # Should an epmd be asked after all, it is none of the machine's: nobody listens there.
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": NOBODYS_PORT,
        # The script replaces itself by Erlang only where a supervisor watches the process: here, too.
        "RUNNING_UNDER_SYSTEMD": "true",
    }
    return ["-u", "NOTIFY_SOCKET", *(f"{name}={value}" for name, value in settings.items())]
