"""The plan of a run file: how often each task is sampled, and the share of padding in its batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from weft.config.run_file import RunFile
    from weft.sampling.plan.plan import Plan


@dataclass(frozen=True)
class RunPlan:
    """The plan of a run, with facts about it.

    Attributes:
        plan: the plan.
        l0_steps: the number of steps that find the ranks (`l0`) before the weights are trained; 0 without
            gates.
        padding: the share of token positions that are padding; None for an encoder without a tokenizer.
    """

    plan: Plan
    l0_steps: int
    padding: float | None

    @property
    def shares_of(self) -> str:
        """What the plan's shares count: `draws`, or `candidates` if the model chooses among them."""
        return "candidates" if self.plan.chooses else "draws"

    @property
    def unit(self) -> str:
        """What a task is sampled for: `steps`, or `examples` of mixed batches."""
        return "examples" if self.plan.mixed and not self.plan.chooses else "steps"

    def as_dict(self) -> dict[str, Any]:
        """All facts, as `weft show plan --json` prints them."""
        plan = self.plan
        return {
            "tasks": [asdict(row) for row in plan.summary()],
            "drawn": self.unit,
            "shares": [
                {
                    "first": window.first,
                    "stop": window.stop,
                    "share": dict(zip(plan.names, window.share.tolist(), strict=True)),
                }
                for window in plan.shares()
            ],
            "shares_of": self.shares_of,
            "padding": self.padding,
            "epoch": asdict(plan.epoch()),
            "fingerprint": plan.fingerprint(),
        }


def plan_run(run_file: RunFile) -> RunPlan:
    """Make the plan of a run file from its training rows.

    Raises:
        WeftError: if the run has no steps, and so samples no task.
    """
    if not run_file.training.steps:
        raise WeftError(
            "train.steps is 0: the heads start from a probe and no task is sampled; to see a plan, set the "
            "number of steps, for example: train.steps=1000"
        )
    from weft.data.splits.splits import load_rows
    from weft.encoder.load import load_tokenizer

    splits = [load_rows(task, "train") for task in run_file.tasks]
    from weft.data.tokens.tokens import tokenize

    tokenizer = load_tokenizer(run_file.encoder)
    lengths = None
    if tokenizer is not None:
        lengths = [tokenize(split, tokenizer, run_file.training.max_length).lengths for split in splits]
    plan = plan_of_sizes(run_file, [len(split) for split in splits], lengths)
    return RunPlan(plan, l0_steps(run_file), None if lengths is None else plan.padding_waste())


def plan_of_sizes(
    run_file: RunFile, sizes: Sequence[int], lengths: Sequence[NDArray[np.int64]] | None
) -> Plan:
    """Make the plan of a run file from the sizes of its training data.

    Args:
        run_file: the run file.
        sizes: the number of training examples of each task, [T].
        lengths: the number of tokens of each example, by task; None: not known.
    """
    from weft.training.run.epochs import with_steps
    from weft.training.run.plan import plan_of

    names = [task.name for task in run_file.tasks]
    training = with_steps(run_file.training, names, sizes)
    return plan_of(training, names, sizes, lengths, l0_steps(run_file))


def l0_steps(run_file: RunFile) -> int:
    """The number of steps of the first phase, which finds the ranks; 0 if the method has no gates."""
    from weft.methods.ranked import l0_of

    gates = l0_of(run_file.method)
    return 0 if gates is None else gates.steps
