"""The list of recorded disasters: complete, on the globe, with sources; other lists are checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mangrove.errors import MangroveError
from mangrove.evaluation.disasters.recorded import recorded_disasters

ONE: dict[str, Any] = {
    "name": "Somewhere",
    "kind": "storm",
    "date": "2001-02-03",
    "points": [[10.0, 20.0], [11.0, 21.0]],
    "radius_km": 50,
    "source": "made up",
}


def listed(tmp_path: Path, **changes: Any) -> Path:
    file = tmp_path / "disasters.json"
    file.write_text(json.dumps({"about": "a test", "disasters": [ONE | changes]}))
    return file


def test_the_list_that_is_built_in() -> None:
    disasters = recorded_disasters()
    assert len(disasters) >= 10
    assert {disaster.kind for disaster in disasters} == {"earthquake", "storm"}
    assert len({disaster.title for disaster in disasters}) == len(disasters)
    assert [disaster.date for disaster in disasters] == sorted(disaster.date for disaster in disasters)
    for disaster in disasters:
        assert disaster.source.startswith(("USGS", "NOAA"))
        assert (disaster.magnitude is not None) == (disaster.kind == "earthquake")
    northridge = next(d for d in disasters if d.name == "Northridge")
    assert northridge.region.points == ((34.213, -118.537),)
    assert northridge.title == "Northridge 1994"


def test_a_list_of_ones_own(tmp_path: Path) -> None:
    (disaster,) = recorded_disasters(listed(tmp_path))
    assert disaster.region.points == ((10.0, 20.0), (11.0, 21.0))
    assert disaster.region.radius == 50


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"points": [[91.0, 0.0]]}, "a place on the globe"),
        ({"points": [[0.0, 181.0]]}, "a place on the globe"),
        ({"points": []}, "one or more places"),
        ({"radius_km": 0}, "above 0"),
        ({"radius_km": 1e6}, "up to 2000"),
        ({"source": " "}, "where this is recorded"),
        ({"kind": "meteor"}, "meteor"),
        ({"radius": 3}, "radius"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(MangroveError) as caught:
        recorded_disasters(listed(tmp_path, **changes))
    assert words in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(MangroveError, match="cannot read"):
        recorded_disasters(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(MangroveError, match=r"bad\.json"):
        recorded_disasters(tmp_path / "bad.json")
