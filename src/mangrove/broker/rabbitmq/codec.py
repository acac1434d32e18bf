"""The library that writes and reads AMQP, which the extra of the package brings."""

from __future__ import annotations

from importlib.util import find_spec

from mangrove.errors import InputError

CODEC = "pamqp"


def require_codec() -> None:
    """InputError if the library is missing that the extra of the package brings."""
    if find_spec(CODEC) is None:
        raise InputError(
            f"a domain whose head is a RabbitMQ needs the package {CODEC}, which is not installed",
            hint="pip install 'mangrove-messaging[rabbitmq]'",
        )
