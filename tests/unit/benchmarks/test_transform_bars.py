"""The benchmark of transforms runs, shows every kind, and judges by its bar."""

from __future__ import annotations

from io import StringIO

from benchmarks import transforms
from rich.console import Console


def test_every_kind_is_measured_and_shown() -> None:
    result = transforms.run(seed=1, quick=True)
    kinds = result["kinds"]
    assert isinstance(kinds, dict)
    assert set(kinds) == set(transforms.KINDS)
    assert all(figure > 0 for figures in kinds.values() for figure in figures.values())
    text = StringIO()
    transforms.render(result, Console(file=text, width=120))
    assert all(name in text.getvalue() for name in transforms.KINDS)


def test_the_bar_is_judged_as_it_is_written() -> None:
    assert not transforms.missed({"ratio": transforms.RATIO_BAR})
    (told,) = transforms.missed({"ratio": transforms.RATIO_BAR / 2})
    assert str(transforms.RATIO_BAR) in told
