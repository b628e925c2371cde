"""Step engines: the same step run line by line, with compiled blocks, or as a CUDA graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.training.engines.engine import Engine
    from weft.training.engines.verifier import Verifier
    from weft.training.optim.owners import OwnerOptimizers
    from weft.training.settings import Training
    from weft.training.step.gradients import Penalty, StepGradients
    from weft.utils.processes import Processes

EngineName = Literal["eager", "compiled", "graph"]


def choose_engine(model: Model, training: Training, processes: Processes) -> tuple[EngineName, str | None]:
    """The engine that runs a model's steps, and why it is not the one that was wanted, in a sentence.

    `auto` is `graph` on a GPU and `eager` on a CPU, where compiling costs more than most runs win by it.
    Under `separate` a graph is of one task, and so must every step be.

    Args:
        model: the model, on its device.
        training: how it is trained, the engine that is wanted among it.
        processes: those that train together.
    """
    device, wanted = next(model.parameters()).device, training.engine
    if wanted == "auto":
        wanted = "graph" if device.type == "cuda" else "eager"
    if wanted == "eager":
        return "eager", None
    if model.method.separate and (wanted == "compiled" or training.mixed):
        return "eager", "method 'separate' sends other numbers of rows through each task's encoder every step"
    if wanted == "graph":
        obstacle = _no_graph(model, training, processes, device)
        if obstacle is not None:
            return "eager", obstacle
        return "graph", None
    if training.conflict is not None:
        return "eager", "train.conflict runs each task by itself, with other numbers of rows every step"
    if processes.world > 1 and training.parallel == "fsdp":
        return "eager", "fsdp gathers a block's weights outside the block, where nothing is compiled"
    return "compiled", None


def _no_graph(model: Model, training: Training, processes: Processes, device: torch.device) -> str | None:
    if device.type != "cuda":
        return f"a graph needs a CUDA GPU, and the model is on {device.type}"
    if training.conflict is not None:
        return "train.conflict runs each task by itself, with other numbers of rows every step"
    if processes.world > 1:
        return "several processes meet inside the step"
    if any(getattr(module, "gradient_checkpointing", False) for module in model.encoder.modules()):
        return "gradient checkpointing reads the state of the random numbers in the middle of a step"
    return None


def build_engine(
    name: EngineName,
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
    from weft.training.engines.eager import EagerEngine
    from weft.training.engines.graph import GraphEngine
    from weft.training.optim.precision import is_bf16

    model, training = gradients.model, gradients.training
    check_free(model)
    patch_stack = PatchStack()
    try:
        if gradients.processes.world == 1 and not plain and is_bf16(training, gradients.device):
            patch_stack.patches += [Bf16Weights(model), Bf16Norms(model)]
        gradients.parts.keep_trunk()  # as it runs in training, and before it would be compiled for this alone
        if name != "eager":
            patch_stack.patches.append(Compiled(model))
    except BaseException:
        patch_stack.undo()
        raise
    if name == "graph":
        return GraphEngine(gradients, optimizers, penalty, patch_stack, verifier)
    return EagerEngine(
        gradients, optimizers, penalty, patch_stack, name, None if name == "eager" else verifier
    )
