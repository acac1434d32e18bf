"""What the documentation says is true: generated pages are current, links lead somewhere, commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mangrove.cli.reference import PAGES
from mangrove.config import parse_federation

ROOT = Path(__file__).parents[1]
TEXTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


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
