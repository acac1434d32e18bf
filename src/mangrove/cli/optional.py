"""Libraries that come with an extra of the package: what is missing becomes one line with the remedy."""

from __future__ import annotations

from importlib.util import find_spec

from mangrove.errors import InputError

# Library → the extra of the package that brings it. The base package carries messages without any of them.
EXTRAS = {
    "pyarrow": "pipelines",
    "pyspark": "pipelines",
    "pandas": "pipelines",
    "py4j": "pipelines",
    "grpc": "pipelines",
    "zstandard": "pipelines",
    "pymoo": "plan",
    "matplotlib": "evaluation",
    "topohub": "evaluation",
    "nicegui": "monitor",
    "prometheus_client": "monitor",
    "opentelemetry": "tracing",
    "pamqp": "rabbitmq",
    "jmespath": "transforms",
    "lxml": "transforms",
    "playwright": "dev",
    "psutil": "dev",
}


class MissingLibraryError(InputError):
    """A command needs a library that is not installed."""

    def __init__(self, library: str, extra: str) -> None:
        self.library = library
        self.extra = extra
        super().__init__(
            f"this needs the package {library}, which is not installed",
            hint=f"pip install 'mangrove-messaging[{extra}]'",
        )


def require_library(library: str) -> None:
    """Say at once what is missing, where it would show only in processes that are started later."""
    if find_spec(library) is None:
        raise MissingLibraryError(library, EXTRAS[library])


def missing_library(error: ModuleNotFoundError) -> MissingLibraryError | None:
    """The error to show instead; None if what is missing is not an optional library but a fault of ours."""
    library = (error.name or "").partition(".")[0]
    return MissingLibraryError(library, EXTRAS[library]) if library in EXTRAS else None
