"""Reading the inputs of every importer: a state dict, a configuration and tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.encoder.load import Encoder
from weft.encoder.pretrained import check_size, tokenizer_from_files
from weft.errors import WeftError
from weft.tasks.task import Task
from weft.utils.safe_json import parse_json
from weft.utils.weight_files import check_tensors, read_saved

if TYPE_CHECKING:
    from transformers import BertConfig, BertModel

NEGLIGIBLE = 16_000_000
"""A number of values that may be allocated whatever the state dict holds."""


def read_state(state: Mapping[str, Any] | str | Path) -> dict[str, Tensor]:
    """Return a state dict, from memory or a file, without the prefix that data parallelism adds to keys."""
    if isinstance(state, str | Path):
        path = Path(state)
        state = read_saved(path)
        if isinstance(state, dict):  # other values are reported below
            check_tensors(path, {key: value for key, value in state.items() if isinstance(value, Tensor)})
    if not isinstance(state, Mapping):
        raise WeftError(f"state: expected a state dict or its file; found {type(state).__name__}")
    read = {}
    for key, value in state.items():
        try:
            # data parallelism adds this prefix to every key
            read[str(key).removeprefix("module.")] = torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError):
            raise WeftError(f"state: {key}: expected a tensor; found {type(value).__name__}") from None
    for buffer in ("position_ids", "token_type_ids"):  # buffers of later library versions, not weights
        read.pop(f"bert.embeddings.{buffer}", None)
    return read


def read_config(config: Mapping[str, Any] | str | Path | Any) -> tuple[str, dict[str, Any]]:
    """Return a name for a configuration, and its keys, from a mapping, an object or a JSON file."""
    where = "config"
    if isinstance(config, str | Path):
        where = str(config)
        try:
            config = parse_json(Path(config).read_bytes())
        except (OSError, ValueError) as wrong:
            raise WeftError(f"{where} cannot be read as JSON: {wrong}") from None
    if not isinstance(config, Mapping) and not hasattr(config, "__dict__"):
        raise WeftError(f"config: expected the authors' configuration or its JSON file; found {config!r}")
    return where, dict(config if isinstance(config, Mapping) else vars(config))


def bare_bert(config: BertConfig, state: Mapping[str, Tensor], further: Mapping[str, Any]) -> BertModel:
    """Build the encoder of a checkpoint, unless its configuration describes more than the state dict holds.

    Args:
        config: the configuration of BERT.
        state: the state dict.
        further: the other sizes of the authors' configuration, by name.
    """
    from transformers import BertModel

    stored = sum(tensor.numel() for tensor in state.values())
    for name, size in further.items():
        # of a matrix of this size and the encoder's width; small ones cost nothing
        if isinstance(size, int | float) and size * config.hidden_size > max(stored, NEGLIGIBLE):
            raise WeftError(f"config: {name}: found {size!r}; the state dict has only {stored:,} values")
    check_size(config, state, "config")
    return BertModel(config).eval()


def named_tasks(sizes: Sequence[int], names: Sequence[str | Task], source: str) -> list[Task]:
    """Make tasks of these sizes.

    Args:
        sizes: the number of outputs of each task; 1 means regression.
        names: one name, or one task of that size, per size.
        source: where the sizes come from, for messages.
    """
    tasks = []
    for size, name in zip(sizes, names, strict=True):
        kind = "regress" if size == 1 else "classify"
        task = name if isinstance(name, Task) else Task(name, kind, size=size)
        if task.size != size:
            raise WeftError(f"task {task.name!r} has {task.size} outputs; {source} says {size}")
        tasks.append(task)
    return tasks


def give_tokenizer(encoder: Encoder, tokenizer: Any) -> None:
    """Set the tokenizer of an encoder, possibly from a folder; None leaves it without a tokenizer."""
    if tokenizer is None:
        return
    named = isinstance(tokenizer, str | Path)
    encoder.tokenizer = tokenizer_from_files(encoder.name, str(tokenizer)) if named else tokenizer
