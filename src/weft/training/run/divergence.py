"""Runs that diverge: weights that are not finite are neither evaluated nor saved; the last good ones stay.

A loss that is not finite ends a run in its step. An update that overflows shows only in the next loss, and
after the last step there is none. So weights are also checked before each evaluation, before each checkpoint
and at the end. A check waits for the device once, where the run waits for it anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from weft.bundle.save import save
from weft.core.stacked import SHARED
from weft.errors import Diverged, WeftError, words
from weft.model.ownership import of_owner, owned
from weft.training.optim.clip import local
from weft.training.optim.sharding import whole_model
from weft.training.run.checkpoint import load_tensors, read_more, trained_tensors
from weft.training.run.checkpoint_files import last_checkpoint, read_state
from weft.training.step.gradients import after_divergence
from weft.utils.finite import NOT_FINITE, not_finite

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.training.run.loop import Loop
    from weft.training.settings import Training
    from weft.utils.processes import Processes


def check_weights(
    model: Model, steps: int, last_tasks: Sequence[str], training: Training, processes: Processes
) -> None:
    """Raise `Diverged` in all processes if weights that a run may have changed are not finite.

    Args:
        model: the model, without patches.
        steps: the number of steps done.
        last_tasks: the tasks that the last step had examples of. All losses were finite, so only its update
            can have changed weights that its tasks share.
        training: the settings of `train`, for the advice of the message.
        processes: the processes that train together; each checks its shards.
    """
    odd = not_finite({name: local(tensor) for name, tensor in trained_tensors(model).items()})
    if not processes.sum_array(np.array([float(len(odd))]))[0]:
        return
    every = [name for names in processes.gathered(odd) for name in names]
    items = {f"{i.owner} {i.name}": i for i in owned(model) if i.name in every}
    # of a stacked parameter only some slots are odd; a shard may be odd in another process only
    odd_items = not_finite({key: local(item.data) for key, item in items.items()}) or list(items)
    owners = {items[key].owner for key in odd_items} or {SHARED}
    owner = min(owners, key=lambda owner: (not owner.startswith("task:"), owner))
    when = f"after step {steps - 1}" if steps else "before the first step"
    if last_tasks and not owner.startswith("task:"):
        when += f", whose examples were of {_tasks(last_tasks)}"
    raise Diverged(
        f"{when}: weights {of_owner(owner)} are {NOT_FINITE} ({every[0]}); the run diverged.\n"
        f"  {after_divergence(training)}",
        everywhere=True,
    )


def _tasks(names: Sequence[str]) -> str:
    return f"task{'s' * (len(names) > 1)} {', '.join(map(repr, names))}"


@dataclass(frozen=True)
class Kept:
    """The weights that are left of a run that diverged.

    Attributes:
        steps: the number of steps done when they were saved.
        best: whether they are those of the best evaluation; else those of the last checkpoint.
    """

    steps: int
    best: bool


def end_diverged(loop: Loop, failed: Diverged, with_bundle: bool, with_encoder: bool) -> Diverged:
    """End a run that diverged: write the bundle of its last good weights.

    Args:
        loop: the loop; its model gets these weights.
        failed: why the run ended.
        with_bundle: whether the run writes a bundle.
        with_encoder: as in `save`.

    Returns:
        The error with what is left of the run, and what to type next.
    """
    folder, why = loop.folder, str(failed).splitlines()[0]
    loop.log.write("diverged", step=loop.state.step, why=why)
    if not with_bundle:
        return failed
    if loop.processes.world > 1 and not failed.everywhere:
        # the other processes wait in the middle of a step: nothing can be gathered from them
        left = f"its checkpoints are in {loop.checkpoints}"
    else:
        try:
            kept = _restored(loop)
            if kept is not None:
                with whole_model(loop.model):
                    loop.processes.on_main(lambda: save(loop.model, folder / "bundle", with_encoder))
            left = _left(folder, kept)
        except (OSError, WeftError) as wrong:
            left = f"the bundle of its last good weights could not be written: {wrong}"
    return Diverged(f"{failed}\n  {left}", failed.everywhere)


def _restored(loop: Loop) -> Kept | None:
    """Give the model its best weights, else those of the last checkpoint; None: there are none."""
    loop.driver.close()
    state = loop.state
    # once the run has finished its steps, these weights are the ones that failed
    if state.best_step is not None and not loop.finished:
        loop.validation.best.restore(state, from_files=True)
        return Kept(state.best_step, best=True)
    checkpoint = loop.processes.on_main(lambda: last_checkpoint(loop.checkpoints))
    if checkpoint is None:
        return None
    saved = read_state(checkpoint)["loop"]
    if saved["step"] <= loop.before:
        return None  # gates that are not decided make no bundle
    load_tensors(checkpoint / "weights.safetensors", trained_tensors(loop.model))
    if loop.components.change_evaluation:
        loop.components.load_states(saved.get("parts", {}), read_more(checkpoint), saved["step"])
        loop.components.make_lasting(trained_tensors(loop.model))
    return Kept(saved["step"], best=False)


def _left(folder: Path, kept: Kept | None) -> str:
    """What is left of the run, and how to use it."""
    if kept is None:
        return (
            "no good weights are left: there was no evaluation and no checkpoint before; set "
            f"{words('train.evaluate_every', 'Training(evaluate_every=…)')} to keep the best weights"
        )
    what = "its best weights" if kept.best else "the weights of its last checkpoint"
    see = words(f"weft evaluate {folder}", f"weft.evaluate({str(folder)!r})")
    start = words(f"add start={folder}", f"call weft.start_from(model, {str(folder)!r}) before weft.train")
    return (
        f"{what}, after {kept.steps} steps, are in {folder / 'bundle'}; evaluate them with: {see}\n"
        f"  to train from there, with a smaller rate, in a new run: {start}"
    )
