"""The user's own functions: found without running them, and called with what a message holds.

    def function(payload: bytes, subject: str, headers: Mapping[str, str]) -> bytes | None

Whatever else it returns is garbage, and whatever it raises a failure.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import entry_points
from pathlib import Path

from mangrove.mediation.transformation import Apply, TransformError, UnfitMessageError

GROUP = "mangrove_transforms"
_PLACE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def unchanged(payload: bytes, subject: str, headers: Mapping[str, str]) -> bytes | None:
    """The least that a function can do: an example, and what it costs to call one."""
    return payload


def found_function(name: str) -> Apply:
    """The function itself, its module imported; TransformError if there is none."""
    module, _, function = _place(name).partition(":")
    try:
        called = getattr(import_module(module), function, None)
    except Exception as error:  # a module of the user's may raise anything
        raise TransformError(
            "function", f"{module} cannot be imported: {type(error).__name__}: {error}"
        ) from None
    if not callable(called):
        raise TransformError("function", f"there is no function {function!r} in {module}")

    def apply(payload: bytes, subject: str, headers: Mapping[str, str]) -> bytes | None:
        result = called(payload, subject, headers)
        if result is None:
            return None
        if isinstance(result, bytes):
            return bytes(result)  # those of a class of its own could not be sent
        raise UnfitMessageError(f"{name} returned {type(result).__name__}, not bytes")

    return apply


def function_problem(name: str) -> str:
    """Why a function cannot be called, as far as can be told without importing anything; empty if it can."""
    try:
        module, _, function = _place(name).partition(":")
    except TransformError as error:
        return error.message
    spec = _spec(module)
    if spec is None:
        return f"there is no module {module!r} here"
    if spec.origin is None or not spec.origin.endswith(".py"):
        return ""
    try:
        defined = _defined(ast.parse(Path(spec.origin).read_bytes()))
    except (OSError, SyntaxError, ValueError) as error:
        return f"{module} cannot be read: {error}"
    known = defined is None or function in defined
    return "" if known else f"there is no function {function!r} in {module}"


def _place(name: str) -> str:
    """Module and function, also of an entry point."""
    if ":" in name:
        if not _PLACE.fullmatch(name):
            raise TransformError("function", f"{name!r} is not `module:function`")
        return name
    found = entry_points(group=GROUP, name=name)
    if not found:
        known = ", ".join(sorted(each.name for each in entry_points(group=GROUP))) or "none is installed"
        raise TransformError("function", f"there is no entry point {name!r} in the group {GROUP} ({known})")
    return next(iter(found)).value.partition("[")[0].replace(" ", "")


def _spec(module: str) -> ModuleSpec | None:
    """Where a module is; packages around it are found, not imported."""
    path: list[str] | None = None
    name, spec = "", None
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = PathFinder.find_spec(name, path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or ())
    return spec


def _defined(tree: ast.Module) -> set[str] | None:
    """Names that a module defines at its top; None if that cannot be told."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.ImportFrom(names=imported) | ast.Import(names=imported):
                names |= {each.asname or each.name for each in imported}
    return None if "*" in names or "__getattr__" in names else names
