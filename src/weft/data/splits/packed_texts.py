"""The texts of a split's examples in one block of bytes: Python strings would take twice as much."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

Texts = tuple[str, ...]


class PackedTexts(Sequence[Texts]):
    """A sequence of tuples of texts, which are made when they are read. A slice is a list.

    A text of 80 characters takes 88 bytes here, and 200 as a string in a tuple in a list.

    Example:
        >>> texts = PackedTexts([("It rains.",), ("It is dry.",)])
        >>> texts[1], len(texts)
        (('It is dry.',), 2)

    Args:
        texts: the texts of each example.
    """

    def __init__(self, texts: Iterable[Texts] = ()) -> None:
        self._bytes = bytearray()
        self._ends = array("q", [0])  # where each text ends in the bytes, after a 0
        self._width: int | None = None  # how many texts every example has
        self._starts: array[int] | None = None  # the first text of each example, if their numbers differ
        self._count = 0
        for example in texts:
            self.append(example)

    def append(self, texts: Texts) -> None:
        """Add the texts of one more example."""
        if self._starts is None and len(texts) != self._width:
            if self._width is None:
                self._width = len(texts)
            else:  # from now on, note where each example begins
                self._starts = array("q", (self._width * i for i in range(self._count + 1)))
        for text in texts:
            # half of a surrogate pair, which JSON may hold, stays what it is
            self._bytes += text.encode("utf-8", "surrogatepass")
            self._ends.append(len(self._bytes))
        self._count += 1
        if self._starts is not None:
            self._starts.append(len(self._ends) - 1)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Texts: ...
    @overload
    def __getitem__(self, index: slice) -> list[Texts]: ...
    def __getitem__(self, index: int | slice) -> Texts | list[Texts]:
        if isinstance(index, slice):
            return [self._example(i) for i in range(*index.indices(self._count))]
        at = index.__index__()
        if not -self._count <= at < self._count:
            raise IndexError(f"index {at} of {self._count} examples")
        return self._example(at % self._count)

    def __iter__(self) -> Iterator[Texts]:
        return map(self._example, range(self._count))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # it can grow

    def __repr__(self) -> str:
        return f"PackedTexts({list(self[:3])!r}{', …' * (len(self) > 3)})"

    def _example(self, at: int) -> Texts:
        if self._starts is None:
            width = self._width or 0
            first, last = at * width, at * width + width
        else:
            first, last = self._starts[at], self._starts[at + 1]
        ends, data = self._ends, self._bytes
        if last - first == 1:
            return (data[ends[first] : ends[last]].decode("utf-8", "surrogatepass"),)
        return tuple(data[ends[i] : ends[i + 1]].decode("utf-8", "surrogatepass") for i in range(first, last))
