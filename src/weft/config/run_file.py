"""Reading and checking run files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from weft.config.encoder_checks import check_layers, check_max_length
from weft.config.encoder_name import read_encoder
from weft.config.head_effects import section_without_effect, written_keys
from weft.config.presets import preset_names, preset_text
from weft.config.reading import Reading, blame_overrides, over_preset, override_key, parse
from weft.config.repeats import repeated
from weft.config.tasks import SUITE_KEYS, read_tasks
from weft.encoder.limits import EncoderLimits, encoder_limits
from weft.errors import WeftError, did_you_mean, run_file_words
from weft.evaluation.selection import reported_metrics
from weft.kernels.setting import Setting
from weft.methods import Method, build_method
from weft.methods.ranked import l0_of
from weft.model.head_settings import HeadSettings
from weft.sampling.samplers.counterfactual import read_policy
from weft.settings import Settings, SettingsError
from weft.tasks.task import Task
from weft.training.run.checks import mistakes
from weft.training.settings import Training
from weft.utils.hub_repository import repository
from weft.utils.safe_yaml import read_text

if TYPE_CHECKING:
    from weft.model.model import Model

SECTIONS = ("preset", "encoder", "method", "heads", "kernels", "tasks", "train", "start")

SHOWN = 8
"""How many tasks the `repr` of a run file lists."""


@dataclass(repr=False)
class RunFile:
    """A checked run file, as `load_run` returns it.

    Attributes:
        encoder: the encoder, as `load_encoder` takes it.
        method: the method.
        tasks: the tasks, with their files.
        heads: the `heads` section.
        training: the `train` section.
        start: a bundle whose weights are the initial values, if there is one.
        kernels: which kernels compute the products of rows of several tasks; see `weft.kernels.dispatch`.
        notes: what a user should know about the tasks: what a suite lacks, what is left out.
        warnings: what is probably a mistake: a list that names something twice, and pairs of tasks of which
            one must not be trained on if the other is tested on.
        resolved: the run file with presets, overrides and defaults filled in and paths absolute.
    """

    encoder: str
    method: Method
    heads: HeadSettings
    tasks: tuple[Task, ...]
    training: Training
    start: str | None
    kernels: Setting
    resolved: dict[str, Any]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line with encoder, method, tasks and steps; `resolved` holds everything."""
        names = [task.name for task in self.tasks]
        listed = ", ".join([*names[:SHOWN], *[f"… {len(names) - SHOWN} more"] * (len(names) > SHOWN)])
        method = "+".join(part.name for part in self.method.parts)
        epochs, steps = self.training.epochs, self.training.steps
        length = f"{steps} steps" if epochs is None else f"{epochs:g} epochs"
        return f"RunFile({self.encoder!r}, method={method!r}, tasks: {listed}; {length})"

    def build_model(self) -> Model:
        """Build the model that the file describes; see `load_run` for how to train it."""
        from weft.config.build import model_of

        return model_of(self)


def load_run(source: str | Path, overrides: Sequence[str] = ()) -> RunFile:
    """Read a run file, a run's folder, or a preset by name, with `key=value` overrides on top.

    Everything is checked before torch is imported; one error lists all mistakes.

    Example:
        >>> run_file = weft.load_run("run.yaml", ["train.steps=500"])
        >>> weft.check(run_file).ok
        True
        >>> model = run_file.build_model()
        >>> run = weft.train(model, run_file.training, out="runs/first")

    Args:
        source: a YAML file, the folder of a run (its run.yaml), or one of `weft.config.preset_names()`.
        overrides: such as `train.steps=500` or `method.rank=4`; values are read as YAML.
    """
    with run_file_words():
        raw, reading = opened(source)
        return read_run(raw, reading, overrides)


def load_tasks(source: str | Path) -> tuple[Task, ...]:
    """Read only the tasks of a run file or task file; its encoder may have moved since."""
    with run_file_words():
        raw, reading = opened(source)
        # whether settings of heads have an effect is checked where the model is built
        reading.generated = True
        tasks, _ = read_tasks(raw.get("tasks"), reading)
        stop_if_wrong(reading)
        return tasks


def opened(source: str | Path) -> tuple[dict[str, Any], Reading]:
    """Parse a run file, a run's folder, or a preset by name; nothing is checked yet."""
    name = str(source)
    path = Path(name)
    if (path / "run.yaml").is_file():  # the folder of a run
        path = path / "run.yaml"
    if path.is_file():
        text, folder = read_text(path), path.parent
    elif name in preset_names():
        text, folder = preset_text(name), Path()
    else:
        raise WeftError(
            f"there is no run file {name!r} and no preset of that name; {did_you_mean(name, preset_names())}"
        )
    is_run = path.is_file() and path.parent == Path(name)
    reading = Reading(str(path) if path.is_file() else name, folder, generated=is_run or not path.is_file())
    return parse(text, reading), reading


def stop_if_wrong(reading: Reading) -> None:
    """Raise one error that lists all mistakes, if there are any."""
    if mistakes_found := reading.mistakes:
        count = len(mistakes_found)
        listed = "\n".join(mistakes_found)
        raise WeftError(f"{reading.source} has {count} mistake{'s' * (count > 1)}:\n{listed}")


