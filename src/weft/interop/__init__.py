"""Reading checkpoints of other libraries as models, and writing them.

A new export format is one file with an `Exporter` and one line in `EXPORTERS`; `weft export --to NAME` then
writes it. A new importer is one function that returns a model and one line in `IMPORTERS`; it is then
`weft.interop.load_NAME`. Entries are strings: nothing heavy is imported before one is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.interop.exporter import Exporter
from weft.registry import Registry

if TYPE_CHECKING:
    from weft.interop.bert_n_pals.convert import load_bert_n_pals
    from weft.interop.ca_mtl.convert import load_ca_mtl
    from weft.interop.peft.export import export_peft
    from weft.interop.peft.import_ import load_peft
    from weft.model.model import Model

EXPORTERS: Registry[type[Exporter]] = Registry(
    "export format",
    {
        "peft": "weft.interop.peft.exporter:PeftExporter",
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
    "export_peft",
    "load_bert_n_pals",
    "load_ca_mtl",
    "load_peft",
]


def __getattr__(name: str) -> object:
    """`load_NAME` of each importer, and `export_peft`; imported when first used."""
    if name == "export_peft":
        from weft.interop.peft.export import export_peft

        return export_peft
    if name.startswith("load_") and name.removeprefix("load_") in IMPORTERS:
        return IMPORTERS[name.removeprefix("load_")]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *(f"load_{name}" for name in IMPORTERS)])
