"""Reading YAML with line numbers, so that every mistake can be reported with its line."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from weft.errors import WeftError
from weft.utils.safe_yaml import YamlError, compose_yaml, construct_yaml, not_yaml, parse_yaml

Mistake = tuple[tuple[str, ...], str]
"""The key of a mistake, and what is wrong."""

NAMED = ("method", "sampler", "conflict")
"""Settings that are a name, or a name (`use`) with settings."""

RIVALS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("train", "steps"): ("epochs", "epoch"),
    ("train", "epochs"): ("steps",),
}
"""Settings that replace others: an override of one, or one in a file with a preset, drops the others."""


@dataclass
class Reading:
    """The state of reading one file.

    Attributes:
        source: the file, for messages.
        folder: the folder that relative paths start from.
        lines: the line of each key, such as ("train", "steps").
        overridden: the keys that were set on the command line.
        found: the mistakes so far: key and what is wrong.
        notes: what a user should know.
        warnings: what a user should change.
        of_file: the mistakes that the file has without overrides; all others are those of overrides. None:
            not known.
        generated: whether weft wrote the file: a preset, or the run.yaml of a run. It may have settings
            without effect.
    """

    source: str
    folder: Path
    lines: dict[tuple[str, ...], int] = field(default_factory=dict)
    overridden: set[tuple[str, ...]] = field(default_factory=set)
    found: list[Mistake] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    of_file: Collection[Mistake] | None = None
    generated: bool = False

    def wrong(self, place: Sequence[str], text: str) -> None:
        """Record a mistake.

        Args:
            place: the key, such as ["train", "steps"].
            text: what is wrong.
        """
        self.found.append((tuple(place), text))

    @property
    def mistakes(self) -> list[str]:
        """The mistakes so far, each with its line or `command line`, its key and what is wrong."""
        return [self._line(place, text) for place, text in self.found]

    def located(self, place: Sequence[str], text: str) -> str:
        """A text about a key, with its line or `command line`."""
        return self._line(tuple(place), text).strip()

    def _line(self, place: tuple[str, ...], text: str) -> str:
        prefix = ""
        for length in range(len(place), 0, -1):
            key = place[:length]
            if key in self.overridden:
                prefix = "command line, "
            elif key in self.lines:
                prefix = f"line {self.lines[key]}, "
            if prefix:
                break
        if prefix != "command line, " and self.of_file is not None and (place, text) not in self.of_file:
            # the file alone is right here, so an override is wrong
            prefix, place = "command line, ", self._override(place)
        return f"  {prefix}{'.'.join(place) or 'the file'}: {text}"

    def _override(self, place: tuple[str, ...]) -> tuple[str, ...]:
        """The only override of the section that a mistake is in; the place itself if there are several."""
        near = [key for key in self.overridden if key[: len(place)] == place]
        near = near or [key for key in self.overridden if key[:1] == place[:1]]
        return near[0] if len(near) == 1 else place

    def path(self, value: str) -> Path:
        """Make a path absolute: from the file's folder, or from the current one if it exists only there."""
        here = Path(value).expanduser()
        beside = self.folder / here
        return (here if here.exists() and not beside.exists() else beside).resolve()


def blame_overrides(reading: Reading, before: Sequence[Mistake], read: Callable[[Reading], object]) -> None:
    """Find out which mistakes the file has by itself, so that the others are blamed on overrides.

    Args:
        reading: the reading with overrides, which has mistakes.
        before: the mistakes that were found before overrides were applied.
        read: checks the parsed file without overrides.
    """
    alone = Reading(reading.source, reading.folder, found=list(before), generated=reading.generated)
    with contextlib.suppress(WeftError):
        read(alone)
    reading.of_file = set(alone.found)


def parse(text: str, reading: Reading) -> dict[str, Any]:
    """Parse the sections of a run file; the line of each key is stored in `reading.lines`."""
    try:
        node, loader = compose_yaml(text)
        if isinstance(node, yaml.MappingNode):
            _lines(node, (), reading)  # first: constructing the values merges keys into the nodes
        raw = construct_yaml(node, loader)
    except YamlError as wrong:
        raise not_yaml(reading.source, wrong) from None
    if not isinstance(raw, dict):
        raise WeftError(f"{reading.source}: expected sections such as encoder and tasks; found {_brief(raw)}")
    return {str(key): value for key, value in raw.items()}


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:199]}…"


