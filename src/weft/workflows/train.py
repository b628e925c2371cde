"""Training from a run file: the function behind `weft train`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from weft.utils.notes import Tell, print_note

if TYPE_CHECKING:
    from weft.config.run_file import RunFile
    from weft.data.splits.split import Split
    from weft.model.model import Model
    from weft.training.run.progress import Progress
    from weft.training.run.run import Run


def check_start(
    run_file: RunFile, out: str | Path, *, resume: bool = False, device: str | None = None
) -> None:
    """Refuse what can be refused before data are read and torch is imported: the folder, the device, the hub.

    Args:
        run_file: the run file.
        out: the folder to write the run to.
        resume: whether to continue the run in `out`.
        device: cpu, cuda, …; None: a GPU if there is one.
    """
    from weft.encoder.catalogue import check_has_tokenizer
    from weft.encoder.load import check_reachable
    from weft.training.run.checks import check_trackers
    from weft.training.run.folder import check_folder
    from weft.utils import launch_env
    from weft.utils.devices import check_device

    check_device(device)
    check_trackers(run_file.training)
    check_has_tokenizer(run_file.encoder)
    check_reachable(run_file.encoder)
    # of several processes, only the first needs to see the folder: `train` checks it there
    if launch_env.world() == 1:
        check_folder(Path(out), run_file.resolved, resume)


def train_run(
    run_file: RunFile,
    out: str | Path,
    *,
    resume: bool = False,
    with_encoder: bool = False,
    device: str | None = None,
    tell: Tell = print_note,
    progress: bool | Callable[[int, int], Progress] = True,
) -> Run:
    """Build the model of a run file and train it.

    Example:
        >>> run = train_run(weft.load_run("quickstart"), "runs/first")

    Args:
        run_file: the run file, as `weft.load_run` returns it.
        out: the folder to write the run to.
        resume: continue from the last checkpoint in `out`.
        with_encoder: save the encoder's weights in the bundle, not only its name and sha256.
        device: cpu, cuda, …; None: a GPU if there is one.
        tell: called with each note, such as rows that were left out.
        progress: see `weft.train`.
    """
    from weft.training.run.lock import writing_run
    from weft.utils import launch_env

    # at once, before the data is read; of several processes the first one locks the folder, in `train`
    alone = launch_env.world() == 1
    with writing_run(Path(out)) if alone else nullcontext():
        prepared = prepare_run(run_file, out, resume=resume, device=device, tell=tell)

        from weft.training.run.run import train

        return train(
            prepared.model,
            run_file.training,
            out,
            resume=resume,
            with_encoder=with_encoder,
            resolved=run_file.resolved,
            splits=prepared.splits,
            progress=progress,
        )


class PreparedRun(NamedTuple):
    """A model with its initial values, and its rows.

    Attributes:
        model: the model, on its device.
        splits: (task, split) → rows, as `weft.train` takes them.
    """

    model: Model
    splits: dict[tuple[str, str], Split]


def prepare_run(
    run_file: RunFile,
    out: str | Path,
    *,
    resume: bool = False,
    device: str | None = None,
    tell: Tell = print_note,
) -> PreparedRun:
    """Read the data of a run file and build its model.

    Args:
        run_file: the run file.
        out: the folder to write the run to.
        resume: whether to continue the run in `out`.
        device: cpu, cuda, …; None: a GPU if there is one.
        tell: called with each note.
    """
    from weft.data.splits.task_rows import rows_of_task

    check_start(run_file, out, resume=resume, device=device)
    # the data is read before torch is imported: a wrong row is reported within a second
    splits: dict[tuple[str, str], Split] = {}
    for task in run_file.tasks:
        rows = rows_of_task(task)
        splits |= rows.splits
        for note in rows.notes:
            tell(note)

    from weft.bundle.start import start_from
    from weft.config.build import model_of
    from weft.training.run.checkpoint_files import last_checkpoint
    from weft.utils.devices import device_of

    model = model_of(run_file, tell)
    # a run that was killed before its first checkpoint starts from the beginning
    if run_file.start is not None and not (resume and last_checkpoint(Path(out) / "checkpoints")):
        for note in start_from(model, run_file.start):
            tell(note)
    return PreparedRun(model.to(device_of(device)), splits)
