"""A fast tokenizer for ESM, whose tokenizer in transformers is written in Python.

A text is a protein, `MKTV…`: every token of the vocabulary is a token wherever it stands, spaces separate,
and what lies between is unknown. weft's batches and windows need the Rust backend of a fast tokenizer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SLOW = "EsmTokenizer"
"""The class of ESM's tokenizer in transformers."""


def fast_esm(slow: Any) -> PreTrainedTokenizerBase:
    """Return a fast tokenizer that gives the same tokens.

    A row is <cls> A <eos>, or <cls> A <eos> B <eos>.

    Args:
        slow: an `EsmTokenizer`.
    """
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary: dict[str, int] = slow.get_vocab()
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=slow.unk_token))
    longest_first = sorted(vocabulary, key=len, reverse=True)
    # a token is cut out of whatever surrounds it; the rest of a word is one piece
    tokens = "|".join(re.escape(token) for token in longest_first)
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(tokens), "isolated")]
    )
    first, last = slow.cls_token, slow.eos_token
    backend.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} $B {last}",
        special_tokens=[(first, slow.cls_token_id), (last, slow.eos_token_id)],
    )
    names = ("unk_token", "cls_token", "pad_token", "mask_token", "eos_token")
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_input_names=slow.model_input_names,
        model_max_length=slow.model_max_length,
        **{name: getattr(slow, name) for name in names},
    )
