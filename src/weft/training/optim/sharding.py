"""Sharding of the encoder's blocks over processes (FSDP); embeddings, adapters and heads are replicated.

A block's weights are gathered when it runs, forward and backward, and dropped after it; its gradient is
scattered. Small parameters, and those that a task owns, are not worth gathering: every process has them
whole, and their gradients are summed. Adapters are stored beside the encoder, so a block contains only the
encoder's weights.
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
    """Shard every block of the encoder over the processes; its parameters become `DTensor`s.

    Call this before the optimizers are built: they must see the shards.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    if model.method.separate:
        raise WeftError(
            "train.parallel: fsdp shards the blocks of one encoder over all processes; method 'separate' "
            "has one encoder per task, and processes run different encoders at a time: expected ddp"
        )
    encoder = model.encoder
    sites = model.body.sites  # type: ignore[attr-defined]
    mesh = init_device_mesh(next(model.parameters()).device.type, (processes.world,))
    for site in sites:
        if site.kind == "block":
            # explicit, because every block is a root: after a pass without a backward it would stay whole
            fully_shard(encoder.get_submodule(site.path), mesh=mesh, reshard_after_forward=True)


def is_sharded(tensor: Tensor) -> bool:
    """Whether each process holds only a shard of a tensor."""
    return hasattr(tensor, "full_tensor")


def whole(tensor: Tensor) -> Tensor:
    """The whole tensor, gathered from all processes if it is sharded; all processes must make this call."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def sharded_like(value: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, on the device of `like` and sharded as `like` is."""
    value = value.to(like.device)
    if not is_sharded(like):
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value, like.device_mesh, like.placements)  # type: ignore[attr-defined]


@contextmanager
def whole_model(model: Model) -> Iterator[None]:
    """Inside, each process has the whole weights of every block, to read them; all processes must enter."""
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

    FSDP has already scattered the blocks' gradients, as means: they are multiplied by the number of
    processes, because the example weights are relative to the whole step.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    processes.sum_([g for g in gradients if not is_sharded(g)])
    shards = [g.to_local() for g in gradients if is_sharded(g)]  # type: ignore[attr-defined]
    if shards:
        torch._foreach_mul_(shards, float(processes.world))
