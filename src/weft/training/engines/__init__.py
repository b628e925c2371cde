"""Step engines: the same step run line by line, with compiled blocks, or as a CUDA graph.

A new engine is one file with one class of `Engine`, and one line in `ENGINES`. The class says by itself
whether it can run a model, and whether `train.engine: auto` may choose it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.registry import Registry

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.training.engines.engine import Engine
    from weft.training.engines.verifier import Verifier
    from weft.training.optim.owners import OwnerOptimizers
    from weft.training.settings import Training
    from weft.training.step.gradients import Penalty, StepGradients
    from weft.utils.processes import Processes

ENGINES: Registry[type[Engine]] = Registry(
    "engine",
    {
        "compiled": "weft.training.engines.compiled:CompiledEngine",
        "eager": "weft.training.engines.eager:EagerEngine",
        "graph": "weft.training.engines.graph:GraphEngine",
    },
)

AUTO = "auto"
"""What `train.engine` is where the device decides."""

FALLBACK = "eager"
"""The engine that runs whatever another cannot."""


def choose_engine(model: Model, training: Training, processes: Processes) -> tuple[str, str | None]:
    """The name of the engine that runs a model's steps, and why it is not the one that was wanted.

    `auto` is the engine with the highest priority on the model's device that can run. An engine that is named
    and cannot run is replaced by `eager`.

    Args:
        model: the model, on its device.
        training: how it is trained, the engine that is wanted among it.
        processes: those that train together.
    """
    device = next(model.parameters()).device
    wanted = [training.engine]
    if training.engine == AUTO:
        priorities = {name: ENGINES[name].priority(device) for name in ENGINES}
        chosen = {name: rank for name, rank in priorities.items() if rank is not None}
        wanted = sorted(chosen, key=lambda name: -chosen[name])
    reason = None
    for name in wanted:
        obstacle = ENGINES[name].why_not(model, training, processes)
        if obstacle is None:
            return name, reason
        reason = reason or obstacle
    return FALLBACK, reason


def build_engine(
    name: str,
    gradients: StepGradients,
    optimizers: OwnerOptimizers,
    penalty: Penalty | None,
    verifier: Verifier | None = None,
    plain: bool = False,
) -> Engine:
    """An engine by its name.

    Args:
        name: of `choose_engine`.
        gradients: what computes the gradients of a step.
        optimizers: each owner's optimiser.
        penalty: what is added to every step's loss; None: nothing.
        verifier: what compares an engine that compiles with plain code; None: nothing does.
        plain: whether the model runs as it is at rest: nothing is rounded ahead or put together.
    """
    from weft.acceleration.bf16_norms import Bf16Norms
    from weft.acceleration.bf16_weights import Bf16Weights
    from weft.acceleration.compiled import Compiled, check_free
    from weft.acceleration.patch import PatchStack
    from weft.training.optim.precision import is_bf16

    engine = ENGINES[name]
    model, training = gradients.model, gradients.training
    check_free(model)
    patch_stack = PatchStack()
    try:
        if gradients.processes.world == 1 and not plain and is_bf16(training, gradients.device):
            patch_stack.patches += [Bf16Weights(model), Bf16Norms(model)]
        gradients.parts.keep_trunk()  # as it runs in training, and before it would be compiled for this alone
        if engine.compiles:
            patch_stack.patches.append(Compiled(model))
    except BaseException:
        patch_stack.undo()
        raise
    return engine(gradients, optimizers, penalty, patch_stack, verifier if engine.compiles else None)