def read_run(raw: dict[str, Any], reading: Reading, overrides: Sequence[str]) -> RunFile:
    """Check a parsed run file and build what it names; all mistakes in one error."""
    plain, before = deepcopy(raw) if overrides else {}, tuple(reading.found)
    for override in overrides:
        override_key(raw, override, reading)
    preset = raw.pop("preset", None)
    written_heads = written_keys(raw, reading)
    if preset is not None and preset not in preset_names():
        reading.wrong(["preset"], f"{preset!r} does not exist; {did_you_mean(preset, preset_names())}")
    elif preset is not None:
        raw = over_preset(parse(preset_text(preset), Reading(preset, Path())), raw, SUITE_KEYS)
    for key in raw:
        if key not in SECTIONS:
            reading.wrong([key], f"no such section; {did_you_mean(key, SECTIONS)}")
    encoder = read_encoder(raw.get("encoder"), reading)
    method = _method(raw.get("method", "full"), reading)
    heads = read_section("heads", HeadSettings, raw.get("heads") or {}, reading)
    tasks, spec = read_tasks(raw.get("tasks"), reading, heads)
    if heads is not None:
        for key, text in section_without_effect(heads, written_heads, tasks):
            reading.wrong(["heads", key], text)
    _read_policy(raw.get("train"), reading)
    limits = encoder_limits(encoder)
    training = read_train(_fitted(raw.get("train"), method, limits), tasks, reading)
    start = _start(raw.get("start"), reading)
    kernels = _kernels(raw.get("kernels", "auto"), reading)
    if method is not None and training is not None:
        _check_length(method, training, reading)
    if limits is not None and training is not None:
        check_max_length(encoder, limits, training, reading)
    if limits is not None and method is not None:
        check_layers(limits, method, reading)
    reading.warnings += [reading.located(place, f"{item!r} is listed twice") for place, item in repeated(raw)]
    if overrides and reading.found:
        blame_overrides(reading, before, lambda alone: read_run(plain, alone, ()))
    stop_if_wrong(reading)
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
        **({"start": start} if start else {}),
        **({"kernels": kernels} if kernels != "auto" else {}),
    }
    return RunFile(
        encoder,
        method,
        heads,
        tasks,
        training,
        start,
        kernels,
        resolved,
        tuple(reading.notes),
        tuple(reading.warnings),
    )


def _kernels(value: object, reading: Reading) -> Setting:
    if value not in get_args(Setting):
        reading.wrong(["kernels"], f"{value!r}; {did_you_mean(str(value), get_args(Setting))}")
        return "auto"
    return value  # type: ignore[return-value]


def _fitted(train: object, method: Method | None, encoder: EncoderLimits | None) -> object:
    """The `train` section; the default of max_length is lowered to what method and encoder accept."""
    section = {} if train is None else train
    limits = [part.longest_row for part in (method.parts if method else ()) if part.longest_row]
    limits += [encoder.longest_row] if encoder is not None and encoder.longest_row else []
    default: int = Training.model_fields["max_length"].default
    if not isinstance(section, dict) or "max_length" in section or min(limits, default=default) >= default:
        return section
    return {**section, "max_length": min(limits)}


def _read_policy(train: object, reading: Reading) -> None:
    """Replace the path of a policy file by its probabilities: the file may change later, the run must not."""
    sampler = train.get("sampler") if isinstance(train, dict) else None
    if not isinstance(sampler, dict) or not isinstance(sampler.get("policy"), str):
        return
    try:
        sampler["policy"] = read_policy(reading.path(sampler["policy"]))
    except WeftError as wrong:
        reading.wrong(["train", "sampler"], str(wrong))
        sampler.clear()
        sampler["use"] = "proportional"  # any valid one: the mistake is recorded already


def _check_length(method: Method, training: Training, reading: Reading) -> None:
    """Check that rows are not longer than the method's adapters accept."""
    for part in method.parts:
        if part.longest_row is not None and part.longest_row < training.max_length:
            reading.wrong(
                ["train", "max_length"],
                f"{training.max_length}; method {part.name!r} accepts rows of at most {part.longest_row} "
                f"tokens: expected no more, or method.length={training.max_length}",
            )


def _start(value: object, reading: Reading) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        reading.wrong(["start"], f"expected the folder of a bundle or of a run; found {value!r}")
        return None
    path = reading.path(value)
    if repository(value) is not None and not (os.path.lexists(path) or os.path.lexists(value)):
        return value  # on the hub
    return str(path.resolve())


def _method(value: object, reading: Reading) -> Method | None:
    try:
        method = build_method(value)
        l0_of(method)  # parts that disagree on the phases are reported now
        return method
    except SettingsError as wrong:
        for key, text in wrong.mistakes:
            reading.wrong(["method", key], text)
    except WeftError as wrong:
        reading.wrong(["method"], str(wrong).removeprefix("method: "))
    return None


S = TypeVar("S", bound=Settings)


def read_section(name: str, kind: type[S], value: object, reading: Reading) -> S | None:
    """Read the settings of a section; returns None if they are wrong, with the mistakes in `reading`."""
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


def read_train(value: object, tasks: Sequence[Task], reading: Reading) -> Training | None:
    """Read the `train` section; tasks that it names must be among `tasks`."""
    training = read_section("train", Training, value, reading)
    if training is None:
        return None
    # without tasks, which is reported elsewhere, names cannot be checked
    names = [task.name for task in tasks]
    for key, text in mistakes(training, names, reported_metrics(tasks)) if tasks else ():
        reading.wrong(["train", key], text)
    return training
