"""The run file: encoder, method, tasks, train; checked whole, every mistake with its place, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import yaml

from weft.encoder.names import check_name
from weft.errors import WeftError, did_you_mean
from weft.head_settings import HeadSettings
from weft.methods import Method, build_method
from weft.settings import Settings, SettingsError
from weft.tasks.suites import load_suite
from weft.tasks.task import SPLITS, Task, check_tasks
from weft.training.settings import Training

SECTIONS = ("preset", "encoder", "method", "heads", "tasks", "train")
SUITE_KEYS = ("suite", "root", "only")
TASK_KEYS = ("name", "kind", "texts", "label", "labels", "size", "metrics", "hub", *SPLITS)


@dataclass
class RunFile:
    """A run file that has been read and found right.

    Attributes:
        encoder: what `load_encoder` takes.
        method: the method.
        tasks: the tasks, with their files.
        heads: the `heads` section.
        training: the `train` section.
        resolved: the run file with presets, overrides and defaults filled in and paths absolute.
    """

    encoder: str
    method: Method
    heads: HeadSettings
    tasks: tuple[Task, ...]
    training: Training
    resolved: dict[str, Any]


@dataclass
class _Reading:
    """A file while it is read: its mistakes so far, and on which line each key stands."""

    source: str
    folder: Path
    lines: dict[tuple[str, ...], int] = field(default_factory=dict)
    mistakes: list[str] = field(default_factory=list)

    def wrong(self, place: Sequence[str], text: str) -> None:
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


def preset_names() -> list[str]:
    """The run files that ship with weft."""
    files = resources.files("weft.presets").iterdir()
    return sorted(p.name.removesuffix(".yaml") for p in files if p.name.endswith(".yaml"))


def load_run(source: str | Path, overrides: Sequence[str] = ()) -> RunFile:
    """Read a run file, or a preset by name, with `key=value` overrides on top.

    Args:
        source: a YAML file, or one of `preset_names()`.
        overrides: such as `train.steps=500` or `method.rank=4`; values are read as YAML.
    """
    name = str(source)
    path = Path(name)
    if path.is_file():
        text, folder = _read(path), path.parent
    elif name in preset_names():
        text, folder = _preset(name), Path()
    else:
        raise WeftError(
            f"there is no run file {name!r}, nor a preset of that name; {did_you_mean(name, preset_names())}"
        )
    reading = _Reading(name, folder)
    raw = _parse(text, reading)
    return read_run(raw, reading, overrides)


def read_run(raw: dict[str, Any], reading: _Reading, overrides: Sequence[str]) -> RunFile:
    """Check a parsed run file and build what it names; all mistakes in one error."""
    if isinstance(preset := raw.pop("preset", None), str):
        if preset in preset_names():
            raw = _merged(_parse(_preset(preset), _Reading(preset, Path())), raw)
        else:
            reading.wrong(["preset"], f"{preset!r} does not exist; {did_you_mean(preset, preset_names())}")
    for override in overrides:
        _override(raw, override, reading)
    for key in raw:
        if key not in SECTIONS:
            reading.wrong([key], f"no such section; {did_you_mean(key, SECTIONS)}")
    encoder = _encoder(raw.get("encoder"), reading)
    method = _method(raw.get("method", "full"), reading)
    tasks, spec = _tasks(raw.get("tasks"), reading)
    heads = _section("heads", HeadSettings, raw.get("heads", {}), reading)
    training = _train(raw.get("train", {}), [t.name for t in tasks], reading)
    if reading.mistakes:
        count = len(reading.mistakes)
        listed = "\n".join(reading.mistakes)
        raise WeftError(f"{reading.source} has {count} mistake{'s' * (count > 1)}:\n{listed}")
    assert method is not None
    assert heads is not None
    assert training is not None
    if training.lr is None:
        training = training.model_copy(update={"lr": method.default_lr})
    resolved = {
        "encoder": encoder,
        "method": method.settings(),
        "heads": heads.model_dump(mode="json"),
        "tasks": spec,
        "train": training.model_dump(mode="json"),
    }
    return RunFile(encoder, method, heads, tasks, training, resolved)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as wrong:
        raise WeftError(f"{path}: byte {wrong.start} is not UTF-8; save the run file as UTF-8") from None


def _preset(name: str) -> str:
    return (resources.files("weft.presets") / f"{name}.yaml").read_text(encoding="utf-8")


def _parse(text: str, reading: _Reading) -> dict[str, Any]:
    try:
        node = yaml.compose(text, yaml.SafeLoader)
        raw = yaml.safe_load(text)
    except yaml.YAMLError as wrong:
        mark = getattr(wrong, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = getattr(wrong, "problem", None) or str(wrong).split("\n")[0]
        raise WeftError(f"{reading.source}: {where}this is not YAML: {problem}") from None
    if not isinstance(raw, dict):
        raise WeftError(f"{reading.source}: expected sections {', '.join(SECTIONS[1:])}; found {raw!r}")
    _lines(node, (), reading.lines)
    return {str(key): value for key, value in raw.items()}


def _lines(node: Any, place: tuple[str, ...], lines: dict[tuple[str, ...], int]) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*place, str(key.value))
            lines[here] = key.start_mark.line + 1
            _lines(value, here, lines)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            lines[*place, str(number)] = value.start_mark.line + 1
            _lines(value, (*place, str(number)), lines)


def _merged(base: Any, top: Any) -> Any:
    """`top` over `base`, section by section."""
    if isinstance(base, dict) and isinstance(top, dict) and "use" not in top and "suite" not in top:
        return {key: _merged(base.get(key), top[key]) if key in top else base[key] for key in {**base, **top}}
    return top


def _override(raw: dict[str, Any], override: str, reading: _Reading) -> None:
    key, equals, value = override.partition("=")
    if not equals or not key.strip():
        reading.wrong([override], "expected key=value, such as train.steps=500")
        return
    *path, last = key.strip().split(".")
    target: Any = raw
    for number, part in enumerate(path):
        if isinstance(target.get(part), str) and part == "method":
            target[part] = {"use": target[part]}  # `method: lora` and method.rank=4 go together
        inner = target.setdefault(part, {})
        if not isinstance(inner, dict):
            reading.wrong(path[: number + 1], f"holds {inner!r}, so {key.strip()!r} cannot be set in it")
            return
        target = inner
    try:
        target[last] = yaml.safe_load(value)
    except yaml.YAMLError:
        reading.wrong(key.split("."), f"the value {value!r} cannot be read as YAML")


def _encoder(value: object, reading: _Reading) -> str:
    if not isinstance(value, str):
        found = "nothing" if value is None else repr(value)
        reading.wrong(["encoder"], f"expected a hub id, a folder, minilm, or random:bert-base; found {found}")
        return ""
    folder = reading.path(value)
    if folder.is_dir():
        return str(folder)
    try:
        check_name(value)
    except WeftError as wrong:
        reading.wrong(["encoder"], str(wrong))
    return value


def _method(value: object, reading: _Reading) -> Method | None:
    try:
        return build_method(value)
    except SettingsError as wrong:
        for key, text in wrong.mistakes:
            reading.wrong(["method", key], text)
    except WeftError as wrong:
        reading.wrong(["method"], str(wrong).removeprefix("method: "))
    return None


S = TypeVar("S", bound=Settings)


def _section(name: str, kind: type[S], value: object, reading: _Reading) -> S | None:
    if not isinstance(value, dict):
        example = next(iter(kind.model_fields))
        reading.wrong([name], f"expected settings such as {{{example}: …}}; found {value!r}")
        return None
    try:
        return kind(**{str(k): v for k, v in value.items()})
    except SettingsError as wrong:
        for key, text in wrong.mistakes:
            reading.wrong([name, key], text)
        return None


def _train(value: object, tasks: list[str], reading: _Reading) -> Training | None:
    training = _section("train", Training, value, reading)
    if training is None:
        return None
    if training.best != "average" and tasks and training.best not in tasks:
        reading.wrong(
            ["train", "best"], f"{training.best!r}; {did_you_mean(training.best, ['average', *tasks])}"
        )
    return training


def _tasks(value: object, reading: _Reading) -> tuple[tuple[Task, ...], Any]:
    """The tasks, and what was said of them with paths made absolute."""
    entries: list[tuple[list[str], Any]]
    if isinstance(value, dict) and "suite" in value:
        entries = [(["tasks"], value)]
    elif isinstance(value, dict):
        entries = [
            (["tasks", str(name)], {"name": str(name), **v} if isinstance(v, dict) else v)
            for name, v in value.items()
        ]
    elif isinstance(value, list):
        entries = [(["tasks", str(number)], entry) for number, entry in enumerate(value)]
    else:
        found = "nothing" if value is None else repr(value)
        reading.wrong(
            ["tasks"], f"expected {{suite: swatch}}, or name: {{texts: …, train: FILE}}; found {found}"
        )
        return (), []
    tasks: list[Task] = []
    said: list[dict[str, Any]] = []
    for place, entry in entries:
        if not isinstance(entry, dict):
            reading.wrong(place, f"expected settings of a task or a suite; found {entry!r}")
            continue
        entry = dict(entry)
        known = SUITE_KEYS if "suite" in entry else TASK_KEYS
        unknown = [key for key in entry if key not in known]
        for key in unknown:
            reading.wrong([*place, str(key)], f"no such key; {did_you_mean(str(key), known)}")
        if unknown:
            continue
        try:
            tasks += _suite(entry, reading) if "suite" in entry else [_task(entry, reading)]
            said.append(entry)
        except WeftError as wrong:
            reading.wrong(place, str(wrong))
    if tasks:
        try:
            check_tasks(tasks)
        except WeftError as wrong:
            reading.wrong(["tasks"], str(wrong))
    elif not reading.mistakes:
        reading.wrong(["tasks"], "no tasks")
    return tuple(tasks), said


def _suite(entry: dict[str, Any], reading: _Reading) -> list[Task]:
    if entry.get("root") is not None:
        entry["root"] = str(reading.path(str(entry["root"])))
    only = entry.get("only")
    if isinstance(only, str):
        only = entry["only"] = [part.strip() for part in only.split(",")]
    return load_suite(str(entry["suite"]), entry.get("root"), only)


def _task(entry: dict[str, Any], reading: _Reading) -> Task:
    if "name" not in entry:
        raise WeftError("a task in a list needs the key 'name'")
    for split in SPLITS:
        if entry.get(split) is not None:
            entry[split] = str(reading.path(str(entry[split])))
    files = {split: Path(entry[split]) for split in SPLITS if entry.get(split) is not None}
    if not files and not entry.get("hub"):
        raise WeftError(
            f"task {entry['name']!r} has no data; expected 'train' and 'validation' files, or 'hub'"
        )
    values: Mapping[str, Any] = {k: v for k, v in entry.items() if k not in SPLITS}
    listed = {
        k: tuple(v) if isinstance(v, list) else (v,)
        for k, v in values.items()
        if k in ("texts", "labels", "metrics")
    }
    return Task(**{**values, **listed}, files=files)
