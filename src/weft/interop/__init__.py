"""Other people's checkpoints, read as models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft._lazy import lazy

if TYPE_CHECKING:
    from weft.interop.bert_n_pals import load_bert_n_pals

__all__ = ["load_bert_n_pals"]

__getattr__, __dir__ = lazy(__name__, {"load_bert_n_pals": "weft.interop.bert_n_pals"})
