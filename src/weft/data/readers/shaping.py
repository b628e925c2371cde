"""Options of a `Source` that filter and transform the rows of a file of any format.

Columns are named as in the file, except in `values` and `separated`, which use the task's names:

- `where: {COLUMN: VALUE}`: keep only rows with this value (MRQA's `subset` on the hub);
- `listed: {file: FILE, columns: [A, B], keep: true}`: keep only rows whose values in the columns are a line
  of the file, or, with `keep: false`, only the other rows (MRPC's dev_ids.tsv);
- `filled: [COLUMN, …]`: leave out rows that have no value in one of the columns (null or an empty text);
- `separated: {COLUMN: ";"}`: split a text into a list, as `multilabel` reads it;
- `values: {COLUMN: {"-": -1}}`: replace values; the keys are the old values as strings (SNLI's `-`);
- `computed: {COLUMN: {RULE: [COLUMN, …]}}`: a column computed from others by one of `RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.data.readers.lines import text_lines
from weft.data.readers.problem import DataError, Problem, show
from weft.data.readers.table import Table, no_rows
from weft.errors import WeftError, did_you_mean
from weft.tasks.values import is_missing
from weft.utils.counted import counted

SHAPING = ("where", "listed", "filled", "separated", "values", "computed")
_MOST = 20
"""The maximal number of reported rows that a rule refuses; further ones are likely the same mistake."""


def ids_among(answers: object, choices: object) -> list[int] | None:
    """Return the indices of the answers in the list of choices (ReCoRD on the hub); None without answers."""
    if answers is None:
        return None
    for texts in (answers, choices):
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError("a list of texts")
    assert isinstance(answers, list)
    assert isinstance(choices, list)
    if not answers:
        return None
    indices = [index for index, choice in enumerate(choices) if choice in answers]
    if not indices:
        raise ValueError(f"an answer that is one of the choices, {show(choices)}")
    return indices


def char_spans(detected: object, answers: object = None) -> dict[str, list[Any]] | None:
    """Convert MRQA's answers from the hub's form to SQuAD's; None if there are none.

    Args:
        detected: the answers with their positions in the context.
        answers: the answers as written in the original data set, which MRQA evaluates with (start −1).
    """
    expected = "{text: [TEXT, …], char_spans: [{start: [INT, …], end: [INT, …]}, …]}"
    if detected is None:
        return None
    if not isinstance(detected, Mapping):
        raise ValueError(expected)
    texts, spans = detected.get("text"), detected.get("char_spans")
    if not isinstance(texts, list) or not isinstance(spans, list) or len(texts) != len(spans):
        raise ValueError(expected)
    positions: dict[tuple[str, int], None] = {}
    for text, span in zip(texts, spans, strict=True):
        starts = span.get("start") if isinstance(span, Mapping) else None
        if not isinstance(text, str) or not isinstance(starts, list):
            raise ValueError(expected)
        positions.update(dict.fromkeys((text, start) for start in starts))
    for text in answers if isinstance(answers, list) else []:
        if isinstance(text, str) and text.strip():
            positions[text, -1] = None
    return {"text": [text for text, _ in positions], "answer_start": [start for _, start in positions]}


RULES: dict[str, Callable[..., object]] = {"ids_among": ids_among, "char_spans": char_spans}
"""Rules that compute a column from one row's values. A rule raises ValueError with what it expected."""


def check_shaping(options: Mapping[str, Any]) -> None:
    """Refuse malformed options."""
    filled = options.get("filled", [])
    if not isinstance(filled, list | tuple) or not all(isinstance(column, str) for column in filled):
        raise WeftError(f"options: filled: expected a list of columns; found {filled!r}")
    for key in SHAPING:
        if key == "filled":
            continue
        value = options.get(key, {})
        if not isinstance(value, Mapping):
            raise WeftError(f"options: {key}: expected columns with their values; found {value!r}")
    for column, mapping in options.get("values", {}).items():
        if not isinstance(mapping, Mapping):
            raise WeftError(f"options: values: {column}: expected old: new; found {mapping!r}")
    for column, separator in options.get("separated", {}).items():
        if not isinstance(separator, str) or not separator:
            raise WeftError(f"options: separated: {column}: expected a text such as ';'; found {separator!r}")
    for column, rule in options.get("computed", {}).items():
        if not isinstance(rule, Mapping) or len(rule) != 1:
            raise WeftError(f"options: computed: {column}: expected RULE: [COLUMN, …]; found {rule!r}")
        (name, inputs), *_ = rule.items()
        if name not in RULES:
            raise WeftError(f"options: computed: {column}: rule {name!r}; {did_you_mean(str(name), RULES)}")
        if not isinstance(inputs, list | tuple) or not inputs:
            raise WeftError(f"options: computed: {column}: {name}: expected columns; found {inputs!r}")
    listed = options.get("listed", {})
    if listed and not (
        isinstance(listed.get("file"), str | Path) and isinstance(listed.get("columns"), list | tuple)
    ):
        raise WeftError(f"options: listed: expected {{file: FILE, columns: [COLUMN, …]}}; found {listed!r}")


