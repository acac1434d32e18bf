"""What the documentation says is true: generated pages are current, links lead somewhere, commands exist."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from mangrove.cli.reference import PAGES
from mangrove.config import parse_federation

ROOT = Path(__file__).parents[1]
TEXTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
SOURCE = ROOT / "src" / "mangrove"
PROGRAMS = sorted(path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
ROOMS = {path.stem for path in SOURCE.iterdir() if path.is_dir() or path.suffix == ".py"}
FILE_TYPES = {"py", "md", "json", "yaml"}
NO_MODULES = {"mangrove.replaces", "mangrove.schema_version", "mangrove.groups", "mangrove.home"}
"""Names that begin like modules: keys in the metadata of the lake's files, and exchanges of a RabbitMQ."""


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_current(name: str) -> None:
    page = ROOT / "docs" / "reference" / name
    assert page.read_text() == PAGES[name](), "out of date: run `make docs`"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_complete_federation_files_in_the_texts_are_valid(path: Path) -> None:
    for block in re.findall(r"```yaml\n(.*?)```", path.read_text(), re.DOTALL):
        if block.startswith("federation:"):
            assert parse_federation(block, str(path)).mistakes == ()


def test_make_targets_in_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"`?make ([a-z]+)", (ROOT / "README.md").read_text())):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"


def written(path: Path) -> str:
    """What a file says to people: a page as it is; of a program its docstrings and comments."""
    text = path.read_text()
    if path.suffix == ".md":
        return text
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, documented)]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    return "\n".join([*(ast.get_docstring(node) or "" for node in nodes), *comments])


def lost_names(text: str) -> Iterator[str]:
    """Paths and modules that a text names and that do not exist.

    Paths from the root of the repository (`docs/…`, `src/…`); and in backticks, paths from the rooms
    (`overlay/engine`, with or without `.py`), dotted names with what they name in a module, and members of
    classes that exist here.
    """
    for path in re.findall(r"(?<![\w/.-])(?:docs|src|tests|benchmarks)/[\w./-]*\w", text):
        if not (ROOT / path).exists() and not re.search(
            r"/[A-Z]+\.", path
        ):  # benchmarks/NAME.py stands for any
            yield path
    for path in re.findall(r"`(\w+(?:/\w+)+)(?:\.py)?(?=[`:])", text):
        if path.split("/")[0] in ROOMS and not exists(path.split("/")):
            yield path
    for name in re.findall(r"`(\w+(?:\.\w+)+)(?:\(\))?`", text):
        first, *parts = name.split(".")
        if first == "mangrove" and name not in NO_MODULES and not exists(parts):
            yield name
        if first in ROOMS and parts[-1] not in FILE_TYPES and not exists([first, *parts]):
            yield name
        if first in CLASSES and not any(defines(code, [first, *parts]) for code in CLASSES[first]):
            yield name


def exists(parts: list[str]) -> bool:
    """Whether the parts lead to a folder or module of the source, or to a name in one."""
    place = SOURCE
    while parts and (place / parts[0]).is_dir():
        place, parts = place / parts[0], parts[1:]
    module = place / f"{parts[0]}.py" if parts else place / "__init__.py"
    if module.is_file():
        return defines(module.read_text(), parts[1:])
    return defines((place / "__init__.py").read_text(), parts)


def defines(code: str, parts: list[str]) -> bool:
    """Whether a module has what these names say: nothing, a name, or a name in a class."""
    body = ast.parse(code).body
    for name in parts:
        named = [node for node in body if name in names_of(node)]
        if not named:
            return False
        body = [*named[0].body, *own_attributes(named[0])] if isinstance(named[0], ast.ClassDef) else []
    return True


def own_attributes(definition: ast.ClassDef) -> Iterator[ast.stmt]:
    """What the methods of a class give it: `self.name = …`, told as plain assignments."""
    for node in ast.walk(definition):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield ast.Assign(targets=[ast.Name(node.attr)], value=ast.Constant(None))


def names_of(node: ast.stmt) -> set[str]:
    """What a statement gives a name to."""
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return {node.name}
        case ast.Assign():
            return {target.id for target in node.targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.Import() | ast.ImportFrom():
            return {alias.asname or alias.name for alias in node.names}
        case ast.If():  # what only type checkers import, because it is loaded when first used
            return {name for each in node.body for name in names_of(each)}
    return set()


def classes() -> dict[str, list[str]]:
    """The classes of the source, with the text of each module that defines one of that name."""
    found: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        code = path.read_text()
        for name in re.findall(r"^class (\w+)", code, re.MULTILINE):
            found.setdefault(name, []).append(code)
    return found


CLASSES = classes()


@pytest.mark.parametrize("path", [*TEXTS, *PROGRAMS], ids=lambda path: str(path.relative_to(ROOT)))
def test_paths_and_modules_that_are_named_exist(path: Path) -> None:
    assert sorted(lost_names(written(path))) == []


def test_lost_names_are_recognised() -> None:
    lost = [
        *("docs/decisions/0000-nothing.md", "tests/unit/nowhere.py", "overlay/nothing"),
        *("mangrove.overlay.nothing", "mangrove.overlay.engine.Nothing", "mangrove.nothing"),
        *("overlay.nothing", "OverlayEngine.nothing"),
    ]
    text = "see docs/decisions/0000-nothing.md, `tests/unit/nowhere.py`, `overlay/nothing.py`, "
    text += "`mangrove.overlay.nothing`, `mangrove.overlay.engine.Nothing`, `mangrove.nothing`, "
    text += "`overlay.nothing`, `OverlayEngine.nothing()`."
    assert list(lost_names(text)) == lost
    fine = "`src/mangrove/overlay/engine.py`, `overlay/engine`, `a/b`, `mangrove.overlay`, `mangrove.connect`"
    fine += (
        "`mangrove.overlay.engine.OverlayEngine.receive()`, docs/README.md, `overlay.engine`, `model.json`, "
    )
    fine += "`HeadSide.flush`, `OverlayEngine.domain`, `Unknown.thing`."
    assert list(lost_names(fine)) == []


def walks() -> dict[str, list[str]]:
    """The walks in the chapter on architecture: by title, their steps."""
    text = (ROOT / "docs" / "concepts" / "architecture.md").read_text().partition("## A walk")[2]
    chapters = re.findall(r"^### (.+?)\n(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL)
    return {title: re.findall(r"^\d+\. (.*(?:\n +.*)*)", steps, re.MULTILINE) for title, steps in chapters}


WALKS = walks()


def test_eight_things_are_walked_along() -> None:
    assert list(WALKS) == [
        "A message",
        "A failure",
        "A mirrored message",
        "A federation file",
        "A key",
        "An agent",
        "A subscription that moves",
        "Telemetry",
    ]
    assert all(len(steps) > 10 for steps in WALKS.values())


@pytest.mark.parametrize("title", WALKS)
def test_every_step_of_a_walk_is_in_the_code(title: str) -> None:
    """A step names a module and then what is entered there; both exist."""
    lost = []
    for step in WALKS[title]:
        named = re.match(r"`(\S+)\.py` ((?:`[\w.]+`(?:, )?)+): ", step.replace("\n   ", ""))
        assert named, f"not a step: {step}"
        names = re.findall(r"`([\w.]+)`", named[2])
        lost += [f"{named[1]}.py {n}" for n in names if not exists([*named[1].split("/"), *n.split(".")])]
    assert lost == []
