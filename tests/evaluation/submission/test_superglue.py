"""SuperGLUE's zip: its files, its fillers, and everything that the checker finds."""

from __future__ import annotations

import json
import random
import zipfile

import pytest

from tests.support.more import some_of
from tests.support.paths import real_data
from weft.errors import WeftError
from weft.evaluation.submission.archive import zipped
from weft.evaluation.submission.form import Predicted, TextForm
from weft.evaluation.submission.multirc import answer_ids
from weft.evaluation.submission.superglue import SUPERGLUE, check, write

FILES = {  # as the server wants them: lines, what may stand there
    "BoolQ.jsonl": (3245, {"true", "false"}),
    "CB.jsonl": (250, {"entailment", "contradiction", "neutral"}),
    "COPA.jsonl": (500, {0, 1}),
    "MultiRC.jsonl": (166, {0, 1}),
    "ReCoRD.jsonl": (10000, None),
    "RTE.jsonl": (3000, {"entailment", "not_entailment"}),
    "WiC.jsonl": (1400, {"true", "false"}),
    "WSC.jsonl": (146, {"True", "False"}),
    "AX-b.jsonl": (1104, {"entailment", "not_entailment"}),
    "AX-g.jsonl": (356, {"entailment", "not_entailment"}),
}
FORMS = {form.key: form for form in SUPERGLUE.forms}
IDS = list(answer_ids())


def texts_of(place):
    with zipfile.ZipFile(place) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def entries_of(place, file):
    return [json.loads(line) for line in texts_of(place)[file].splitlines()]


def random_answers(form):
    draw = random.Random(form.key)
    if isinstance(form, TextForm):
        return [(n % 3, f"Entity “{n}”") for n in range(form.rows)]
    return [draw.randrange(len(form.names)) for _ in range(form.rows)]


def test_all_files_hold_the_answers(tmp_path):
    place = tmp_path / "whole.zip"
    answers = {key: random_answers(form) for key, form in FORMS.items()}
    answers["copa"] = [(x, "a choice") for x in answers["copa"]]
    report = write(answers, place)
    assert list(texts_of(place)) == list(FILES)
    assert report.fillers == ()
    assert check(place) == []
    for entry in report.entries:
        lines, words = FILES[entry.file]
        found = entries_of(place, entry.file)
        assert len(found) == lines
        if entry.task == "multirc":
            continue
        assert [one["idx"] for one in found] == list(range(lines))
        labels = [one["label"] for one in found]
        given = [x[0] if isinstance(x, tuple) else x for x in answers[entry.task]]
        if words is None:
            assert labels == [text for _, text in answers[entry.task]]
        else:
            assert set(labels) == words
            assert labels == [FORMS[entry.task].values[x] for x in given]
    assert entries_of(place, "BoolQ.jsonl")[0] == {
        "idx": 0,
        "label": "true" if answers["boolq"][0] else "false",
    }


