"""Which encoder parameters of a model train: by the method, except for those that no loss reaches."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from torch import nn

from weft.encoder.trainable import set_trained
from weft.methods.what_trains import with_train_encoder
from weft.model.heads import pool_of

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.load import Encoder
    from weft.encoder.sites import Site
    from weft.methods.method import Method
    from weft.model.model import Model
    from weft.tasks.task import Task


def pools_read(tasks: Sequence[Task], pool: str, encoder: Encoder) -> set[str]:
    """What the heads of the tasks read: `pooler`, `cls`, `mean`, …

    Args:
        tasks: the tasks; each may set a pool for its head.
        pool: the pool of all others.
        encoder: the encoder.
    """
    return {pool_of(task.pool or pool, encoder) for task in tasks}


def set_what_trains(
    base: nn.Module,
    method: Method,
    placements: Sequence[tuple[Site, Adapter]],
    read: Collection[str],
    restarted: Sequence[int] = (),
) -> None:
    """Freeze an encoder except for what the method trains.

    Args:
        base: the Hugging Face encoder.
        method: the method.
        placements: its adapters and their sites.
        read: what the heads read; see `pools_read`.
        restarted: blocks that are reinitialized, which must train.
    """
    set_trained(base, [part.train_encoder for part in method.parts], restarted)
    pooler = getattr(base, "pooler", None)
    if "pooler" not in read and pooler is not None:
        pooler.requires_grad_(False)  # a parameter that no loss reaches breaks data parallelism
    for site, adapter in placements:
        if adapter.replaces:
            base.get_submodule(site.path).requires_grad_(False)  # each task has a copy of it


def change_what_trains(model: Model, choice: str) -> None:
    """Let different encoder parameters of a model train. Its method then says so, and its bundle too.

    Args:
        model: the model; a bundle does not hold what is frozen, so weights that have been trained must stay
            among those that train.
        choice: a value of `train_encoder`.
    """
    model.method = with_train_encoder(model.method, choice)
    read = pools_read(model.tasks, model.pool, model.encoder_source)
    for base in model.encoders:
        set_what_trains(base, model.method, model.placements, read)


def trained_encoder(model: Model) -> set[str]:
    """The names of the encoder parameters that train, as in the model's state dict."""
    return {f"encoder.{name}" for name, p in model.encoder.named_parameters() if p.requires_grad}
