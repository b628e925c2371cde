"""Completion of values in a shell: names of registries, of presets, and of the tasks of a saved model.

`weft --install-completion` installs it. A completion imports no torch and never fails: what it cannot read
has no completions, and the shell then completes file names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer

Completer = Callable[[str], list[str]]


def among(*names: str) -> Completer:
    """Complete one of these names."""
    return from_names(lambda: names)


def from_names(names: Callable[[], Iterable[str]]) -> Completer:
    """Complete one of the names that a function returns when it is needed."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def run_files(incomplete: str) -> list[str]:
    """Complete the name of a preset, or of a YAML file in this folder."""
    from weft.config.presets import preset_names

    files = [path.name for path in sorted(Path().glob("*.yaml"))]
    return [name for name in (*preset_names(), *files) if name.startswith(incomplete)]


def encoders(incomplete: str) -> list[str]:
    """Complete the name of a built-in encoder."""
    from weft.encoder.packages import PACKAGES

    return [name for name in PACKAGES if name.startswith(incomplete)]


def export_formats(incomplete: str) -> list[str]:
    """Complete the name of an export format."""
    from weft.interop import EXPORTERS

    return [name for name in EXPORTERS if name.startswith(incomplete)]


def benchmarks(incomplete: str) -> list[str]:
    """Complete the name of a benchmark with a submission server."""
    from weft.evaluation.submission import BENCHMARKS

    return [name for name in BENCHMARKS if name.startswith(incomplete)]


def task_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a task of the saved model that the command line names before."""
    return [name for name in _tasks_before(ctx) if name.startswith(incomplete)]


def starts(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the initial values of a new task: a task of the model, or a rule."""
    rules = ("auto", "average", "random", "xavier")
    return [name for name in (*rules, *_tasks_before(ctx)) if name.startswith(incomplete)]


def task_list(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the last name of a list of tasks, `cola,rte`."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _tasks_before(ctx) if name.startswith(last)]


def _tasks_before(ctx: typer.Context) -> list[str]:
    """The tasks of the first bundle or run among the arguments that are already there."""
    # after an option without its value, the parser has not assigned the arguments to parameters yet
    for value in (*(each for given in ctx.params.values() for each in _each(given)), *ctx.args):
        if not isinstance(value, str | Path):
            continue
        for folder in (Path(value) / "bundle" / "tasks", Path(value) / "tasks"):
            if folder.is_dir():
                return sorted(file.stem for file in folder.glob("*.safetensors"))
    return []


def _each(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


def overrides(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete `key=value`: a value if they are known names, else the default value of the key.

    bash splits words at `=`: for `method=lo` its words are `method`, `=` and `lo`, and only the last one is
    replaced; for `method=` the parser drops the last word, `=`. Other shells replace the whole word.
    """
    before = [str(word) for word in _each(ctx.params.get("overrides"))]
    settings = list(_settings())
    if before[-1:] == ["="] and len(before) > 1:
        key = before[-2]
    elif not incomplete and before and before[-1] in dict(settings):
        key = before[-1]
    else:
        return [pair for pair in (f"{key}={value}" for key, value in settings) if pair.startswith(incomplete)]
    return [value for name, value in settings if name == key and value.startswith(incomplete)]


def _settings() -> Iterator[tuple[str, str]]:
    """Keys of a run file with each of the values that can be listed."""
    from weft.encoder.packages import PACKAGES
    from weft.methods import METHODS
    from weft.sampling import SAMPLERS
    from weft.suites import suite_names
    from weft.training.conflict import CONFLICTS
    from weft.training.engines import AUTO, ENGINES
    from weft.training.settings import Training

    names: dict[str, Iterable[str]] = {
        "encoder": PACKAGES,
        "method": METHODS,
        "tasks.suite": suite_names(),
        "train.conflict": CONFLICTS,
        "train.engine": [AUTO, *ENGINES],
        "train.sampler": SAMPLERS,
    }
    for key, field in Training.model_fields.items():
        names.setdefault(f"train.{key}", list(_values(field.annotation, field.default)))
    for key, values in names.items():
        for value in values:
            yield key, value


def _values(annotation: Any, default: Any) -> Iterator[str]:
    """The values of a setting: all of them if they are few, else the default."""
    if get_origin(annotation) is Literal:
        yield from map(str, get_args(annotation))
    elif annotation is bool:
        yield from ("true", "false")
    else:
        yield "null" if default is None else str(default)