def _lines(node: Any, place: tuple[str, ...], reading: Reading) -> None:
    lines = reading.lines
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*place, str(key.value))
            if here in lines:  # PyYAML would silently use the last one
                reading.wrong(here, f"the key is set twice; again on line {key.start_mark.line + 1}")
            else:
                lines[here] = key.start_mark.line + 1
                _lines(value, here, reading)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            lines[*place, str(number)] = value.start_mark.line + 1
            _lines(value, (*place, str(number)), reading)


def over_preset(preset: dict[str, Any], raw: dict[str, Any], suite_keys: Collection[str]) -> dict[str, Any]:
    """Put the sections of a run file over those of its preset.

    Tasks of the file's own replace the preset's suite; settings of a suite, such as `root`, change it.

    Args:
        preset: the sections of the preset.
        raw: the sections of the run file.
        suite_keys: the settings of a suite.
    """
    tasks, train = raw.get("tasks"), raw.get("train")
    replaced: set[str] = set()
    if isinstance(train, dict):
        replaced = {rival for key in train for rival in RIVALS.get(("train", key), ())}
    if _other_tasks(tasks, preset.get("tasks"), suite_keys):
        preset = {key: value for key, value in preset.items() if key != "tasks"}
        replaced.add("best")  # an average of the suite's tasks
    if isinstance(preset.get("train"), dict):
        kept = {key: value for key, value in preset["train"].items() if key not in replaced}
        preset = {**preset, "train": kept}
    result: dict[str, Any] = merged(preset, raw)
    return result


def _other_tasks(tasks: object, of_preset: object, suite_keys: Collection[str]) -> bool:
    """Whether a file has tasks of its own, or a suite that is not the preset's."""
    if not isinstance(tasks, dict):
        return isinstance(tasks, list)
    suite = of_preset.get("suite") if isinstance(of_preset, dict) else None
    return not set(tasks) <= set(suite_keys) or tasks.get("suite", suite) != suite


def merged(base: Any, top: Any) -> Any:
    """Put the settings of `top` over those of `base`, section by section."""
    if isinstance(base, dict) and isinstance(top, dict) and "use" not in top and "suite" not in top:
        return {key: merged(base.get(key), top[key]) if key in top else base[key] for key in {**base, **top}}
    return top


def override_key(raw: dict[str, Any], override: str, reading: Reading) -> None:
    """Apply one override `key=value`, with dots in the key for nested settings."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        reading.wrong([override], "expected key=value, such as train.steps=500")
        return
    place = key.strip().split(".")
    reading.overridden.add(tuple(place))
    try:
        value = parse_yaml(text)
    except YamlError:
        reading.wrong(place, f"the value {text!r} cannot be read as YAML")
        return
    set_key(raw, place, value, reading)


def set_key(raw: dict[str, Any], place: Sequence[str], value: Any, reading: Reading) -> None:
    """Set one key of a parsed run file.

    Example:
        >>> raw = {"method": "lora"}
        >>> set_key(raw, ["method", "rank"], 4, Reading("run.yaml", Path()))
        >>> raw
        {'method': {'use': 'lora', 'rank': 4}}

    Args:
        raw: the sections of the file; changed in place.
        place: the key, such as ["train", "steps"].
        value: its value.
        reading: records what is wrong.
    """
    *path, last = place
    target: Any = raw
    for number, part in enumerate(path):
        if isinstance(target.get(part), str) and part in NAMED:
            target[part] = {"use": target[part]}  # `method: lora` can be combined with method.rank=4
        if target.get(part) is None or target[part] is True:
            target[part] = {}  # an empty section; `l0: true` can be combined with method.l0.steps=9
        inner = target[part]
        if path == ["tasks"] and isinstance(inner, list):
            _set_in_suites(inner, last, value, reading)
            return
        if not isinstance(inner, dict):
            within = ".".join(path[: number + 1])
            reading.wrong(place, f"{within} holds {inner!r}, so {'.'.join(place)!r} cannot be set in it")
            return
        target = inner
    if last == "use" and target.get("use") not in (None, value):
        target.clear()  # the settings of a different method do not apply
    target[last] = value
    for rival in RIVALS.get((*path, last), ()):
        if (*path, rival) not in reading.overridden:
            target.pop(rival, None)


def _set_in_suites(tasks: list[Any], key: str, value: Any, reading: Reading) -> None:
    """Set a key of every suite in a list, as in `tasks.root=DATA`."""
    suites = [entry for entry in tasks if isinstance(entry, dict) and "suite" in entry]
    if not suites:
        reading.wrong(["tasks"], f"is a list without a suite, so {f'tasks.{key}'!r} cannot be set in it")
    for entry in suites:
        entry[key] = value
