"""Reading YAML so that every mistake knows its line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from weft.errors import WeftError


@dataclass
class Reading:
    """A file while it is read: its mistakes so far, what else to say, and on which line each key stands."""

    source: str
    folder: Path
    lines: dict[tuple[str, ...], int] = field(default_factory=dict)
    mistakes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def wrong(self, place: Sequence[str], text: str) -> None:
        """Note a mistake at a place, such as ["train", "steps"]."""
        at: int | None = None
        for length in range(len(place), 0, -1):
            at = self.lines.get(tuple(place[:length]))
            if at is not None:
                break
        line = f"line {at}, " if at is not None else ""
        self.mistakes.append(f"  {line}{'.'.join(place) or 'the file'}: {text}")

    def path(self, value: str) -> Path:
        """A path from the run file's folder or, if it exists only there, from the current one; absolute."""
        here = Path(value).expanduser()
        beside = self.folder / here
        return (here if here.exists() and not beside.exists() else beside).resolve()


def read_text(path: Path) -> str:
    """A run file's text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as wrong:
        raise WeftError(f"{path}: byte {wrong.start} is not UTF-8; save the run file as UTF-8") from None


def parse(text: str, reading: Reading) -> dict[str, Any]:
    """The sections of a run file; `reading` learns on which line each key stands."""
    try:
        node = yaml.compose(text, yaml.SafeLoader)
        raw = yaml.safe_load(text)
        if isinstance(raw, dict):
            _lines(node, (), reading)
    except RecursionError:
        raise WeftError(f"{reading.source}: an anchor (&) holds an alias (*) to itself") from None
    except yaml.YAMLError as wrong:
        mark = getattr(wrong, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = getattr(wrong, "problem", None) or str(wrong).split("\n")[0]
        raise WeftError(f"{reading.source}: {where}this is not YAML: {problem}") from None
    if not isinstance(raw, dict):
        raise WeftError(f"{reading.source}: expected sections such as encoder and tasks; found {raw!r}")
    return {str(key): value for key, value in raw.items()}


def _lines(node: Any, place: tuple[str, ...], reading: Reading) -> None:
    lines = reading.lines
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*place, str(key.value))
            if here in lines:  # YAML would take the last without a word
                reading.wrong(here, f"given twice; again on line {key.start_mark.line + 1}")
            else:
                lines[here] = key.start_mark.line + 1
                _lines(value, here, reading)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            lines[*place, str(number)] = value.start_mark.line + 1
            _lines(value, (*place, str(number)), reading)


def merged(base: Any, top: Any) -> Any:
    """`top` over `base`, section by section."""
    if isinstance(base, dict) and isinstance(top, dict) and "use" not in top and "suite" not in top:
        return {key: merged(base.get(key), top[key]) if key in top else base[key] for key in {**base, **top}}
    return top


def _set_in_suites(tasks: list[Any], key: str, value: str, said: str, reading: Reading) -> None:
    """Set a key of every suite of a list: tasks.root=DATA."""
    suites = [entry for entry in tasks if isinstance(entry, dict) and "suite" in entry]
    if not suites:
        reading.wrong(["tasks"], f"is a list without a suite, so {said!r} cannot be set in it")
    try:
        for entry in suites:
            entry[key] = yaml.safe_load(value)
    except yaml.YAMLError:
        reading.wrong(said.split("."), f"the value {value!r} cannot be read as YAML")


def override_key(raw: dict[str, Any], override: str, reading: Reading) -> None:
    """Set one `key=value` with dots in the key."""
    key, equals, value = override.partition("=")
    if not equals or not key.strip():
        reading.wrong([override], "expected key=value, such as train.steps=500")
        return
    *path, last = key.strip().split(".")
    target: Any = raw
    for number, part in enumerate(path):
        if isinstance(target.get(part), str) and part == "method":
            target[part] = {"use": target[part]}  # `method: lora` and method.rank=4 go together
        if target.get(part) is None or target[part] is True:
            target[part] = {}  # an empty section; `l0: true` and method.l0.steps=9 go together
        inner = target[part]
        if path == ["tasks"] and isinstance(inner, list):
            _set_in_suites(inner, last, value, key.strip(), reading)
            return
        if not isinstance(inner, dict):
            reading.wrong(path[: number + 1], f"holds {inner!r}, so {key.strip()!r} cannot be set in it")
            return
        target = inner
    try:
        if last == "use" and target.get("use") not in (None, value):
            target.clear()  # the settings of another method do not fit this one
        target[last] = yaml.safe_load(value)
    except yaml.YAMLError:
        reading.wrong(key.split("."), f"the value {value!r} cannot be read as YAML")
