"""YAML as strictly as a federation file needs it: a key that stands twice is a mistake."""

from __future__ import annotations

from typing import Any

import yaml

from mangrove.errors import Mistake


class _Loader(yaml.SafeLoader):
    """A safe loader that notes duplicate keys with their lines."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.mistakes: list[Mistake] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        first_line: dict[str, int] = {}
        for key_node, _ in node.value:
            key = str(key_node.value)
            line = key_node.start_mark.line + 1
            if key in first_line:
                self.mistakes.append(
                    Mistake(
                        f"line {line}", f"{key!r} stands here again; it was first at line {first_line[key]}"
                    )
                )
            first_line.setdefault(key, line)
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> tuple[Any, list[Mistake]]:
    """The document and what is wrong with it as YAML. A document that cannot be read at all is None."""
    loader = _Loader(text)
    try:
        document = loader.get_single_data()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        return None, [Mistake(place, f"not valid YAML: {problem}")]
    finally:
        loader.dispose()
    return document, loader.mistakes
