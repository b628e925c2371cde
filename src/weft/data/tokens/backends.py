"""Immutable copies of a tokenizer's backend, which any number of threads can use at once.

Truncation is a state of a backend (the Rust tokenizer inside a fast one). Switching it in each call would
disturb other users, and a copy per call takes longer than the forward pass of a small model. So there is one
copy without truncation and one per truncation setting. They are made once and kept as long as the tokenizer
lives. If the tokenizer is changed, new copies are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

from weft.errors import WeftError
from weft.utils.threads import RenewedLock

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MOST = 8
"""The maximal number of truncation settings kept per tokenizer: each is a copy of its vocabulary."""

PARTS = ("normalizer", "pre_tokenizer", "post_processor")
MODEL_SETTINGS = (
    *("unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "end_of_word_suffix"),
    *("dropout", "fuse_unk", "byte_fallback", "ignore_merges", "alpha", "nbest_size"),
)
"""The settings of a backend that users can change in place, besides its added tokens."""


class Cut(NamedTuple):
    """A truncation setting.

    Attributes:
        max_length: the maximal number of tokens of a row, special tokens included.
        strategy: which text of a pair is truncated.
        direction: the side that is removed.
        stride: the number of tokens that neighboring windows share.
    """

    max_length: int
    strategy: Literal["longest_first", "only_second"]
    direction: str
    stride: int = 0


class Backends:
    """The copies of one backend, in its state at construction.

    Args:
        backend: the tokenizer's backend, which is read and not changed.

    Attributes:
        plain: a copy without truncation and padding. Do not change it.
        byte_level: whether the space before a word marks the beginning of the word.
    """

    def __init__(self, backend: Any) -> None:
        self._of = backend
        # read before copying: if the tokenizer changes in between, the next call makes new copies
        self._facts = _copyable_facts(backend)
        self._cut: dict[Cut, Any] = {}
        self._lock = RenewedLock()
        self.plain = copied(backend)
        self.plain.no_truncation()
        self.plain.no_padding()
        self.byte_level = '"ByteLevel"' in self.plain.to_str()

    def cutting(self, cut: Cut) -> Any:
        """Return a copy with this truncation setting. Do not change it."""
        copy = self._cut.get(cut)
        if copy is None:
            with self._lock:
                copy = self._cut.get(cut)
                if copy is None:
                    copy = copied(self.plain)
                    copy.enable_truncation(
                        cut.max_length, stride=cut.stride, strategy=cut.strategy, direction=cut.direction
                    )
                    while len(self._cut) >= MOST:
                        del self._cut[next(iter(self._cut))]
                    self._cut[cut] = copy
        return copy

    def are_of(self, backend: Any) -> bool:
        """Whether these are copies of this backend in its current state."""
        return self._of is backend and self._facts == _facts(backend)


_known: WeakKeyDictionary[Any, Backends] = WeakKeyDictionary()
_lock = RenewedLock()


def backends_of(tokenizer: PreTrainedTokenizerBase) -> Backends:
    """Return the copies of a fast tokenizer's backend, made on first use.

    A change of the tokenizer is noticed if it replaces the backend or changes added tokens, the size of the
    vocabulary, the normalizer, the pre-tokenizer, the post-processor or the settings of the backend's model.
    """
    backend = backend_of(tokenizer)
    backends = _known.get(tokenizer)
    if backends is None or not backends.are_of(backend):
        with _lock:
            backends = _known.get(tokenizer)
            if backends is None or not backends.are_of(backend):
                backends = _known[tokenizer] = Backends(backend)
    return backends


def backend_of(tokenizer: PreTrainedTokenizerBase) -> Any:
    """Return the Rust tokenizer inside a fast one."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise WeftError(
            f"{type(tokenizer).__name__} is not a fast tokenizer (it has no backend_tokenizer); "
            "expected an encoder with a tokenizer.json"
        )
    return backend


def copied(backend: Any) -> Any:
    """Return a copy of a backend."""
    return type(backend).from_str(backend.to_str())


def _copyable_facts(backend: Any) -> tuple[object, ...]:
    """Return `_facts`, or raise an error for a backend that cannot be copied."""
    try:
        return _facts(backend)
    except Exception as wrong:
        if "ustom" not in str(wrong):
            raise
        raise WeftError(
            f"a part of this tokenizer is Python code ({wrong}), and weft needs copies of a tokenizer; "
            "expected a tokenizer.json in which all parts are those of the library tokenizers"
        ) from None


def _facts(backend: Any) -> tuple[object, ...]:
    """Return facts that reveal a change of a backend; read in every call, so only what takes microseconds."""
    added = backend.get_added_tokens_decoder()
    model = backend.model
    parts = [getattr(backend, part) for part in PARTS]
    return (
        backend.get_vocab_size(with_added_tokens=False),
        [(number, repr(added[number])) for number in sorted(added)],
        # their pickled state, because `repr` truncates long lists
        *(None if part is None else part.__getstate__() for part in parts),
        *(getattr(model, name, None) for name in MODEL_SETTINGS),
    )