def filter_columns(options: Mapping[str, Any]) -> list[str]:
    """Return the columns that the filters read."""
    return [
        *options.get("where", {}),
        *options.get("listed", {}).get("columns", ()),
        *options.get("filled", ()),
    ]


def filtered(table: Table, options: Mapping[str, Any], folder: Path) -> Table:
    """Return the rows that `where`, `filled` and `listed` keep.

    Args:
        table: the rows, with the file's column names.
        options: the options of the source.
        folder: the folder of the file; the path of a list is relative to it.
    """
    keep = np.ones(len(table), bool)
    for column, value in options.get("where", {}).items():
        keep &= [str(cell) == str(value) for cell in table.columns[column]]
    for column in options.get("filled", ()):
        keep &= [not (is_missing(cell) or cell == []) for cell in table.columns[column]]
    if listed := options.get("listed"):
        known = _listed(folder / str(listed["file"]), len(listed["columns"]))
        values = zip(*(table.columns[column] for column in listed["columns"]), strict=True)
        keep &= np.array([tuple(map(str, row)) in known for row in values]) == bool(listed.get("keep", True))
    if keep.all():
        return table
    if not keep.any():
        raise no_rows(table.source, f"none of the {len(table)} rows passes the filter: {_wanted(options)}")
    kept = np.flatnonzero(keep)
    columns = {name: [values[at] for at in kept] for name, values in table.columns.items()}
    return replace(table, columns=columns, row=table.row[kept])


def _wanted(options: Mapping[str, Any]) -> str:
    parts = [f"{column} {value!r}" for column, value in options.get("where", {}).items()]
    parts += [f"a value in {column}" for column in options.get("filled", ())]
    if listed := options.get("listed"):
        parts.append(f"{'listed' if listed.get('keep', True) else 'not listed'} in {listed['file']}")
    return ", ".join(parts)


def _listed(path: Path, width: int) -> set[tuple[str, ...]]:
    entries = set()
    with text_lines(path) as text:
        for number, line in enumerate(text, 1):
            if not line.strip():
                continue
            values = tuple(line.split())
            if len(values) != width:
                message = (
                    f"found {counted(len(values), 'value')}; expected {width}, one per column of `listed`"
                )
                raise DataError(Problem(str(path), message, number, None, line.strip()[:80], "line"))
            entries.add(values)
    if not entries:
        raise no_rows(str(path))
    return entries


def compute(table: Table, column: str, rule: Mapping[str, Any]) -> list[object]:
    """Return the values of a computed column.

    Raises:
        DataError: the rule refuses some rows; they are listed.
    """
    ((name, inputs),) = rule.items()
    values: list[object] = []
    problems: list[Problem] = []
    for at, row in enumerate(zip(*(table.columns[input_column] for input_column in inputs), strict=True)):
        try:
            values.append(RULES[name](*row))
        except ValueError as failed:
            message = f"found {show(row[0])}; expected {failed}"
            problems.append(Problem(table.source, message, table.row_name(at), inputs[0], row[0], table.unit))
            if len(problems) == _MOST:
                break
    if problems:
        raise DataError(*problems)
    return values


def separate(values: list[object], separator: str) -> list[object]:
    """Split texts into lists of their parts; other values stay."""
    return [
        [part.strip() for part in value.split(separator) if part.strip()] if isinstance(value, str) else value
        for value in values
    ]


def exchanged(values: list[object], mapping: Mapping[Any, object]) -> list[object]:
    """Replace values by a mapping whose keys are the old values as strings."""
    by_text = {str(old): new for old, new in mapping.items()}
    return [value if isinstance(value, list | dict) else by_text.get(str(value), value) for value in values]
