"""YAML as strictly as a federation file needs it: a key that stands twice is a mistake.

What stands for more than can be read is one too: values within values without end, and aliases of aliases,
of which nine lines can stand for a thousand million values.
"""

from __future__ import annotations

from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError
from yaml.reader import ReaderError

from mangrove.config.found import found_text
from mangrove.errors import Mistake

MAX_BY_ALIASES = 1_000_000
"""Values that a document may have beyond those that are written in it."""

_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "timestamp": "a date"}


class _Loader(yaml.SafeLoader):
    """A safe loader that notes duplicate keys with their lines, and keeps to what can be read."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.mistakes: list[Mistake] = []
        self._values: dict[yaml.Node, int] = {}
        """How many values a node is, with all that its aliases stand for."""
        self._by_aliases = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        is_alias = self.check_event(yaml.AliasEvent)
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        if node is None:
            return None
        if not is_alias:
            self._values[node] = 1 + sum(self._values[each] for each in _parts(node))
        elif node not in self._values:
            raise ComposerError(None, None, "an alias stands within what it stands for", mark)
        else:
            self._by_aliases += self._values[node]
            if self._by_aliases > MAX_BY_ALIASES:
                problem = f"with this alias they stand for more than {MAX_BY_ALIASES:,} values"
                raise ComposerError(None, None, problem, mark)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
            if isinstance(value, int):
                float(value)  # what is compared with a bound later has to fit
        except (ValueError, KeyError, IndexError, AttributeError, OverflowError):
            name = node.tag.rpartition(":")[2]
            kind = _KINDS.get(name, name)
            problem = f"{found_text(node.value)} is not {kind} that can be read; a text stands in quotes"
            raise ConstructorError(None, None, problem, node.start_mark) from None
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        first_line: dict[str, int] = {}
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key_node, yaml.ScalarNode):
                continue  # refused by the loader
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
    try:
        return _read(text)
    except ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        problem = f"the character U+{ord(text[error.position]):04X} may not stand in YAML; leave it out"
        return None, [Mistake(f"line {line}, column {column}", f"not valid YAML: {problem}")]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        return None, [Mistake(place, f"not valid YAML: {problem}")]


def _read(text: str) -> tuple[Any, list[Mistake]]:
    loader = _Loader(text)
    try:
        return loader.get_single_data(), loader.mistakes
    except RecursionError:
        raise ComposerError(None, None, "values in values without end", loader.get_mark()) from None
    finally:
        loader.dispose()


def _parts(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []
