"""Copies of a tokenizer's backend that nobody changes, so that any number of threads can use them at once.

Truncation is a state of a backend (the Rust tokenizer inside a fast one). Switching it for each call would
disturb every other user, and a copy for each call takes longer than a small model's answer. So there is one
copy without truncation, and one for each way of cutting; they are made once and kept as long as the tokenizer
lives. A tokenizer that was changed in the meantime gets new ones.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

from weft.errors import WeftError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MOST = 8
"""How many ways of cutting are kept for one tokenizer: each is a copy of its vocabulary."""

PARTS = ("normalizer", "pre_tokenizer", "post_processor")
MODEL_SETTINGS = (
    *("unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "end_of_word_suffix"),
    *("dropout", "fuse_unk", "byte_fallback", "ignore_merges", "alpha", "nbest_size"),
)
"""What users can change of a backend in place, its added tokens apart."""


class Cut(NamedTuple):
    """How rows are cut that are too long.

    Attributes:
        max_length: tokens of a row, special tokens included.
        strategy: which text of a pair is cut.
        direction: the side that is cut off.
        stride: the tokens that neighboring windows share.
    """

    max_length: int
    strategy: Literal["longest_first", "only_second"]
    direction: str
    stride: int = 0


class Backends:
    """The copies of one backend as it was when this was made.

    Args:
        backend: the tokenizer's own, which is read and not changed.

    Attributes:
        plain: a copy without truncation and padding. Use it, and do not change it.
        byte_level: whether it tells the beginning of a word by the space before it.
    """

    def __init__(self, backend: Any) -> None:
        self._of = backend
        # before the copy: if the tokenizer changes in between, the next call makes a new one
        self._facts = _facts(backend)
        self._cut: dict[Cut, Any] = {}
        self._lock = threading.Lock()
        self.plain = copied(backend)
        self.plain.no_truncation()
        self.plain.no_padding()
        self.byte_level = '"ByteLevel"' in self.plain.to_str()

    def cutting(self, cut: Cut) -> Any:
        """A copy that cuts rows in this way. Use it, and do not change it."""
        found = self._cut.get(cut)
        if found is None:
            with self._lock:
                found = self._cut.get(cut)
                if found is None:
                    found = copied(self.plain)
                    found.enable_truncation(
                        cut.max_length, stride=cut.stride, strategy=cut.strategy, direction=cut.direction
                    )
                    while len(self._cut) >= MOST:
                        del self._cut[next(iter(self._cut))]
                    self._cut[cut] = found
        return found

    def are_of(self, backend: Any) -> bool:
        """Whether these are copies of this backend as it is now."""
        return self._of is backend and self._facts == _facts(backend)


_known: WeakKeyDictionary[Any, Backends] = WeakKeyDictionary()
_lock = threading.Lock()


def backends_of(tokenizer: PreTrainedTokenizerBase) -> Backends:
    """The copies of a fast tokenizer's backend, made when they are first asked for.

    A change of the tokenizer is noticed if it replaces the backend or changes added tokens, the size of the
    vocabulary, the normalizer, the pre-tokenizer, the post-processor or the settings of the backend's model.
    """
    backend = backend_of(tokenizer)
    found = _known.get(tokenizer)
    if found is None or not found.are_of(backend):
        with _lock:
            found = _known.get(tokenizer)
            if found is None or not found.are_of(backend):
                found = _known[tokenizer] = Backends(backend)
    return found


def backend_of(tokenizer: PreTrainedTokenizerBase) -> Any:
    """The Rust tokenizer inside a fast one."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise WeftError(
            f"{type(tokenizer).__name__} is no fast tokenizer (it has no backend_tokenizer); "
            "expected an encoder with a tokenizer.json"
        )
    return backend


def copied(backend: Any) -> Any:
    """A backend of one's own."""
    return type(backend).from_str(backend.to_str())


def _facts(backend: Any) -> tuple[object, ...]:
    """What tells that a backend was changed: looked at in every call, so only what takes microseconds."""
    added = backend.get_added_tokens_decoder()
    model = backend.model
    parts = [getattr(backend, part) for part in PARTS]
    return (
        backend.get_vocab_size(with_added_tokens=False),
        [(number, repr(added[number])) for number in sorted(added)],
        # what they are pickled as: `repr` leaves out the end of long lists
        *(None if part is None else part.__getstate__() for part in parts),
        *(getattr(model, name, None) for name in MODEL_SETTINGS),
    )
