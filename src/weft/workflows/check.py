"""Checking a run before training: the function behind `weft.check` and `weft check`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from weft.config.run_file import RunFile, load_run
from weft.data.checks.report import Facts, Finding, Report
from weft.encoder.limits import EncoderLimits, encoder_limits
from weft.errors import WeftError
from weft.training.run.checks import missing_trackers
from weft.utils.devices import check_device
from weft.utils.notes import teller

if TYPE_CHECKING:
    from weft.training.estimate.estimate import Estimate
    from weft.training.run.run import Run


@dataclass(frozen=True, repr=False)
class CheckedRun:
    """The result of `check`. `print(report)` prints the same as `weft check`.

    Attributes:
        data: findings and facts about the data.
        estimate: the memory and time that the run will take; None if it was not requested, or if errors made
            it impossible.
        encoder: the name of the encoder.
        limits: the encoder's number of layers and longest row, if its configuration is on this machine.
    """

    data: Report
    estimate: Estimate | None
    encoder: str = ""
    limits: EncoderLimits | None = None

    @property
    def ok(self) -> bool:
        """Whether training may start: no finding is an error."""
        return self.data.ok

    @property
    def findings(self) -> list[Finding]:
        """Errors, warnings and notes."""
        return self.data.findings

    @property
    def facts(self) -> list[Facts]:
        """What each split holds: rows, labels, tokens."""
        return self.data.facts

    @property
    def summary(self) -> str:
        """How many findings of each severity there are, such as `0 errors, 1 warning, 0 notes`."""
        return self.data.summary

    def as_dict(self) -> dict[str, object]:
        """Everything, as `weft check --json` prints it."""
        limits = None if self.limits is None else {"name": self.encoder, **self.limits._asdict()}
        estimate = None if self.estimate is None else self.estimate.as_dict()
        return {**self.data.as_dict(), "encoder": limits, "estimate": estimate}

    def lines(self) -> list[str]:
        """The report as lines of text."""
        encoder = [] if self.limits is None else [f"encoder {self.encoder}: {self.limits}"]
        return [*self.data.lines(), *encoder, *([] if self.estimate is None else self.estimate.lines())]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return f"CheckedRun(ok={self.ok}, {self.summary})"


def check(
    run: RunFile | Run | str | Path,
    overrides: Sequence[str] = (),
    *,
    estimate: bool = True,
    device: str | None = None,
    progress: bool = True,
) -> CheckedRun:
    """Check a run file and all its data, and estimate the memory and time that the run will take.

    A problem in the data is a finding, not an exception. A mistake in the run file raises `WeftError`.

    Example:
        >>> report = weft.check("run.yaml", ["train.batch_size=16"])
        >>> report.ok, report.summary
        (True, '0 errors, 1 warning, 0 notes')
        >>> report.estimate.memory.peak, report.estimate.seconds
        (1508143104, 412.7)

    Args:
        run: a run file, the name of a preset, a `RunFile`, a finished run or its folder.
        overrides: a list of `key=value`, such as `train.steps=500`; not with a `RunFile`.
        estimate: run a few batches and estimate memory and time.
        device: the device to estimate for: cpu, cuda, …; None: a GPU if there is one.
        progress: show the progress of tokenization and print notes, on standard error.
    """
    from weft.data.checks.check import check as check_data
    from weft.encoder.load import load_tokenizer

    if estimate:
        check_device(device)
    run_file = _run_file(run, overrides)
    tokenizer = load_tokenizer(run_file.encoder)
    report = check_data(run_file.tasks, tokenizer, run_file.training.max_length, progress=progress)
    report.findings[:0] = [
        *(
            Finding("error", "train", None, None, None, None, None, f"{key}: {text}")
            for key, text in missing_trackers(run_file.training)
        ),
        *(Finding("note", "tasks", None, None, None, None, None, note) for note in run_file.notes),
        *(Finding("warning", "tasks", None, None, None, None, None, text) for text in run_file.warnings),
    ]
    # random encoders have no tokenizer, so there are no batches to run
    possible = estimate and report.ok and tokenizer is not None
    return CheckedRun(
        report,
        estimate_run(run_file, report, device, progress) if possible else None,
        run_file.encoder,
        encoder_limits(run_file.encoder),
    )


def _run_file(run: RunFile | Run | str | Path, overrides: Sequence[str]) -> RunFile:
    if isinstance(run, RunFile):
        if overrides:
            raise WeftError("the run file is loaded already: pass the overrides to weft.load_run instead")
        return run
    if isinstance(overrides, str):
        raise WeftError(f"overrides: expected a list; found {overrides!r}: write [{overrides!r}]")
    folder = getattr(run, "folder", run)  # a finished run has a folder
    if not isinstance(folder, str | Path):
        raise WeftError(f"expected a run file, the name of a preset, or a run; found {run!r}")
    return load_run(folder, overrides)


def estimate_run(
    run_file: RunFile, report: Report, device: str | None = None, progress: bool = True
) -> Estimate:
    """Estimate the memory and time that a run will take by running a few real batches.

    Args:
        run_file: the run file.
        report: the report on its data, without errors; the tokens in it are used.
        device: as in `check`.
        progress: as in `check`.
    """
    from weft.bundle.manifest import find_bundle
    from weft.config.build import model_of
    from weft.training.estimate.estimate import estimate
    from weft.training.run.epochs import with_steps
    from weft.training.run.model_checks import check_model
    from weft.utils.devices import device_of
    from weft.workflows.plan import plan_of_sizes

    model = model_of(run_file, teller(progress)).to(device_of(device))
    if run_file.start is not None:
        find_bundle(run_file.start)
    names = [task.name for task in run_file.tasks]
    train = [report.tokens[name, "train"] for name in names]
    sizes = [len(tokens) for tokens in train]
    training = with_steps(run_file.training, names, sizes)
    check_model(model, training, names, sizes)
    plan = plan_of_sizes(run_file, sizes, [tokens.lengths for tokens in train])
    validation = {name: tokens for (name, split), tokens in report.tokens.items() if split == "validation"}
    return estimate(model, training, plan, train, validation)
