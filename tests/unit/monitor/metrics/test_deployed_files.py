"""Dashboards and alert rules name metrics and labels that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from mangrove.model.metrics.catalogue import CATALOGUE

DEPLOY = Path(__file__).parents[4] / "deploy"
NAME = re.compile(r"\bmangrove_[a-z_]+")
SELECTOR = re.compile(r"(mangrove_[a-z_]+)\{([^}]*)\}")
BY = re.compile(r"(?:by|on|without) \(([^)]*)\)")


def dashboard() -> dict[str, object]:
    found: dict[str, object] = json.loads((DEPLOY / "grafana" / "mangrove.json").read_text())
    return found


def rules() -> list[dict[str, str]]:
    found = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
    return [rule for group in found["groups"] for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression, with the text that names its labels."""
    panels = dashboard()["panels"]
    assert isinstance(panels, list)
    for panel in panels:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]
    for rule in rules():
        yield rule["expr"], str(rule["annotations"])


@pytest.mark.parametrize(("expression", "text"), list(expressions()))
def test_expressions_name_what_exists(expression: str, text: str) -> None:
    check(expression, text)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("mangrove_link_rtt_milliseconds", ""),
        ('mangrove_link_up{neighbour="a"} == 0', ""),
        ("sum by (topic) (mangrove_link_up)", ""),
        ("mangrove_link_up == 0", "{{ $labels.broker }} is down"),
        ("sum(mangrove_link_up", ""),
        ("1 + 1", ""),
    ],
)
def test_the_check_finds_what_does_not_exist(expression: str, text: str) -> None:
    with pytest.raises(AssertionError):
        check(expression, text)


@pytest.mark.parametrize("path", ["grafana/mangrove.json", "prometheus/alerts.yml"])
def test_nothing_else_in_the_files_names_what_does_not_exist(path: str) -> None:
    assert {*NAME.findall((DEPLOY / path).read_text())} <= CATALOGUE.keys()


def check(expression: str, text: str) -> None:
    names = NAME.findall(expression)
    assert names or expression.startswith("up{")
    assert {*names} <= CATALOGUE.keys()
    labels = {label for name in names for label in CATALOGUE[name].labels}
    for name, selector in SELECTOR.findall(expression):
        used = {part.partition("=")[0].strip("~! ") for part in selector.split(",")}
        assert used <= {*CATALOGUE[name].labels}
    for listed in BY.findall(expression):
        assert {each.strip() for each in listed.split(",")} <= labels
    assert {*re.findall(r"\{\{ ?(?:\$labels\.)?([a-z]+) ?\}\}", text)} <= labels
    assert expression.count("(") == expression.count(")")


def test_counters_are_read_as_rates() -> None:
    for expression, _ in expressions():
        for name in NAME.findall(expression):
            if name.endswith("_total"):
                assert re.search(rf"(rate|increase)\({name}(\{{[^}}]*\}})?\[\d+m\]\)", expression), expression


def test_alerts_are_told_apart_and_say_what_is_wrong() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len({*names}) == len(names) > 10
    for rule in rules():
        assert rule["labels"]["severity"] in ("info", "warning", "critical")  # type: ignore[index]
        assert rule["annotations"]["summary"]  # type: ignore[index]


def test_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    panels = dashboard()["panels"]
    assert isinstance(panels, list)
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for at in [panel["gridPos"]]
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len({*cells})
    assert max(x for x, _ in cells) < 24


def test_prometheus_reads_the_rules_that_are_beside_it() -> None:
    found = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    assert all((DEPLOY / "prometheus" / name).is_file() for name in found["rule_files"])
    assert found["scrape_configs"][0]["static_configs"][0]["targets"] == ["127.0.0.1:9464"]
