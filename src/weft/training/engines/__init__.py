"""Step engines: a step runs eagerly, with compiled encoder blocks, or as a CUDA graph.

A new engine is one file with a subclass of `Engine`, and one line in `ENGINES`. The class itself declares
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
"""The value of `train.engine` that lets the device decide."""

FALLBACK = "eager"
"""The engine that can run every model."""


def choose_engine(model: Model, training: Training, processes: Processes) -> tuple[str, str | None]:
    """The name of the engine that runs a model's steps, and why it is not the requested one.

    `auto` is the engine with the highest priority on the model's device that can run. A requested engine that
    cannot run is replaced by `eager`.

    Args:
        model: the model, on its device.
        training: the settings of `train`, with the requested engine.
        processes: the processes that train together.
    """
    device = next(model.parameters()).device
    requested = [training.engine]
    if training.engine == AUTO:
        priorities = {name: ENGINES[name].priority(device) for name in ENGINES}
        chosen = {name: rank for name, rank in priorities.items() if rank is not None}
        requested = sorted(chosen, key=lambda name: -chosen[name])
    reason = None
    for name in requested:
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
    """Build an engine by its name.

    Args:
        name: the result of `choose_engine`.
        gradients: computes the gradients of a step.
        optimizers: the optimizer of each owner.
        penalty: added to the loss of every step; None: nothing.
        verifier: compares an engine that compiles with plain code; None: no verification.
        plain: whether the model runs unpatched, without bf16 copies of weights and norms.
    """
    from weft.acceleration.bf16_norms import Bf16Norms
    from weft.acceleration.bf16_weights import Bf16Weights
    from weft.acceleration.compiled import Compiled, check_free
    from weft.acceleration.patch import PatchStack
    from weft.training.optim.precision import is_bf16

    model, training = gradients.model, gradients.training
    engine = ENGINES[name].variant(training)
    check_free(model)
    patch_stack = PatchStack()
    try:
        if gradients.processes.world == 1 and not plain and is_bf16(training, gradients.device):
            patch_stack.patches += [Bf16Weights(model), Bf16Norms(model)]
        # with the patches of training, and before the blocks are compiled, which the trunk does not need
        gradients.microbatches.keep_trunk()
        if engine.compiles:
            patch_stack.patches.append(Compiled(model))
    except BaseException:
        patch_stack.undo()
        raise
    return engine(gradients, optimizers, penalty, patch_stack, verifier if engine.compiles else None)
