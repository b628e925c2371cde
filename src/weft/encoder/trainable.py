"""Selects which parameters of an encoder train."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from weft.encoder.anatomy import anatomy_of, find, path_of
from weft.encoder.norms import is_norm
from weft.encoder.sites import parse_layers
from weft.errors import WeftError


def set_trained(encoder: nn.Module, choices: list[str], restarted: Sequence[int] = ()) -> None:
    """Freeze the encoder except for what any of the choices trains; the family's constants stay frozen.

    Args:
        encoder: a Hugging Face encoder.
        choices: each `none`, `all`, `biases`, `norms`, or `layers 6-11`: those blocks and, if the last block
            is among them, the modules above it (final norm, pooler).
        restarted: blocks that are reinitialized; they must train, since frozen weights are not saved.
    """
    blocks = encoder.get_submodule(anatomy_of(encoder).blocks)
    for choice in choices:  # before anything is changed: a refused encoder must stay as it was
        _layers_of(choice, len(blocks))  # type: ignore[arg-type]
    for layer in restarted:
        if not any(layer in _layers_of(choice, len(blocks)) for choice in choices):  # type: ignore[arg-type]
            raise WeftError(f"layer {layer} is reinitialized but frozen: let it train (train_encoder)")
    encoder.requires_grad_(False)
    for choice in choices:
        if choice == "all":
            encoder.requires_grad_(True)
        elif choice == "biases":
            biases = [p for name, p in encoder.named_parameters() if name.endswith("bias")]
            if not biases:
                family = encoder.config.model_type  # type: ignore[union-attr]
                raise WeftError(
                    f"train_encoder: biases, but this {family} encoder has none; method bitfit adds its own"
                )
            for bias in biases:
                bias.requires_grad_(True)
        elif choice == "norms":
            for module in encoder.modules():
                if is_norm(module):
                    module.requires_grad_(True)
        elif choice != "none":
            _train_layers(encoder, choice.split(maxsplit=1)[1])
    for path in anatomy_of(encoder).constant:
        located = find(encoder, path)
        if located is not None:
            located[1].requires_grad_(False)


def _layers_of(choice: str, count: int) -> list[int]:
    """Return the blocks that a choice trains entirely."""
    if choice in ("none", "biases", "norms"):
        return []
    return parse_layers("all" if choice == "all" else choice.split(maxsplit=1)[1], count)


def _train_layers(encoder: nn.Module, layers: str) -> None:
    anatomy = anatomy_of(encoder)
    blocks = encoder.get_submodule(anatomy.blocks)
    count = len(blocks)  # type: ignore[arg-type]
    chosen = parse_layers(layers, count)
    for number in chosen:
        blocks[number].requires_grad_(True)  # type: ignore[index]
    if count - 1 in chosen:
        for above in (path_of(anatomy, "final_norm"), "pooler"):
            located = None if above is None else find(encoder, above)
            if located is not None:
                located[1].requires_grad_(True)
