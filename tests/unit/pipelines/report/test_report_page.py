"""The page: names from outside stay text, relatives stand together, plans are compared."""

from __future__ import annotations

import base64
import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.job_outputs import Elements, marked, plan_file, profile_output

from mangrove.errors import InputError
from mangrove.pipelines.jobs import report
from mangrove.pipelines.output import MARKER, write_json
from mangrove.pipelines.report import charts, matrix
from mangrove.pipelines.report.page import Section, data, page, table

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><svg onload=alert(1)>",
    "'; alert(1); '",
    "&lt;b&gt; \u2028 \x00 {{7*7}}",
    "a" * 300,
]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    profile_output(tmp_path / "out" / "profile", HOSTILE)
    odd = tmp_path / "out" / "strange"
    odd.mkdir()
    (odd / MARKER).write_text("<b>job</b>\n")
    write_json(odd / "summary.json", {"<i>x</i>": "<u>y</u>", "rows": [{"<s>": name} for name in HOSTILE]})
    brokers = ["<b>one</b>", "two"]
    now = plan_file(tmp_path / "now.json", {brokers[0]: HOSTILE[:3], brokers[1]: HOSTILE[3:]}, 0.01)
    was = plan_file(tmp_path / "was.json", {brokers[0]: HOSTILE[3:], brokers[1]: HOSTILE[:3]}, 0.2)
    report.run(tmp_path / "out", tmp_path / "page", now, was)
    text = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    elements = Elements(text).found
    assert not [tag for tag, _ in elements if tag in ("img", "b", "i", "u", "s", "iframe", "object")][1:]
    assert not [name for _, attributes in elements for name in attributes if name.startswith("on")]
    # The page's own script and the values of one picture; nothing comes from an address.
    assert len([tag for tag, _ in elements if tag == "script"]) == 2
    assert not [a for _, a in elements if a.keys() & {"src", "action", "formaction", "data"}]
    assert all(str(a["href"]).startswith("#s") for _, a in elements if "href" in a)
    (embedded,) = re.findall(r'<script type="application/json" id="correlation-profile">(.*?)</script>', text)
    found = json.loads(embedded)
    assert sorted(found["names"]) == sorted(HOSTILE)
    assert len(base64.b64decode(found["values"])) == len(HOSTILE) ** 2
    assert "Content-Security-Policy" in text
    assert text.count("<h3>What moves</h3>") == 1