def test_multirc_is_nested(tmp_path):
    assert len(IDS) == 9693
    answers = random_answers(FORMS["multirc"])
    order = list(range(len(IDS)))
    random.Random(3).shuffle(order)
    write({"multirc": Predicted([answers[n] for n in order], [IDS[n] for n in order])}, tmp_path / "a.zip")
    write({"multirc": answers}, tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    first, second, *_ = entries_of(tmp_path / "a.zip", "MultiRC.jsonl")
    assert first == {
        "idx": 0,
        "passage": {
            "questions": [
                {"idx": 0, "answers": [{"idx": n, "label": answers[n]} for n in (0, 1, 2)]},
                {"idx": 1, "answers": [{"idx": n, "label": answers[n]} for n in (3, 4, 5, 6, 7)]},
            ]
        },
    }
    assert second["idx"] == 1
    assert second["passage"]["questions"][0]["answers"][0] == {"idx": 8, "label": answers[8]}
    flat = [
        (one["idx"], question["idx"], answer["idx"])
        for one in entries_of(tmp_path / "a.zip", "MultiRC.jsonl")
        for question in one["passage"]["questions"]
        for answer in question["answers"]
    ]
    assert flat == IDS


def test_record_keeps_the_ids_of_its_queries(tmp_path):
    ids = [(n // 3, 7 * n) for n in range(10000)]
    write({"record": Predicted(["x"] * 10000, ids)}, tmp_path / "a.zip")
    assert [one["idx"] for one in entries_of(tmp_path / "a.zip", "ReCoRD.jsonl")] == [q for _, q in ids]
    assert check(tmp_path / "a.zip") == []


def test_nothing_but_fillers(tmp_path):
    report = write({}, tmp_path / "none.zip")
    assert check(tmp_path / "none.zip") == []
    assert [entry.file for entry in report.fillers] == list(FILES)
    fillers = {entry.file.removesuffix(".jsonl"): entry.filler for entry in report.fillers}
    assert fillers == {
        "BoolQ": "true",
        "CB": "contradiction",
        "COPA": 1,
        "MultiRC": 0,
        "ReCoRD": "none",
        "RTE": "entailment",
        "WiC": "false",
        "WSC": "False",
        "AX-b": "entailment",
        "AX-g": "entailment",
    }
    for file in FILES:
        if file != "MultiRC.jsonl":
            assert {one["label"] for one in entries_of(tmp_path / "none.zip", file)} == {
                fillers[file.removesuffix(".jsonl")]
            }


def test_labels_by_name():
    assert [FORMS["boolq"].written(name) for name in ("True", "no", "1")] == ["true", "false", "true"]
    assert FORMS["wsc"].written("true") == "True"
    assert FORMS["multirc"].written("True") == 1


WRONG_ANSWERS = {
    "an unknown task": ({"wnli": []}, "SuperGLUE has no answers named 'wnli'"),
    "too few": ({"cb": [0]}, "task 'cb': found 1 answers; CB.jsonl takes 250"),
    "no text": ({"record": [3] * 10000}, "'record', answer 1: found 3; expected a text"),
    "a query twice": ({"record": Predicted(["x"] * 10000, [1] * 10000)}, "an id occurs twice"),
    "an answer's id": (
        {"multirc": Predicted([0] * 9693, [(0, 0, n) for n in range(9693)])},
        r"id \(0, 0, 3\) is not in the official test set",
    ),
    "half an id": ({"multirc": Predicted([0] * 9693, range(9693))}, "is not in the official test set"),
    "an answer twice": ({"multirc": Predicted([0] * 9693, [(0, 0, 0)] * 9693)}, "an id occurs twice"),
}


@pytest.mark.parametrize("case", WRONG_ANSWERS)
def test_wrong_answers(case, tmp_path):
    answers, message = WRONG_ANSWERS[case]
    with pytest.raises(WeftError, match=message):
        write(answers, tmp_path / "x.zip")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    place = tmp_path_factory.mktemp("filled") / "filled.zip"
    write({}, place)
    return texts_of(place)


def line(file, number, entry):
    def change(texts):
        lines = texts[file].splitlines()
        lines[number - 1] = entry if isinstance(entry, str) else json.dumps(entry)
        texts[file] = "".join(f"{one}\n" for one in lines)

    return change


def questions(*answers, label=0):
    """MultiRC's first passage with these answers to its two questions."""
    listed = [[{"idx": n, "label": label} for n in own] for own in answers]
    return {"idx": 0, "passage": {"questions": [{"idx": n, "answers": own} for n, own in enumerate(listed)]}}


DEVIATIONS = {
    "a missing file": (lambda t: t.pop("AX-g.jsonl"), ["AX-g.jsonl: the file is missing"]),
    "too few lines": (
        lambda t: t.update({"CB.jsonl": ""}),
        ["CB.jsonl: found 0 lines; expected 250"],
    ),
    "no JSON": (line("CB.jsonl", 3, "{"), ["CB.jsonl, line 3: found '{'; expected JSON"]),
    "a list": (
        line("CB.jsonl", 3, [2, "neutral"]),
        [
            "CB.jsonl, line 3: found",
        ],
    ),
    "a key too many": (
        line("CB.jsonl", 3, {"idx": 2, "label": "neutral", "p": 1}),
        [
            "CB.jsonl, line 3: found",
        ],
    ),
    "another id": (
        line("CB.jsonl", 3, {"idx": 7, "label": "neutral"}),
        ["CB.jsonl, line 3, column 'idx': found 7; expected 2"],
    ),
    "an id that is no whole number": (
        line("CB.jsonl", 2, {"idx": True, "label": "neutral"}),
        ["CB.jsonl, line 2, column 'idx': found True; expected 1"],
    ),
    "another label": (
        line("CB.jsonl", 3, {"idx": 2, "label": "maybe"}),
        ["CB.jsonl, line 3, column 'label': found 'maybe'; expected 'entailment' or 'contradiction'"],
    ),
    "a boolean": (
        line("BoolQ.jsonl", 1, {"idx": 0, "label": True}),
        ["BoolQ.jsonl, line 1, column 'label': found True; expected 'false' or 'true'"],
    ),
    "upper case": (
        line("WiC.jsonl", 1, {"idx": 0, "label": "True"}),
        ["found 'True'; expected 'false' or 'true'"],
    ),
    "lower case": (
        line("WSC.jsonl", 1, {"idx": 0, "label": "true"}),
        ["found 'true'; expected 'False' or 'True'"],
    ),
    "a number as a text": (line("COPA.jsonl", 1, {"idx": 0, "label": "1"}), ["found '1'; expected 0 or 1"]),
    "a truth as a number": (
        line("COPA.jsonl", 1, {"idx": 0, "label": True}),
        ["found True; expected 0 or 1"],
    ),
    "an empty entity": (line("ReCoRD.jsonl", 1, {"idx": 0, "label": ""}), ["found ''; expected a text"]),
    "a query twice": (
        line("ReCoRD.jsonl", 2, {"idx": 0, "label": "x"}),
        ["ReCoRD.jsonl, line 2, column 'idx': found 0; expected a whole number, each once"],
    ),
    "no questions": (
        line("MultiRC.jsonl", 1, {"idx": 0, "passage": {"questions": 3}}),
        ["MultiRC.jsonl, line 1, column 'passage'", "MultiRC.jsonl: 8 answers of 9,693 are missing"],
    ),
    "flat answers": (
        line("MultiRC.jsonl", 1, {"idx": 0, "label": 1}),
        ["MultiRC.jsonl, line 1: found", "8 answers of 9,693 are missing"],
    ),
    "an answer missing": (
        line("MultiRC.jsonl", 1, questions([0, 1, 2], [3, 4, 5, 6])),
        ["MultiRC.jsonl: 1 answers of 9,693 are missing"],
    ),
    "an answer twice": (
        line("MultiRC.jsonl", 1, questions([0, 1, 2, 2], [3, 4, 5, 6, 7])),
        ["MultiRC.jsonl, line 1, column 'idx': found passage, question, answer [0, 0, 2]"],
    ),
    "an answer elsewhere": (
        line("MultiRC.jsonl", 1, questions([0, 1, 2, 3], [4, 5, 6, 7])),
        ["found passage, question, answer [0, 0, 3]", "1 answers of 9,693 are missing"],
    ),
    "a label of MultiRC": (
        line("MultiRC.jsonl", 1, questions([0, 1, 2], [3, 4, 5, 6, 7], label="1")),
        ["MultiRC.jsonl, line 1, column 'label': found '1'; expected 0 or 1"] * 8,
    ),
    "a passage too few": (
        lambda t: t.update({"MultiRC.jsonl": t["MultiRC.jsonl"].split("\n", 1)[1]}),
        ["found 165 lines; expected 166, one line per passage", "8 answers of 9,693 are missing"],
    ),
}


@pytest.mark.parametrize("case", some_of(DEVIATIONS, 8))
def test_the_checker_finds_every_deviation(case, filled, tmp_path):
    change, expected = DEVIATIONS[case]
    texts = dict(filled)
    change(texts)
    place = tmp_path / "x.zip"
    place.write_bytes(zipped(texts))
    problems = [str(p) for p in check(place)]
    assert len(problems) == len(expected)
    for problem, words in zip(problems, expected, strict=True):
        assert problem.startswith(f"{place}: ")
        assert words in problem


def test_the_ids_are_those_of_the_test_set():
    import pyarrow.parquet as pq

    table = pq.read_table(real_data("superglue", "multirc", "test.parquet"))
    columns = [table[f"idx_{part}"].to_pylist() for part in ("paragraph", "question", "answer")]
    assert list(zip(*columns, strict=True)) == IDS
