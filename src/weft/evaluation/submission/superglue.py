"""SuperGLUE's submission: ten jsonl files, {"idx": …, "label": …} for each example of the test sets.

MultiRC has one line per passage, with its questions and their answers. The label of ReCoRD is a text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from weft.data.readers.problem import Problem, show
from weft.errors import WeftError
from weft.evaluation.submission.benchmark import Benchmark, lines_of
from weft.evaluation.submission.form import Form, LabelForm, Predicted, TextForm, Written, in_order, whole_id
from weft.evaluation.submission.multirc import answer_ids

MAJORITY = "the majority of its training set"
EVEN = "its first label, for the training set's labels are even"
CONSTANT = "a constant"
BOOLS = ("false|no|0", "true|yes|1")
ENTAILMENT = ("entailment", "not_entailment")
CB = ("entailment", "contradiction", "neutral")
NUMBERS = ("0|false|no", "1|true|yes")
Ids = tuple[int, int, int]


class SuperGlue(Benchmark):
    """The files that the SuperGLUE server takes; label order and ids are those of the hub."""

    name = "superglue"
    title = "SuperGLUE"
    multirc = LabelForm("MultiRC.jsonl", "multirc", 9693, 0, MAJORITY, "multirc", names=NUMBERS, words=(0, 1))
    record = TextForm("ReCoRD.jsonl", "record", 10000, "none", "no entity, which is never right", "record")
    forms = (
        LabelForm("BoolQ.jsonl", "boolq", 3245, 1, MAJORITY, "boolq", names=BOOLS, words=("false", "true")),
        LabelForm("CB.jsonl", "cb", 250, 1, MAJORITY, "cb", names=CB),
        LabelForm("COPA.jsonl", "copa", 500, 1, MAJORITY, "copa", names=("0", "1"), words=(0, 1)),
        multirc,
        record,
        LabelForm("RTE.jsonl", "rte", 3000, 0, MAJORITY, "rte", names=ENTAILMENT),
        LabelForm("WiC.jsonl", "wic", 1400, 0, EVEN, "wic", names=BOOLS, words=("false", "true")),
        LabelForm("WSC.jsonl", "wsc", 146, 0, MAJORITY, "wsc", names=BOOLS, words=("False", "True")),
        LabelForm("AX-b.jsonl", "axb", 1104, 0, CONSTANT, "rte", "axb", names=ENTAILMENT),
        LabelForm("AX-g.jsonl", "axg", 356, 0, CONSTANT, "rte", "axg", names=ENTAILMENT),
    )

    def text(self, form: Form, predicted: Predicted | None) -> str:
        """One line per example; for MultiRC one line per passage."""
        values = form.filled() if predicted is None else form.all_written(predicted)
        if form is self.multirc:
            return _lines(_passages(_placed(form, predicted, values)))
        if predicted is None or form is not self.record:
            ordered = values if predicted is None else in_order(form, predicted, values)
            return _lines({"idx": number, "label": value} for number, value in enumerate(ordered))
        # only the test file knows the ids of ReCoRD's queries
        ids = [whole_id(form, query) for query in predicted.ids or range(form.rows)]
        if len(set(ids)) < len(ids):
            raise WeftError(f"task {form.key!r}: an id occurs twice; {form.file} has each query once")
        return _lines({"idx": number, "label": value} for number, value in zip(ids, values, strict=True))

    def problems(self, form: Form, where: str, text: str) -> Iterator[Problem]:
        """Check JSON, keys, the number of examples, and each id and label."""
        lines, line_problems = lines_of(where, text)
        yield from line_problems
        if form is self.multirc:
            yield from _multirc_problems(form, where, lines)
            return
        if len(lines) != form.rows:
            yield Problem(where, f"found {len(lines):,} lines; expected {form.rows:,}")
        seen: set[int] = set()
        for number, line in enumerate(lines):
            entry, wrong = _object(line, ("idx", "label"))
            if entry is None:
                yield Problem(where, wrong, number + 1, unit="line")
                continue
            idx = entry["idx"]
            expected = "a whole number, each once" if form is self.record else str(number)
            right = (type(idx) is int and idx not in seen) if form is self.record else _same(idx, number)
            if not right:
                yield Problem(
                    where, f"found {show(idx)}; expected {expected}", number + 1, "idx", idx, "line"
                )
            elif form is self.record:
                seen.add(idx)
            if expected := form.wrong(entry["label"]) or "":
                message = f"found {show(entry['label'])}; expected {expected}"
                yield Problem(where, message, number + 1, "label", entry["label"], "line")


def _lines(entries: Any) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def _placed(form: Form, predicted: Predicted | None, values: list[Written]) -> dict[Ids, Written]:
    """MultiRC's values by (passage, question, answer), in the official order."""
    official = list(answer_ids())
    if predicted is None or predicted.ids is None:
        return dict(zip(official, values, strict=True))
    placed = {}
    for example_id, value in zip(predicted.ids, values, strict=True):
        try:
            passage, question, answer = (int(part) for part in example_id)
        except (TypeError, ValueError):
            passage, question, answer = -1, -1, -1
        placed[passage, question, answer] = value
    if strange := sorted(placed.keys() - set(official)):
        raise WeftError(
            f"task {form.key!r}: id {show(strange[0])} is not in the official test set; expected (passage, "
            "question, answer) of each answer: id: [idx_paragraph, idx_question, idx_answer] in the task"
        )
    if len(placed) < len(values):
        raise WeftError(f"task {form.key!r}: an id occurs twice; {form.file} has each answer once")
    return {ids: placed[ids] for ids in official}


