"""Reads YAML of any origin: every mistake is a `YamlError` with its line, and size and depth are limited.

PyYAML's safe loader runs no code, but a few bytes can cost much. An alias (`*a`) repeats what an anchor
(`&a`) marks, and ten aliases of ten aliases of … make a value of billions of nodes from a few hundred bytes.
Its parser of numbers, dates and escapes also raises exceptions that are not `YAMLError`, without a line.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from weft.errors import WeftError

LARGEST = 4 * 2**20
"""The largest text, in characters. PyYAML takes seconds for a million, which a thousand tasks have."""
DIGITS = 400
"""The longest number. One of a million digits takes minutes to read, and Python refuses to print it."""
REPEATED = 200_000
"""How many nodes aliases may add to those that are written; a task's settings have about twenty."""
DEPTH = 100
"""How deeply mappings and lists may be nested; a run file has about six levels."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_BY_PYYAML = (ValueError, IndexError, AttributeError, KeyError, TypeError, OverflowError)
"""What PyYAML raises for values such as `!!int ''`, `!!bool x`, `!!timestamp x`, 2020-99-99 and 0x_."""


class YamlError(Exception):
    """A text cannot be read as YAML.

    Attributes:
        problem: what is wrong.
        line: the line, from 1; None if it is not known.
        column: the column, from 1; None if it is not known.
    """

    def __init__(self, problem: str, line: int | None = None, column: int | None = None) -> None:
        self.problem, self.line, self.column = problem, line, column
        super().__init__(f"line {line}, column {column}: {problem}" if line else problem)


class _Loader(yaml.SafeLoader):
    """A safe loader that reports the node at which a value cannot be read, or is nested too deeply."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        if self._depth > DEPTH + 1:  # a scalar in the deepest list is one more
            problem = f"it is nested more than {DEPTH} levels deep"
            raise yaml.composer.ComposerError(None, None, problem, self.peek_event().start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        if node.tag in _NUMBERS and isinstance(node, yaml.ScalarNode) and len(node.value) > DIGITS:
            problem = f"found a number of {len(node.value):,} characters; expected at most {DIGITS}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        try:
            return super().construct_object(node, deep=deep)
        except _BY_PYYAML as wrong:
            text = node.value if isinstance(node, yaml.ScalarNode) else ""
            kind = node.tag.rpartition(":")[2] or node.tag
            reason = f" ({wrong})" if isinstance(wrong, ValueError) else ""
            problem = f"found {_shown(text)}; expected a value of the type {kind}{reason}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None

    def construct_scalar(self, node: Any) -> Any:
        value = super().construct_scalar(node)
        if not isinstance(value, str) or value.isascii() or not _SURROGATE.search(value):
            return value
        try:
            # JSON, which is YAML, writes an emoji as two escapes, "\\ud83d\\ude00"; PyYAML leaves them apart
            return value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            problem = "found half of a surrogate pair, which is no character"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None


def compose_yaml(text: str) -> tuple[yaml.Node | None, _Loader]:
    """Parse a text to PyYAML's nodes, which know their lines; `construct_yaml` makes values of them.

    Returns:
        The node of the document, None if it is empty; and the loader that `construct_yaml` needs.

    Raises:
        YamlError: it is not YAML, too large, nested too deeply, or its aliases make it too large.
    """
    if len(text) > LARGEST:
        raise YamlError(f"the text has {len(text):,} characters; expected at most {LARGEST:,}")
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except yaml.reader.ReaderError as wrong:
        line = text.count("\n", 0, wrong.position) + 1
        column = wrong.position - (text.rfind("\n", 0, wrong.position) + 1) + 1
        code = wrong.character if isinstance(wrong.character, int) else ord(wrong.character)
        raise YamlError(f"the character U+{code:04X} is not allowed", line, column) from None
    except yaml.YAMLError as wrong:
        raise _explained(wrong) from None
    except RecursionError:
        raise _too_deep() from None
    except _BY_PYYAML as wrong:  # in the scanner: "\UFFFFFFFF"
        line, column = (loader.line + 1, loader.column + 1) if loader is not None else (None, None)
        raise YamlError(f"this cannot be read ({wrong})", line, column) from None
    if node is not None:
        _check_size(node)
    return node, loader


def construct_yaml(node: yaml.Node | None, loader: _Loader) -> Any:
    """Return the value of a composed document.

    Raises:
        YamlError: a value cannot be read.
    """
    if node is None:
        return None
    try:
        return loader.construct_document(node)
    except yaml.YAMLError as wrong:
        raise _explained(wrong) from None
    except RecursionError:
        raise _too_deep() from None


def parse_yaml(text: str) -> Any:
    """Return the value of a YAML text.

    Raises:
        YamlError: it cannot be read.
    """
    return construct_yaml(*compose_yaml(text))


def read_yaml(path: Path) -> Any:
    """Return the value of a YAML file; whatever is wrong with it is a `WeftError` that names the line."""
    try:
        return parse_yaml(read_text(path))
    except YamlError as wrong:
        raise not_yaml(path, wrong) from None


def read_text(path: Path) -> str:
    """Return the text of a YAML file."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as wrong:
        raise WeftError(f"{path}: byte {wrong.start} is not UTF-8; save the file as UTF-8") from None
    except OSError as wrong:
        raise WeftError(f"{path} cannot be read: {wrong.strerror or wrong}") from None


def not_yaml(source: str | Path, wrong: YamlError) -> WeftError:
    """Return the message for a file that is not YAML."""
    where = f"line {wrong.line}, column {wrong.column}: " if wrong.line else ""
    return WeftError(f"{source}: {where}this is not YAML: {wrong.problem}")


def _check_size(root: yaml.Node) -> None:
    """Refuse a document whose aliases make it too large, or that is nested too deeply or without end.

    The size and depth of each node are computed once, however often aliases repeat it:
    size(n) = 1 + Σ size(children). Without recursion, since the depth is what is checked.
    """
    sizes: dict[int, int] = {}
    depths: dict[int, int] = {}
    open_nodes: set[int] = set()
    stack: list[tuple[yaml.Node, bool]] = [(root, False)]
    while stack:
        node, done = stack.pop()
        key = id(node)
        children = _children(node)
        if done:
            open_nodes.discard(key)
            sizes[key] = 1 + sum(sizes[id(child)] for child in children)
            depths[key] = 1 + max((depths[id(child)] for child in children), default=0)
            mark = node.start_mark
            if sizes[key] - len(sizes) > REPEATED:
                problem = f"its aliases (*) repeat more than {REPEATED:,} values; write fewer of them"
                raise YamlError(problem, mark.line + 1, mark.column + 1)
            if depths[key] > DEPTH:
                raise _too_deep(mark)
        elif key not in sizes:
            if key in open_nodes:
                mark = node.start_mark
                problem = "a YAML anchor (&) contains an alias (*) of itself"
                raise YamlError(problem, mark.line + 1, mark.column + 1)
            open_nodes.add(key)
            stack.append((node, True))
            stack += [(child, False) for child in reversed(children)]


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _explained(wrong: yaml.YAMLError) -> YamlError:
    mark = getattr(wrong, "problem_mark", None)
    problem = getattr(wrong, "problem", None) or str(wrong).split("\n")[0]
    return YamlError(problem, mark.line + 1 if mark else None, mark.column + 1 if mark else None)


def _too_deep(mark: Any = None) -> YamlError:
    problem = f"it is nested more than {DEPTH} levels deep"
    return YamlError(problem, mark.line + 1, mark.column + 1) if mark else YamlError(problem)


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 40 else f"{text[:39]!r}…"
