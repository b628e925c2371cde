"""The formats that a file may have: who reads each, and how a name tells it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from weft.data.readers.table import Table
from weft.errors import WeftError, did_you_mean
from weft.registry import Registry

Reader = Callable[..., Table]

READERS: Registry[Reader] = Registry(
    "format",
    {
        "conll": "weft.data.readers.conll:read_conll",
        "csv": "weft.data.readers.delimited:read_csv",
        "hub": "weft.data.readers.hub:read_hub_source",
        "jsonl": "weft.data.readers.json_lines:read_jsonl",
        "mrqa": "weft.data.readers.mrqa:read_mrqa",
        "multirc": "weft.data.readers.multirc:read_multirc",
        "parquet": "weft.data.readers.parquet:read_parquet",
        "record": "weft.data.readers.record:read_record",
        "squad": "weft.data.readers.squad_json:read_squad",
        "tsv": "weft.data.readers.delimited:read_tsv",
    },
)
"""A format's name → who reads it: `(path, columns, optional, **options) → Table`. A new one is one file and
one line here."""

ENDINGS: dict[str, str] = {
    ".conll": "conll",
    ".conll.gz": "conll",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".json": "squad",
    ".json.gz": "squad",
    ".jsonl": "jsonl",
    ".jsonl.gz": "jsonl",
    ".parquet": "parquet",
    ".tsv": "tsv",
    ".tsv.gz": "tsv",
}
"""How a name ends → its format. Other names, and other meanings of these, are said by `Source.format`."""


def format_of(name: str) -> str | None:
    """The format that a file's name tells, or None."""
    found = [form for ending, form in ENDINGS.items() if name.lower().endswith(ending)]
    return found[0] if found else None


def check_options(form: str, options: Mapping[str, Any], general: Iterable[str]) -> dict[str, Any]:
    """Those of the options that the format's reader takes; one that nobody takes is an error.

    Args:
        form: the format.
        options: what was given.
        general: the options that every format has, which no reader sees.
    """
    parameters = inspect.signature(READERS[form]).parameters
    takes = [name for name, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    for name in takes:
        if parameters[name].default is inspect.Parameter.empty and name not in options:
            raise WeftError(f"format {form!r} needs the option {name!r}")
    for key in options:
        if key not in (*takes, *general):
            known = [*takes, *general]
            raise WeftError(f"format {form!r} has no option {key!r}; {did_you_mean(str(key), known)}")
    return {key: value for key, value in options.items() if key in takes}