def _passages(values: Mapping[Ids, Written]) -> list[dict[str, Any]]:
    """One entry per passage: its questions and their answers."""
    nested: dict[int, dict[int, list[dict[str, Any]]]] = {}
    for (passage, question, answer), value in values.items():
        answers = nested.setdefault(passage, {}).setdefault(question, [])
        answers.append({"idx": answer, "label": value})
    return [
        {
            "idx": passage,
            "passage": {"questions": [{"idx": q, "answers": answers} for q, answers in questions.items()]},
        }
        for passage, questions in nested.items()
    ]


def _multirc_problems(form: Form, where: str, lines: list[str]) -> Iterator[Problem]:
    left: set[tuple[Any, ...]] = set(answer_ids())
    passages = {passage for passage, _, _ in left}
    if len(lines) != len(passages):
        yield Problem(where, f"found {len(lines):,} lines; expected {len(passages)}, one line per passage")
    for number, line in enumerate(lines, 1):
        entry, wrong = _object(line, ("idx", "passage"))
        if entry is None:
            yield Problem(where, wrong, number, unit="line")
            continue
        try:
            labels = [
                (entry["idx"], question["idx"], answer["idx"], answer["label"])
                for question in entry["passage"]["questions"]
                for answer in question["answers"]
            ]
        except (TypeError, KeyError):
            message = 'expected {"questions": [{"idx": q, "answers": [{"idx": a, "label": 0 or 1}]}]}'
            yield Problem(where, f"found {show(entry['passage'])}; {message}", number, "passage", unit="line")
            continue
        for *ids, label in labels:
            if not all(type(part) is int for part in ids) or tuple(ids) not in left:
                message = (
                    f"found passage, question, answer {show(ids)}; expected those of the test set, each once"
                )
                yield Problem(where, message, number, "idx", ids, "line")
            else:
                left.remove(tuple(ids))
            if expected := form.wrong(label):
                yield Problem(
                    where, f"found {show(label)}; expected {expected}", number, "label", label, "line"
                )
    if left:
        yield Problem(where, f"{len(left):,} answers of {form.rows:,} are missing")


def _object(line: str, keys: tuple[str, ...]) -> tuple[dict[str, Any] | None, str]:
    """Return a line as an object with exactly these keys, or None and what is wrong with it."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None, f"found {show(line)}; expected JSON"
    if not isinstance(entry, dict) or set(entry) != set(keys):
        return None, f"found {show(line)}; expected an object with {' and '.join(map(repr, keys))}"
    return entry, ""


def _same(value: object, number: int) -> bool:
    return type(value) is int and value == number  # not True for 1, nor 1.0


SUPERGLUE = SuperGlue()
write = SUPERGLUE.write
check = SUPERGLUE.check
