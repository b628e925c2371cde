"""Reading the inputs of every importer: a state dict, a configuration and tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from weft.encoder.load import Encoder
from weft.errors import WeftError
from weft.tasks.task import Task


def read_state(state: Mapping[str, Any] | str | Path) -> dict[str, Tensor]:
    """Return a state dict, from memory or a file, without the prefix that data parallelism adds to keys."""
    if isinstance(state, str | Path):
        path = Path(state)
        if not path.is_file():
            raise WeftError(f"{path}: there is no such file")
        try:
            safe = path.suffix == ".safetensors"
            state = load_file(path) if safe else torch.load(path, map_location="cpu", weights_only=True)
        except (SafetensorError, UnpicklingError, RuntimeError, EOFError) as wrong:
            reason = str(wrong).split("\n")[0]
            raise WeftError(f"{path} cannot be read as a file of weights: {reason}") from None
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
            config = json.loads(Path(config).read_text(encoding="utf-8"))
        except (OSError, ValueError) as wrong:
            raise WeftError(f"{where} cannot be read as JSON: {wrong}") from None
    if not isinstance(config, Mapping) and not hasattr(config, "__dict__"):
        raise WeftError(f"config: expected the authors' configuration or its JSON file; found {config!r}")
    return where, dict(config if isinstance(config, Mapping) else vars(config))


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
    from transformers import AutoTokenizer

    named = isinstance(tokenizer, str | Path)
    encoder.tokenizer = AutoTokenizer.from_pretrained(tokenizer) if named else tokenizer
