"""Reading checkpoints of other libraries as models, and writing them.

A new export format is one file with an `Exporter` and one line in `EXPORTERS`; `weft export --to NAME` then
writes it. A new importer is one function that returns a model and one line in `IMPORTERS`; it is then
`weft.interop.load_NAME`. Entries are strings: nothing heavy is imported before one is used.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from weft.interop.exporter import Exporter
from weft.registry import Registry

if TYPE_CHECKING:
    from weft.interop.bert_n_pals.convert import load_bert_n_pals
    from weft.interop.ca_mtl.convert import load_ca_mtl
    from weft.interop.hf.export import export_hf
    from weft.interop.onnx.export import export_onnx
    from weft.interop.onnx.runtime import OnnxModel
    from weft.interop.peft.export import export_peft
    from weft.interop.peft.import_ import load_peft
    from weft.interop.sentence_transformers.export import export_sentence_transformers
    from weft.model.model import Model

EXPORTERS: Registry[type[Exporter]] = Registry(
    "export format",
    {
        "hf": "weft.interop.hf.exporter:HfExporter",
        "onnx": "weft.interop.onnx.exporter:OnnxExporter",
        "peft": "weft.interop.peft.exporter:PeftExporter",
        "sentence-transformers": "weft.interop.sentence_transformers.exporter:SentenceTransformersExporter",
    },
)
"""The formats that `weft export --to` takes."""

IMPORTERS: Registry[Callable[..., Model]] = Registry(
    "import format",
    {
        "bert_n_pals": "weft.interop.bert_n_pals.convert:load_bert_n_pals",
        "ca_mtl": "weft.interop.ca_mtl.convert:load_ca_mtl",
        "peft": "weft.interop.peft.import_:load_peft",
    },
)
"""Functions that read files and return a model; each is `weft.interop.load_NAME`."""

__all__ = [
    "EXPORTERS",
    "IMPORTERS",
    "Exporter",
    "OnnxModel",
    "export_hf",
    "export_onnx",
    "export_peft",
    "export_sentence_transformers",
    "load_bert_n_pals",
    "load_ca_mtl",
    "load_peft",
]


_EXPORTS = {
    "OnnxModel": "weft.interop.onnx.runtime",
    "export_hf": "weft.interop.hf.export",
    "export_onnx": "weft.interop.onnx.export",
    "export_peft": "weft.interop.peft.export",
    "export_sentence_transformers": "weft.interop.sentence_transformers.export",
}
"""What writes and reads exports, and its modules."""


def __getattr__(name: str) -> object:
    """`load_NAME` of each importer, and the names of `_EXPORTS`; imported when first used."""
    if name in _EXPORTS:
        return getattr(import_module(_EXPORTS[name]), name)
    if name.startswith("load_") and name.removeprefix("load_") in IMPORTERS:
        return IMPORTERS[name.removeprefix("load_")]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *(f"load_{name}" for name in IMPORTERS)])
