"""The encoder's blocks spread over processes (FSDP); embeddings, adapters and heads stay whole in each.

A block's weights are gathered when it runs and dropped after it, forward and backward; its gradient is
scattered. What is small, and what a task owns, is not worth gathering: every process has it all, and its
gradient is summed. Adapters live beside the encoder, so that a block's weights are the encoder's alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from weft.errors import WeftError
from weft.utils.processes import Processes

if TYPE_CHECKING:
    from weft.model.model import Model


def shard_blocks(model: Model, processes: Processes) -> None:
    """Spread every block of the encoder over the processes; its parameters become `DTensor`s.

    Before the optimisers are made: they must see the parts.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    if model.method.separate:
        raise WeftError(
            "train.parallel: fsdp spreads the blocks of one encoder over all processes; method 'separate' "
            "has an encoder a task, and processes run different ones at a time: expected ddp"
        )
    encoder = model.encoder
    sites = model.body.sites  # type: ignore[attr-defined]
    mesh = init_device_mesh(next(model.parameters()).device.type, (processes.world,))
    for site in sites:
        if site.kind == "block":
            # said, since every block stands alone: after a pass without a backward it would stay whole
            fully_shard(encoder.get_submodule(site.path), mesh=mesh, reshard_after_forward=True)


def is_part(tensor: Tensor) -> bool:
    """Whether a process holds only its part of a tensor."""
    return hasattr(tensor, "full_tensor")


def whole(tensor: Tensor) -> Tensor:
    """The whole tensor, gathered from all processes where each holds a part: all must ask for it."""
    return tensor.full_tensor() if is_part(tensor) else tensor  # type: ignore[attr-defined]


def part_of(value: Tensor, like: Tensor) -> Tensor:
    """What this process holds of a whole tensor, in the form of `like`."""
    value = value.to(like.device)
    if not is_part(like):
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value, like.device_mesh, like.placements)  # type: ignore[attr-defined]


@contextmanager
def whole_model(model: Model) -> Iterator[None]:
    """Inside, every block's weights are whole in each process, to be read; all processes must enter."""
    blocks: list[Any] = [module for module in model.modules() if hasattr(module, "unshard")]
    for block in blocks:
        block.unshard()
    try:
        yield
    finally:
        for block in blocks:
            block.reshard()


def sum_gradients(parameters: Iterable[nn.Parameter], processes: Processes) -> None:
    """Make each gradient the sum over all processes.

    FSDP has scattered the blocks' gradients already, as means: they are multiplied by the number of
    processes, since the weights of a step's examples are those of the whole step.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    processes.sum_([g for g in gradients if not is_part(g)])
    parts = [g.to_local() for g in gradients if is_part(g)]  # type: ignore[attr-defined]
    if parts:
        torch._foreach_mul_(parts, float(processes.world))
