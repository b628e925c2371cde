"""Data sets of the Hugging Face hub; needs the `datasets` package."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.data.readers.problem import DataError, Problem
from weft.data.readers.table import Table, no_rows, wanted_columns
from weft.utils.hub import data_set_in_cache, hub_problem, offline_if


def read_hub(name: str, split: str, columns: Sequence[str], optional: Sequence[str] = ()) -> Table:
    """Read some columns of a split of a data set.

    Args:
        name: `NAME`, `NAME/CONFIG`, `OWNER/NAME` or `OWNER/NAME/CONFIG`.
        split: the data set's name of the split, such as `train`, `validation` or `test`.
        columns: the required columns.
        optional: columns that are read if the data set has them.
    """
    source = f"hub data set {name}, split {split}"
    problem = hub_problem()
    installed = "datasets" in sys.modules or importlib.util.find_spec("datasets") is not None
    # importing the package takes a second or more: not for a data set that cannot be read
    if problem and installed and "datasets" not in sys.modules and not data_set_in_cache(name):
        raise DataError(Problem(source, _unreachable(problem)))
    try:
        datasets = importlib.import_module("datasets")
    except ImportError as failed:
        message = (
            "reading from the hub needs the package datasets, which is not installed; "
            "type: pip install datasets, or configure files for the task (csv, tsv, jsonl, parquet)"
        )
        raise DataError(Problem(source, message)) from failed
    try:
        with offline_if(problem):
            data = _load(datasets, name, split)
    except (
        Exception
    ) as failed:  # the package raises any exception, from network errors to those of a data set's code
        words = str(failed).strip().split("\n")[0] or type(failed).__name__
        message = f"the hub answered: {words}; check the name and the network, or configure task files"
        message = _unreachable(problem) if problem else message
        raise DataError(Problem(source, message)) from failed
    chosen = wanted_columns(source, list(data.column_names), columns, optional)
    if not len(data):
        raise no_rows(source, "the split has no rows")
    return Table(source, {column: list(data[column]) for column in chosen}, np.arange(1, len(data) + 1))


def _unreachable(problem: str) -> str:
    return (
        f"the hub cannot be reached ({problem}), and the data set is not in the cache of the package "
        "datasets; check the network, or configure files for the task (csv, tsv, jsonl, parquet)"
    )


def read_hub_source(path: Path, columns: Sequence[str], optional: Sequence[str] = (), *, split: str) -> Table:
    """Read some columns of a split, for a source whose path is the id of a data set.

    Args:
        path: the id.
        columns: the required columns.
        optional: columns that are read if the data set has them.
        split: the data set's name of the split, such as `validation_matched`.
    """
    return read_hub(path.as_posix(), split, columns, optional)


def _load(datasets: Any, name: str, split: str) -> Any:
    parts = name.split("/")
    settings: dict[str, Any] = {"split": split}
    if "trust_remote_code" in inspect.signature(datasets.load_dataset).parameters:
        settings["trust_remote_code"] = False  # before version 4 a data set could come with code
    if len(parts) == 2:
        # glue/cola is a data set and its configuration, stanfordnlp/imdb an owner and a data set
        try:
            return datasets.load_dataset(parts[0], parts[1], **settings)
        except FileNotFoundError:  # the base class of DatasetNotFoundError
            return datasets.load_dataset(name, **settings)
    return datasets.load_dataset("/".join(parts[:2]), *parts[2:], **settings)
