"""Other people's checkpoints: read as models, and written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.utils.lazy import lazy

if TYPE_CHECKING:
    from weft.interop.bert_n_pals.convert import load_bert_n_pals
    from weft.interop.ca_mtl.convert import load_ca_mtl
    from weft.interop.peft.export import export_peft
    from weft.interop.peft.import_ import load_peft

__all__ = ["export_peft", "load_bert_n_pals", "load_ca_mtl", "load_peft"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "export_peft": "weft.interop.peft.export",
        "load_bert_n_pals": "weft.interop.bert_n_pals.convert",
        "load_ca_mtl": "weft.interop.ca_mtl.convert",
        "load_peft": "weft.interop.peft.import_",
    },
)
