"""GLUE's submission: eleven tsv files, `index` and `prediction`, one row per example of the test sets."""

from __future__ import annotations

from collections.abc import Iterator

from weft.data.readers.problem import Problem, show
from weft.evaluation.submission.benchmark import Benchmark, lines_of
from weft.evaluation.submission.form import Form, LabelForm, NumberForm, Predicted, in_order

HEADER = ("index", "prediction")
MAJORITY = "the majority of its training set"
EVEN = "its first label, for the training set's labels are about even"
NLI = ("entailment", "neutral", "contradiction")
ENTAILMENT = ("entailment", "not_entailment")


def _digits(
    file: str, task: str, rows: int, names: tuple[str, str], filler: int, rule: str = ""
) -> LabelForm:
    """Labels written as 0 and 1."""
    both = tuple(f"{name}|{number}" for number, name in enumerate(names))
    return LabelForm(file, task, rows, filler, MAJORITY, task, rule=rule, names=both, words=("0", "1"))


class Glue(Benchmark):
    """The files that the GLUE server takes; label order and ids are those of the hub."""

    name = "glue"
    title = "GLUE"
    forms = (
        _digits("CoLA.tsv", "cola", 1063, ("unacceptable", "acceptable"), 1),
        _digits("SST-2.tsv", "sst2", 1821, ("negative", "positive"), 1),
        _digits("MRPC.tsv", "mrpc", 1725, ("not_equivalent", "equivalent"), 1),
        NumberForm("STS-B.tsv", "stsb", 1379, 2.7, "the mean of its training set", "stsb"),
        _digits("QQP.tsv", "qqp", 390965, ("not_duplicate", "duplicate"), 0),
        LabelForm("MNLI-m.tsv", "mnli", 9796, 0, EVEN, "mnli", names=NLI),
        LabelForm("MNLI-mm.tsv", "mnli_mm", 9847, 0, EVEN, "mnli", "mm", names=NLI),
        LabelForm("QNLI.tsv", "qnli", 5463, 0, EVEN, "qnli", names=ENTAILMENT),
        LabelForm("RTE.tsv", "rte", 3000, 0, MAJORITY, "rte", names=ENTAILMENT),
        _digits(
            *("WNLI.tsv", "wnli", 146, ("not_entailment", "entailment"), 0),
            # its sentences occur in the training and development sets with the opposite label: a trained
            # model
            # is below chance, and the papers report the majority's score
            rule="by the papers' rule the model's answers are left out (--wnli model writes them)",
        ),
        LabelForm("AX.tsv", "ax", 1104, 0, "a constant, whose correlation is 0", "mnli", "ax", names=NLI),
    )

    def text(self, form: Form, predicted: Predicted | None) -> str:
        """The header and one row per example, ids 0 … n − 1 in order."""
        values = (
            form.filled() if predicted is None else in_order(form, predicted, form.all_written(predicted))
        )
        rows = ("\t".join(HEADER), *(f"{number}\t{value}" for number, value in enumerate(values)))
        return "".join(f"{row}\n" for row in rows)

    def problems(self, form: Form, where: str, text: str) -> Iterator[Problem]:
        """Check the header, the number of rows, and each row's index and prediction."""
        lines, line_problems = lines_of(where, text)
        yield from line_problems
        header = tuple(lines[0].split("\t")) if lines else ()
        if header != HEADER:
            message = (
                f"found {show(lines[0] if lines else '')}; expected the names 'index', a tab and 'prediction'"
            )
            yield Problem(where, message, 1, unit="line")
        rows = lines[1:]
        if len(rows) != form.rows:
            yield Problem(where, f"found {len(rows):,} rows under the header; expected {form.rows:,}")
        for number, line in enumerate(rows):
            cells = line.split("\t")
            if len(cells) != 2:
                message = f"found {show(line)}; expected an index, a tab and a prediction"
                yield Problem(where, message, number + 2, unit="line")
                continue
            if cells[0] != str(number):
                message = f"found {show(cells[0])}; expected {number}"
                yield Problem(where, message, number + 2, HEADER[0], cells[0], "line")
            if expected := form.wrong(cells[1]):
                message = f"found {show(cells[1])}; expected {expected}"
                yield Problem(where, message, number + 2, HEADER[1], cells[1], "line")


GLUE = Glue()
write = GLUE.write
check = GLUE.check
