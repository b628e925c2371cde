"""The file formats: the reader of each, and the endings of its file names."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from weft.data.readers.table import Table
from weft.errors import WeftError, did_you_mean
from weft.registry import Registry

Reader = Callable[..., Table]


@dataclass(frozen=True)
class Format:
    """A format of files.

    Attributes:
        reader: the function `(path, columns, optional, **options) → Table`, or its location
            "module:function". Its keyword-only arguments are the format's options.
        endings: the endings of file names, in lower case; a file with a different name needs `format`.
    """

    reader: Reader | str
    endings: tuple[str, ...] = ()

    @property
    def read(self) -> Reader:
        """The reader, imported on first use."""
        if not isinstance(self.reader, str):
            return self.reader
        module, _, function = self.reader.partition(":")
        reader: Reader = getattr(importlib.import_module(module), function)
        return reader


FORMATS: Registry[Format] = Registry(
    "format",
    {
        "conll": Format("weft.data.readers.conll:read_conll", (".conll", ".conll.gz")),
        "csv": Format("weft.data.readers.delimited:read_csv", (".csv", ".csv.gz")),
        "hub": Format("weft.data.readers.hub:read_hub_source"),
        "json": Format("weft.data.readers.json_list:read_json_list"),
        "jsonl": Format("weft.data.readers.json_lines:read_jsonl", (".jsonl", ".jsonl.gz")),
        "mrqa": Format("weft.data.readers.mrqa:read_mrqa"),
        "multirc": Format("weft.data.readers.multirc:read_multirc"),
        "parquet": Format("weft.data.readers.parquet:read_parquet", (".parquet",)),
        "record": Format("weft.data.readers.record:read_record"),
        "squad": Format("weft.data.readers.squad_json:read_squad", (".json", ".json.gz")),
        "tsv": Format("weft.data.readers.delimited:read_tsv", (".tsv", ".tsv.gz")),
    },
)
"""The formats by name. A new one is one file and one line here."""


def endings() -> dict[str, str]:
    """Return ending → format. `Source.format` sets the format of other names, and overrides these."""
    return {ending: name for name in FORMATS for ending in FORMATS[name].endings}


def format_of(name: str) -> str | None:
    """Return the format of a file name's ending, or None."""
    known = endings()
    fitting = [ending for ending in known if name.lower().endswith(ending)]
    return known[max(fitting, key=len)] if fitting else None


def options_of(form: str) -> list[str]:
    """Return the options of the format's reader: its keyword-only arguments."""
    parameters = inspect.signature(FORMATS[form].read).parameters
    return [name for name, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY]


def check_options(form: str, options: Mapping[str, Any], general: Iterable[str]) -> dict[str, Any]:
    """Return the options for the format's reader; refuse unknown options.

    Args:
        form: the format.
        options: the configured options.
        general: the options of all formats, which are not passed to the reader.
    """
    parameters = inspect.signature(FORMATS[form].read).parameters
    takes = options_of(form)
    for name in takes:
        if parameters[name].default is inspect.Parameter.empty and name not in options:
            raise WeftError(f"format {form!r} needs the option {name!r}")
    for key in options:
        if key not in (*takes, *general):
            known = [*takes, *general]
            raise WeftError(f"format {form!r} has no option {key!r}; {did_you_mean(str(key), known)}")
    return {key: value for key, value in options.items() if key in takes}
