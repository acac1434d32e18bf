"""Names of a domain's own in the federation file: what cannot be is refused, with place and remedy."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from mangrove.cli.main import app
from mangrove.config import parse_federation

FILE = """
federation: named
domains:
  berlin:
    names:
      - {local: "werk.>", federation: "plant.berlin.>"}
      - {local: "meldung.>", federation: "report.>", direction: in}
  lyon: {}
links: [{between: [berlin, lyon]}]
"""


def mistakes(names: str, topics: str = "") -> str:
    text = (
        f"federation: f\ndomains: {{a: {{names: {names}}}, b: {{}}}}\nlinks: [{{between: [a, b]}}]\n{topics}"
    )
    return "\n".join(map(str, parse_federation(text, "f").mistakes))


@pytest.mark.parametrize(
    ("names", "place"),
    [
        ('[{local: "a.>", federation: "b.>"}, {local: "a.c", federation: "d"}]', "domains.a.names[1].local"),
        ('[{local: a, federation: "b.c"}, {local: d, federation: "b.c"}]', "domains.a.names[1].federation"),
        ('[{local: "a.>", federation: b}]', "domains.a.names[0].federation"),
        ('[{local: "a.*", federation: "b.c"}]', "domains.a.names[0].local"),
        ('[{local: "_INBOX.x", federation: b}]', "domains.a.names[0].local"),
        ("[{local: a, federation: b, direction: up}]", "domains.a.names[0].direction"),
        ("[{local: a}]", "domains.a.names[0].federation"),
    ],
)
def test_names_that_cannot_be_are_refused_with_their_place(names: str, place: str) -> None:
    assert place in mistakes(names)


def test_mirrored_topics_are_not_renamed() -> None:
    told = mistakes('[{local: x, federation: "alert.a"}]', 'topics: [{match: "alert.>", mirror: true}]')
    assert "domains.a.names[0].federation" in told


def test_a_name_is_explained(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("file") / "named.yaml"
    file.write_text(FILE)

    def told(*arguments: str) -> dict[str, object]:
        result = CliRunner().invoke(app, ["names", "explain", *arguments, "--file", str(file), "--json"])
        assert result.exit_code == 0, result.output
        explained = json.loads(result.stdout)
        return {each["domain"]: (each["names"], each["passes"]) for each in explained["domains"]}

    assert told("plant.berlin.hall") == {
        "berlin": (["werk.hall"], "both"),
        "lyon": (["plant.berlin.hall"], "both"),
    }
    assert told("werk.hall", "--domain", "berlin")["lyon"] == (["plant.berlin.hall"], "both")
    assert told("werk.hall")["berlin"] == ([], "none"), "that name is taken there"
    assert told("report.x")["berlin"] == (["meldung.x"], "in")
