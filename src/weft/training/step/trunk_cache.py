"""A cache of the frozen trunk's outputs for every training row, computed once.

    kept[o_r + i] = hidden_k of token i of row r, [N + 1, d] over all N tokens; entry 0 is zero, for padding

The trunk runs in eval mode. If it has no dropout, a run with the cache equals the run without it; else the
only difference is that the trunk runs without dropout (`TrunkCache.note`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.batching.collate import collate
from weft.errors import WeftError
from weft.model.trunk import Trunk, frozen_depth, has_dropout, run_trunk

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.model.model import Model

TOKENS = 16384
"""Tokens per pass, padding included, while the cache is filled."""

SHARE = 0.5
"""The fraction of the free memory that a cache may take by default."""


class TrunkCache:
    """The trunk's outputs for all training rows, on the training device.

    Args:
        model: the model, on its device; frozen weights must not change while the cache is used.
        tokens: the tokenized training rows of each task of the plan, [T].
        ids: the model's id of each task, [T].
        under: the autocast context of training passes, which decides on the dtype of the cache.
        limit: the maximum size in bytes; None: half of the free memory.

    Attributes:
        depth: the number of blocks of the trunk.
        bytes: the size of the cache.
        note: a note for the user; None if the run equals a run without the cache.
    """

    def __init__(
        self,
        model: Model,
        tokens: Sequence[Tokens],
        ids: Sequence[int],
        under: AbstractContextManager[object] | None = None,
        limit: int | None = None,
    ) -> None:
        self.depth = check_trunk(model)
        self.device = next(model.parameters()).device
        self.note: str | None = None
        if has_dropout(model, self.depth):
            self.note = f"trunk_cache: the {self.depth} lowest blocks, which are frozen, run without dropout"
        self._first = dict(
            zip(map(id, tokens), _starts([len(task.row_lengths) for task in tokens]), strict=True)
        )
        lengths = np.concatenate([task.row_lengths for task in tokens])
        # entry 0 is padding; the last row, without tokens, fills batches that have room for more rows
        self._empty = len(lengths)
        self._start = torch.from_numpy(np.append(_starts(lengths.tolist()) + 1, 0)).to(self.device)
        self._length = torch.from_numpy(np.append(lengths, 0)).to(self.device)
        self._kept: list[Tensor] = []
        self._total = int(lengths.sum())
        self._limit = _free(self.device) if limit is None else limit
        self._fill(model, tokens, ids, nullcontext() if under is None else under)

    @property
    def bytes(self) -> int:
        """The size of the cache in bytes."""
        return sum(kept.numel() * kept.element_size() for kept in self._kept)

    def rows(self, items: Sequence[tuple[Tokens, int]], count: int | None = None) -> NDArray[np.int64]:
        """The cache's number of each row of some examples, in the row order of `collate`, [R].

        Args:
            items: (tokens, example) of each example of a batch.
            count: the number of rows of the padded batch; further rows are padding.
        """
        numbers = [self._first[id(tokens)] + row for tokens, i in items for row in tokens.rows_of(i)]
        more = 0 if count is None else count - len(numbers)
        return np.array(numbers + [self._empty] * more, np.int64)

    def of(self, rows: Tensor, length: int) -> Trunk:
        """The trunk outputs of a batch; nothing here synchronizes with the device.

        Args:
            rows: the row numbers (see `rows`), on the device, [R].
            length: L, the padded length of the batch.
        """
        position = torch.arange(length, device=rows.device)
        start = self._start.index_select(0, rows)[:, None]
        inside = position < self._length.index_select(0, rows)[:, None]  # [R, L]
        index = torch.where(inside, start + position, 0).flatten()
        layers = [kept.index_select(0, index).unflatten(0, (-1, length)) for kept in self._kept]
        return Trunk(self.depth, layers[-1], tuple(layers) if len(layers) > 1 else None)

    @torch.no_grad()
    def _fill(
        self,
        model: Model,
        tokens: Sequence[Tokens],
        ids: Sequence[int],
        under: AbstractContextManager[object],
    ) -> None:
        examples = [(task, i) for task, rows in enumerate(tokens) for i in range(len(rows))]
        lengths = np.array([tokens[task].lengths[i] for task, i in examples])
        training = model.training
        model.eval()
        try:
            with under:
                for chosen in _batches(np.argsort(lengths, kind="stable"), lengths, tokens, examples):
                    items = [(tokens[task], i) for task, i in chosen]
                    inputs = collate(items, model.pad_id)
                    example = inputs.pop("example", torch.arange(len(items)))
                    task_of = torch.tensor([int(ids[task]) for task, _ in chosen])[example]
                    inputs = {name: value.to(self.device) for name, value in inputs.items()}
                    self._keep(run_trunk(model, inputs, task_of, self.depth), items, inputs["attention_mask"])
        finally:
            model.train(training)

    def _keep(self, trunk: Trunk, items: Sequence[tuple[Tokens, int]], mask: Tensor) -> None:
        layers = (trunk.hidden,) if trunk.layers is None else trunk.layers
        if not self._kept:
            self._reserve(layers)
        start = self._start.index_select(0, torch.from_numpy(self.rows(items)).to(self.device))
        real = mask.bool()
        places = (start[:, None] + torch.arange(mask.size(1), device=self.device))[real]
        for kept, layer in zip(self._kept, layers, strict=True):
            kept.index_copy_(0, places, layer[real].to(kept.dtype))

    def _reserve(self, layers: Sequence[Tensor]) -> None:
        wanted = sum((self._total + 1) * layer.size(-1) * layer.element_size() for layer in layers)
        if wanted > self._limit:
            raise WeftError(
                f"train.trunk_cache: {self._total:,} tokens of {len(layers)} × {layers[0].size(-1)} numbers "
                f"take {_size(wanted)}; found room for {_size(self._limit)} on {self.device}. Set "
                "trunk_cache: false, or train on fewer or shorter rows (a task's fraction, train.max_length)"
            )
        self._kept = [
            torch.zeros(self._total + 1, layer.size(-1), dtype=layer.dtype, device=self.device)
            for layer in layers
        ]


def check_trunk(model: Model) -> int:
    """The number of blocks whose outputs can be cached; raises WeftError if there are none."""
    depth = frozen_depth(model)
    if depth == 0:
        raise WeftError(
            f"train.trunk_cache: method {model.method.name!r} trains in the encoder's lowest block or "
            "below it, so there is nothing to cache; set trunk_cache: false, or let the method train "
            "only upper layers (method.layers, method.train_encoder)"
        )
    return depth


def _batches(
    order: NDArray[np.int64],
    lengths: NDArray[np.int64],
    tokens: Sequence[Tokens],
    examples: Sequence[tuple[int, int]],
) -> list[list[tuple[int, int]]]:
    """Length-bucketed batches of at most `TOKENS` tokens, the longest examples first."""
    batches: list[list[tuple[int, int]]] = []
    rows = length = 0
    for number in order[::-1].tolist():  # the longest first: what needs most memory fails early
        task, i = examples[number]
        example_rows = len(tokens[task].rows_of(i))
        if not batches or (rows + example_rows) * length > TOKENS:
            batches.append([])
            rows, length = 0, int(lengths[number])
        batches[-1].append((task, i))
        rows += example_rows
    return batches


def _starts(sizes: Sequence[int]) -> NDArray[np.int64]:
    """The offset of each of several segments that follow each other."""
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def _free(device: torch.device) -> int:
    """The default limit of a cache, in bytes."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else _available()
    return int(SHARE * free)


def _available() -> int:
    """The available memory of the host, in bytes; 8 GiB if the system does not report it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            entries = {name: rest for name, _, rest in (line.partition(":") for line in lines)}
        return int(entries["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 8 * 2**30


def _size(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 // 10 else f"{size / 2**20:.1f} MiB"
