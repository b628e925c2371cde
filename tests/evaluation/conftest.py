"""The real tokenizer and the real data, where they are."""

from tests.data.conftest import shared, tokenizer

__all__ = ["shared", "tokenizer"]
