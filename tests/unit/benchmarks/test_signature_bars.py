"""The bars of the benchmark of signatures are judged as they are written."""

from __future__ import annotations

from io import StringIO

import pytest
from benchmarks import signatures
from rich.console import Console

KIND = {"sign_us": 50.0, "judge_us": 150.0, "plain_bytes": 150.0, "signed_bytes": 700.0}
REST = {"signs_s": 1.0, "judges_s": 3.0, "share": 0.001}
STORM = {f"{who}_{figure}": 0.3 for who in ("author", "middle", "late") for figure in ("s", "longest_ms")}


def result(share: float = 0.01, author_s: float = 0.9) -> dict[str, object]:
    many = {"many_signs_s": 2.0, "many_judges_s": 50.0, "many_share": share}
    storms = {"without keys": STORM, "with keys": STORM | {"author_s": author_s}}
    return {"kinds": {"link state": KIND}, "rest": REST | many, "subjects": 100_000, "storms": storms}


@pytest.mark.parametrize(
    ("flaw", "words"),
    [({}, None), ({"share": 0.06}, "200 sites at rest take 6.0 %"), ({"author_s": 1.3}, "4.33 times")],
)
def test_each_bar_is_judged(flaw: dict[str, float], words: str | None) -> None:
    found = signatures.missed(result(**flaw))
    assert len(found) == (words is not None)
    assert not words or words in found[0]


def test_the_report_fits_the_page() -> None:
    console = Console(width=80, record=True, file=StringIO())
    signatures.render(result(), console)
    assert max(map(len, console.export_text().splitlines())) <= 80
