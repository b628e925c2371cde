"""ExampleRows: the rows of tokens of one example, from which targets and answers are computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class ExampleRows:
    """The rows of one example.

    Attributes:
        texts: the example's texts, as defined by its kind.
        count: the number of its rows.
    """

    __slots__ = ("_channels", "_offsets", "_rows", "count", "texts")

    def __init__(
        self,
        texts: tuple[str, ...],
        rows: range,
        offsets: NDArray[np.integer],
        channels: Mapping[str, NDArray[Any]],
    ) -> None:
        self.texts, self.count = texts, len(rows)
        self._rows, self._offsets, self._channels = rows, offsets, channels

    @classmethod
    def of_texts(cls, texts: tuple[str, ...]) -> ExampleRows:
        """Return an example that is not tokenized, with texts only."""
        return cls(texts, range(0), np.zeros(1, np.int64), {})

    def channel(self, name: str) -> list[NDArray[Any]]:
        """Return the values stored per token under this name: one array [length] per row."""
        flat, offsets = self._channels[name], self._offsets
        return [flat[offsets[r] : offsets[r + 1]] for r in self._rows]
