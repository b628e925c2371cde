"""What a frozen trunk gives for every training row, computed once and kept.

    kept[o_r + i] = hidden_k of token i of row r, [N + 1, d] over all N tokens; entry 0 is zero, for padding

The trunk is run in eval mode. Where nothing in it is dropped in training, a run with the cache is the run
without it; else it differs in this, that the trunk's dropout is left out (`TrunkCache.note`).
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
"""Tokens of a pass, padding included, while the cache is filled."""

SHARE = 0.5
"""Of the memory that is free, how much a cache may take by default."""


class TrunkCache:
    """The trunk's outputs for all training rows, on the device that trains.

    Args:
        model: the model, on its device; what is frozen must stay as it is while the cache is used.
        tokens: the tokenized training rows of each task of the plan, [T].
        ids: the model's id of each, [T].
        under: what the passes of the training run under (autocast), which decides on the dtype that is kept.
        limit: the most bytes; None: half of the memory that is free.

    Attributes:
        depth: how many blocks the trunk has.
        bytes: what is kept.
        note: what a user should know of this run; None where it is as without a cache.
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
            zip(map(id, tokens), _starts([len(own.row_lengths) for own in tokens]), strict=True)
        )
        lengths = np.concatenate([own.row_lengths for own in tokens])
        # entry 0 is padding; the last row, of no token, fills batches that have room for more rows
        self._empty = len(lengths)
        self._start = torch.from_numpy(np.append(_starts(lengths.tolist()) + 1, 0)).to(self.device)
        self._length = torch.from_numpy(np.append(lengths, 0)).to(self.device)
        self._kept: list[Tensor] = []
        self._total = int(lengths.sum())
        self._limit = _free(self.device) if limit is None else limit
        self._fill(model, tokens, ids, nullcontext() if under is None else under)

    @property
    def bytes(self) -> int:
        """What is kept, in bytes."""
        return sum(kept.numel() * kept.element_size() for kept in self._kept)

    def rows(self, items: Sequence[tuple[Tokens, int]], count: int | None = None) -> NDArray[np.int64]:
        """The cache's number of each row of some examples, in the order in which `collate` puts them, [R].

        Args:
            items: (tokens, example) of each of a batch's examples.
            count: how many rows the batch has room for; what is left over is padding.
        """
        found = [self._first[id(tokens)] + row for tokens, i in items for row in tokens.rows_of(i)]
        more = 0 if count is None else count - len(found)
        return np.array(found + [self._empty] * more, np.int64)

    def of(self, rows: Tensor, length: int) -> Trunk:
        """The trunk of a batch; nothing here waits for the device.

        Args:
            rows: of `rows`, on the device, [R].
            length: L, that of the batch's rows with their padding.
        """
        place = torch.arange(length, device=rows.device)
        start = self._start.index_select(0, rows)[:, None]
        inside = place < self._length.index_select(0, rows)[:, None]  # [R, L]
        index = torch.where(inside, start + place, 0).flatten()
        found = [kept.index_select(0, index).unflatten(0, (-1, length)) for kept in self._kept]
        return Trunk(self.depth, found[-1], tuple(found) if len(found) > 1 else None)

    @torch.no_grad()
    def _fill(
        self,
        model: Model,
        tokens: Sequence[Tokens],
        ids: Sequence[int],
        under: AbstractContextManager[object],
    ) -> None:
        every = [(task, i) for task, own in enumerate(tokens) for i in range(len(own))]
        lengths = np.array([tokens[task].lengths[i] for task, i in every])
        training = model.training
        model.eval()
        try:
            with under:
                for chosen in _batches(np.argsort(lengths, kind="stable"), lengths, tokens, every):
                    items = [(tokens[task], i) for task, i in chosen]
                    inputs = collate(items, model.pad_id)
                    example = inputs.pop("example", torch.arange(len(items)))
                    task_of = torch.tensor([int(ids[task]) for task, _ in chosen])[example]
                    given = {name: value.to(self.device) for name, value in inputs.items()}
                    self._keep(run_trunk(model, given, task_of, self.depth), items, given["attention_mask"])
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
                f"take {_told(wanted)}; found room for {_told(self._limit)} on {self.device}. Set "
                "trunk_cache: false, or train on fewer or shorter rows (a task's fraction, train.max_length)"
            )
        self._kept = [
            torch.zeros(self._total + 1, layer.size(-1), dtype=layer.dtype, device=self.device)
            for layer in layers
        ]


def check_trunk(model: Model) -> int:
    """How many blocks there are to keep the outputs of; none is refused."""
    depth = frozen_depth(model)
    if depth == 0:
        raise WeftError(
            f"train.trunk_cache: method {model.method.name!r} trains in the encoder's lowest block or "
            "below it, so that there is nothing to keep; set trunk_cache: false, or let the method train "
            "upper layers alone (method.layers, method.train_encoder)"
        )
    return depth


def _batches(
    order: NDArray[np.int64],
    lengths: NDArray[np.int64],
    tokens: Sequence[Tokens],
    every: Sequence[tuple[int, int]],
) -> list[list[tuple[int, int]]]:
    """Examples of like length, from the longest on, so many that they have `TOKENS` tokens at the most."""
    found: list[list[tuple[int, int]]] = []
    rows = length = 0
    for number in order[::-1].tolist():  # from the longest on: what needs most memory comes first
        task, i = every[number]
        own = len(tokens[task].rows_of(i))
        if not found or (rows + own) * length > TOKENS:
            found.append([])
            rows, length = 0, int(lengths[number])
        found[-1].append((task, i))
        rows += own
    return found


def _starts(sizes: Sequence[int]) -> NDArray[np.int64]:
    """Where each of several stretches begins when they follow each other."""
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def _free(device: torch.device) -> int:
    """What a cache may take by default, in bytes."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else _available()
    return int(SHARE * free)


def _available() -> int:
    """The memory that the host can still give, in bytes; without an answer, what a small machine has."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            found = {name: rest for name, _, rest in (line.partition(":") for line in lines)}
        return int(found["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 8 * 2**30


def _told(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 // 10 else f"{size / 2**20:.1f} MiB"
