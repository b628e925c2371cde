"""Saving a plain encoder together with its tokenizer."""

from __future__ import annotations

from typing import Any

from torch import nn


class SavesTokenizer:
    """The `save_pretrained` of a merged encoder: its files and those of its tokenizer, in one folder.

    Without them `AutoTokenizer.from_pretrained` would silently make a tokenizer of a few special tokens. A
    callable object and not a closure, so that the encoder can be copied and pickled.

    Args:
        encoder: a Hugging Face encoder.
        source: the folder or hub id of the tokenizer's files.
    """

    def __init__(self, encoder: nn.Module, source: str) -> None:
        self.encoder, self.source = encoder, source

    def __call__(self, save_directory: Any, *args: Any, **kwargs: Any) -> None:
        """Save as `PreTrainedModel.save_pretrained` does, then the tokenizer."""
        from weft.encoder.pretrained import saved_tokenizer

        of_class: Any = type(self.encoder)
        of_class.save_pretrained(self.encoder, save_directory, *args, **kwargs)
        # read anew: weft switches padding and truncation off in the tokenizer that it uses itself
        saved_tokenizer(self.source, self.source).save_pretrained(save_directory)


def saving_tokenizer(encoder: nn.Module, source: str | None) -> nn.Module:
    """Return the encoder, whose `save_pretrained` then saves the tokenizer too, if it has one."""
    from weft.encoder.pretrained import lacks_tokenizer

    if source is not None and not lacks_tokenizer(source):
        encoder.save_pretrained = SavesTokenizer(encoder, source)  # type: ignore[assignment]
    return encoder