@settings(max_examples=40, deadline=None)
@given(name=st.text(min_size=1, max_size=40))
def test_any_name_comes_back_as_it_was(name: str) -> None:
    parts = [
        table([{"name": name}], ["name"]),
        charts.columns([charts.Bar(name, 1.0, name)], name),
        charts.rows([charts.Bar(name, 1.0, name, mark=0.5)], name),
        charts.lines([(name, [(0.0, 1.0), (1.0, 2.0)])], name, name),
        charts.tiles([name], [name], [[0.5]], [[name]]),
    ]
    elements = Elements(page(name, name, [Section(name, "".join(parts))])).found
    assert {tag for tag, _ in elements} <= {
        *("html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "p", "button", "nav", "a"),
        *("main", "section", "div", "table", "tr", "th", "td", "svg", "g", "rect", "text", "path", "script"),
    }
    assert sum(a.get("data-t") == name for _, a in elements) >= 3
    inner = data("x", [name]).partition(">")[2].removesuffix("</script>")
    assert "<" not in inner
    assert json.loads(inner) == [name]


def test_topics_that_move_together_stand_together() -> None:
    rng = np.random.default_rng(1)
    common = rng.normal(size=(3, 500))
    kinds = [0, 1, 2] * 5
    series = np.array([common[kind] + 0.3 * rng.normal(size=500) for kind in kinds])
    correlation = matrix.correlations(np.cov(series))
    order, groups = matrix.by_cluster(correlation)
    assert sorted(order) == list(range(15))
    changes = sum(kinds[a] != kinds[b] for a, b in itertools.pairwise(order))
    assert changes == 2
    assert sorted(len(group) for group in groups) == [5, 5, 5]
    assert all(len({kinds[place] for place in group}) == 1 for group in groups)


def test_groups_are_found_within_a_common_trend() -> None:
    correlation = np.full((8, 8), 0.5)
    correlation[:4, :4] = correlation[4:, 4:] = 0.75
    np.fill_diagonal(correlation, 1.0)
    assert [len(group) for group in matrix.by_cluster(correlation)[1]] == [4, 4]
    alike = np.full((8, 8), 0.9)
    np.fill_diagonal(alike, 1.0)
    assert [len(group) for group in matrix.by_cluster(alike)[1]] == [8]
    assert matrix.by_cluster(np.eye(8))[1] == []


def test_a_topic_that_never_varies_has_no_correlation() -> None:
    found = matrix.correlations(np.array([[0.0, 0.0], [0.0, 4.0]]))
    assert found.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert matrix.by_cluster(np.ones((1, 1))) == ([0], [])


@pytest.mark.parametrize("content", ["[]", "{", '{"a": 1}', '{"allocation": 3}', '{"allocation": {"a": 3}}'])
def test_what_is_no_plan_is_refused(content: str, tmp_path: Path) -> None:
    profile_output(tmp_path / "out" / "profile", ["a", "b"])
    (tmp_path / "plan.json").write_text(content)
    with pytest.raises(InputError, match=r"plan\.json") as found:
        report.run(tmp_path / "out", tmp_path / "page", tmp_path / "plan.json")
    assert "plan allocate --json" in found.value.hint
    assert not (tmp_path / "page").exists()


def test_a_plan_of_before_needs_one_of_now(tmp_path: Path) -> None:
    profile_output(tmp_path / "out" / "profile", ["a", "b"])
    was = plan_file(tmp_path / "was.json", {"x": ["a"]}, 0.1)
    with pytest.raises(InputError, match="--before goes with --plan"):
        report.run(tmp_path / "out", tmp_path / "page", before=was)


def test_history_is_shown_where_there_is_one_and_not_missed_elsewhere(tmp_path: Path) -> None:
    profile_output(tmp_path / "out" / "profile", ["a", "b"])
    assert "risk" not in report.run(tmp_path / "out", tmp_path / "page")["missing"]
    name = HOSTILE[0]
    share = {"value": 0.02, "low": 0.01, "high": 0.03}
    broker = {"broker": name, "limit_msg_s": 100.0, "most_msg_s": 1234.5, "predicted": 0.001}
    broker |= {"observed": share, "overloaded_windows": 2, "windows": 100, "tail": None}
    broker |= {"verdict": "too low", "blamed": [{"item": name, "share": 0.5}]}
    item = {"item": name, "broker": name, "observed": share, "predicted": 0.001, "most_msg_s": 50.0}
    topic = {"topic": name, "domain": "north"}
    unwanted = topic | {"unwanted_messages": 12, "unwanted_share": 1.0, "seconds": 60}
    useless = topic | {"utility": 0.01, "useless_messages": 7, "useless_share": 0.97, "subscribers": 2}
    summaries: dict[str, dict[str, Any]] = {
        "risk": {"windows": 100, "window_s": 1, "items": 2, "brokers": [broker]}
        | {"misjudged_brokers": [name], "misjudged_items": [item]},
        "utility": {"topics": 2, "chronically_unwanted": 1, "unwanted_share": 0.1, "unwanted": [unwanted]}
        | {"judged_topics": 2, "chronically_useless": 1, "useless": [useless]},
    }
    for job, summary in summaries.items():
        marked(tmp_path / "out" / job, job, summary)
    report.run(tmp_path / "out", tmp_path / "page")
    text = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert "<h2>Risk</h2>" in text
    assert "<h2>Utility</h2>" in text
    assert "1,234" in text, "large figures have their thousands apart"
    assert len([tag for tag, _ in Elements(text).found if tag == "script"]) == 2
    hovers = [a["data-t"] or "" for _, a in Elements(text).found if "data-t" in a]
    assert any("in 2 of 100 windows" in hover for hover in hovers)
    assert any("utility 0.01 to 2 subscribers" in hover for hover in hovers)


def test_axes_and_moments_are_for_people() -> None:
    drawing = charts.lines(
        [("small", [(1.0, 9e3), (32.0, 1.67e5)])], "copies", "messages/s", logarithmic=True
    )
    assert "167 k" in drawing
    assert "e+0" not in drawing
    assert ">16<" in drawing, "copies are whole"
    assert ">small</text>" in drawing, "the key names the curves"
    assert "2026-03-02 10:00<" in table([{"start": "2026-03-02T10:00:00+00:00"}], ["start"])
    assert "2026-03-02T10:00:07Z" in table([{"start": "2026-03-02T10:00:07Z"}], ["start"])
