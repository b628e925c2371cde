"""GLUE's zip: its files, its fillers, and everything that the checker finds."""

from __future__ import annotations

import random
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.more import examples
from weft.errors import WeftError
from weft.evaluation.submission.archive import zipped
from weft.evaluation.submission.form import LabelForm, NumberForm, Predicted
from weft.evaluation.submission.glue import GLUE, check, write

FILES = {  # as the server wants them: rows, what may stand there
    "CoLA.tsv": (1063, {"0", "1"}),
    "SST-2.tsv": (1821, {"0", "1"}),
    "MRPC.tsv": (1725, {"0", "1"}),
    "STS-B.tsv": (1379, None),
    "QQP.tsv": (390965, {"0", "1"}),
    "MNLI-m.tsv": (9796, {"entailment", "neutral", "contradiction"}),
    "MNLI-mm.tsv": (9847, {"entailment", "neutral", "contradiction"}),
    "QNLI.tsv": (5463, {"entailment", "not_entailment"}),
    "RTE.tsv": (3000, {"entailment", "not_entailment"}),
    "WNLI.tsv": (146, {"0", "1"}),
    "AX.tsv": (1104, {"entailment", "neutral", "contradiction"}),
}
FORMS = {form.key: form for form in GLUE.forms}


def texts_of(place):
    with zipfile.ZipFile(place) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def rows_of(place, file):
    header, *lines = texts_of(place)[file].splitlines()
    assert header == "index\tprediction"
    cells = [line.split("\t") for line in lines]
    assert [index for index, _ in cells] == [str(n) for n in range(len(cells))]
    return [value for _, value in cells]


def random_answers(form, seed=1):
    draw = random.Random(f"{form.key} {seed}")
    if isinstance(form, NumberForm):
        return [draw.uniform(-1, 6) for _ in range(form.rows)]
    return [draw.randrange(len(form.names)) for _ in range(form.rows)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A submission with random answers in every file."""
    place = tmp_path_factory.mktemp("glue") / "whole.zip"
    answers = {key: random_answers(form) for key, form in FORMS.items()}
    report = write(answers, place, insist=["wnli"])
    return place, answers, report


def test_all_files_hold_the_answers(whole):
    place, answers, report = whole
    assert list(texts_of(place)) == list(FILES)
    assert check(place) == []
    assert report.fillers == ()
    for entry in report.entries:
        rows, words = FILES[entry.file]
        found = rows_of(place, entry.file)
        assert len(found) == entry.rows == rows
        form = FORMS[entry.task]
        if words is None:
            assert found == [f"{min(max(x, 0), 5):.3f}" for x in answers[entry.task]]
            assert {"0.000", "5.000"} < set(found)
        else:
            assert set(found) == words
            assert found == [form.values[x] for x in answers[entry.task]]


def test_the_same_answers_make_the_same_bytes(whole, tmp_path):
    _place, answers, _ = whole
    few = {key: answers[key] for key in ("cola", "stsb", "mnli")}
    write(few, tmp_path / "a.zip")
    write(dict(reversed(few.items())), tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    write({"cola": answers["cola"]}, tmp_path / "b.zip")  # it takes the old one's place
    assert (tmp_path / "a.zip").read_bytes() != (tmp_path / "b.zip").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zip", "b.zip"]


def test_nothing_but_fillers(tmp_path):
    report = write({}, tmp_path / "none.zip", {"qqp": "the task has no test file"})
    assert check(tmp_path / "none.zip") == []
    assert [entry.file for entry in report.fillers] == list(FILES)
    found = {entry.file: entry for entry in report.fillers}
    for file, entry in found.items():
        assert set(rows_of(tmp_path / "none.zip", file)) == {entry.filler}
    fillers = {
        "CoLA.tsv": "1",
        "SST-2.tsv": "1",
        "MRPC.tsv": "1",
        "QQP.tsv": "0",
        "WNLI.tsv": "0",
        **dict.fromkeys(("MNLI-m.tsv", "MNLI-mm.tsv", "QNLI.tsv", "RTE.tsv", "AX.tsv"), "entailment"),
        "STS-B.tsv": "2.700",
    }
    assert {file: entry.filler for file, entry in found.items()} == fillers
    assert found["QQP.tsv"].why == (
        "the task has no test file: every row is '0', the majority of its training set"
    )
    assert found["CoLA.tsv"].why.startswith("there are no answers: every row is '1'")


def test_wnli_is_the_majority_unless_the_models_answers_are_insisted_on(tmp_path):
    answers = {"wnli": [1] * 146}
    report = write(answers, tmp_path / "a.zip")
    entry = next(entry for entry in report.entries if entry.task == "wnli")
    assert entry.filler == "0"
    assert "left out (--wnli model writes them)" in entry.why
    assert set(rows_of(tmp_path / "a.zip", "WNLI.tsv")) == {"0"}
    write(answers, tmp_path / "a.zip", insist=["wnli"])
    assert set(rows_of(tmp_path / "a.zip", "WNLI.tsv")) == {"1"}


@settings(max_examples=examples(20))
@given(st.integers(0, 10**6))
def test_ids_put_answers_in_order(seed):
    form = FORMS["wnli"]
    answers = random_answers(form, seed)
    order = list(range(form.rows))
    random.Random(seed).shuffle(order)
    for ids in (order, [(n,) for n in order], [str(n) for n in order]):
        mixed = Predicted([answers[n] for n in order], ids)
        assert GLUE.text(form, mixed) == GLUE.text(form, Predicted(answers))


def test_labels_by_name():
    form = FORMS["mrpc"]
    names = ["Equivalent", "not_equivalent", "0", "1"]
    assert [form.written(name) for name in names] == ["1", "0", "0", "1"]
    assert FORMS["wnli"].written("entailment") == "1"
    assert FORMS["rte"].written("entailment") == "entailment"


WRONG_ANSWERS = {
    "an unknown task": ({"colla": []}, "GLUE has no answers named 'colla'; did you mean 'cola'"),
    "too few": ({"rte": [0] * 12}, "task 'rte': found 12 answers; RTE.tsv takes 3,000.*--fill rte"),
    "a label too large": (
        {"wnli": [0] * 145 + [2]},
        "'wnli', answer 146: found 2; expected a label's id, 0 to 1",
    ),
    "a label's name": ({"wnli": ["maybe"] * 146}, "answer 1: found 'maybe'; expected one of not_entailment"),
    "no label": ({"wnli": [None] * 146}, "found None; expected a label's id"),
    "no number": ({"stsb": [float("nan")] * 1379}, "answer 1: found nan; expected a finite number"),
    "an id twice": ({"wnli": Predicted([0] * 146, [3] * 146)}, "id 3: occurs twice"),
    "an id too large": ({"wnli": Predicted([0] * 146, range(1, 147))}, "id 146: expected 0 to 145"),
    "no id": ({"wnli": Predicted([0] * 146, ["x"] * 146)}, "id 'x': expected a whole number"),
    "few ids": ({"wnli": Predicted([0] * 146, [1])}, "146 answers, but 1 ids"),
}


@pytest.mark.parametrize("case", WRONG_ANSWERS)
def test_wrong_answers(case, tmp_path):
    answers, message = WRONG_ANSWERS[case]
    (tmp_path / "old.zip").write_bytes(b"old")
    with pytest.raises(WeftError, match=message):
        write(answers, tmp_path / "old.zip", insist=["wnli"])
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("old.zip", b"old")]


def replaced(file, old, new):
    def change(texts):
        assert old in texts[file]
        texts[file] = texts[file].replace(old, new, 1)

    return change


def without(file):
    return lambda texts: texts.pop(file)


DEVIATIONS = {
    "a missing file": (without("AX.tsv"), ["AX.tsv: the file is missing"]),
    "another file": (lambda t: t.update({"notes.txt": "x"}), ["notes.txt: the server knows no file"]),
    "a folder": (
        lambda t: t.update({"out/AX.tsv": t.pop("AX.tsv")}),
        [
            "out/AX.tsv: the server knows no file of this name; AX.tsv must not be in a folder",
            "AX.tsv: the file",
        ],
    ),
    "an empty file": (
        lambda t: t.update({"RTE.tsv": ""}),
        [
            "RTE.tsv, line 1: found ''; expected the names",
            "RTE.tsv: found 0 rows under the header; expected 3,000",
        ],
    ),
    "no header": (
        replaced("WNLI.tsv", "index\tprediction\n", ""),
        ["WNLI.tsv, line 1: found '0\\t0'", "found 145 rows", *(["column 'index': found"] * 145)],
    ),
    "another header": (
        replaced("WNLI.tsv", "prediction", "label"),
        ["WNLI.tsv, line 1: found 'index\\tlabel'"],
    ),
    "a row too many": (
        lambda t: t.update({"WNLI.tsv": t["WNLI.tsv"] + "146\t0\n"}),
        ["WNLI.tsv: found 147 rows under the header; expected 146"],
    ),
    "ids from one": (
        lambda t: t.update({"WNLI.tsv": "index\tprediction\n" + "".join(f"{n}\t0\n" for n in range(1, 147))}),
        ["WNLI.tsv, line 2, column 'index': found '1'; expected 0", *(["column 'index'"] * 145)],
    ),
    "an unknown label": (
        replaced("RTE.tsv", "\n7\tentailment", "\n7\tneutral"),
        ["RTE.tsv, line 9, column 'prediction': found 'neutral'; expected 'entailment' or 'not_entailment'"],
    ),
    "a label of digits": (
        replaced("CoLA.tsv", "\n0\t1", "\n0\tacceptable"),
        ["CoLA.tsv, line 2, column 'prediction': found 'acceptable'; expected '0' or '1'"],
    ),
    "a number too large": (
        replaced("STS-B.tsv", "\n3\t2.700", "\n3\t5.001"),
        ["STS-B.tsv, line 5, column 'prediction': found '5.001'; expected a number from 0 to 5"],
    ),
    "no number": (
        replaced("STS-B.tsv", "\n3\t2.700", "\n3\tnan"),
        ["found 'nan'; expected a number from 0 to 5"],
    ),
    "a third cell": (
        replaced("WNLI.tsv", "\n5\t0", "\n5\t0\t0"),
        ["WNLI.tsv, line 7: found '5\\t0\\t0'; expected an index, a tab and a prediction"],
    ),
    "spaces": (replaced("WNLI.tsv", "\n5\t0", "\n5 0"), ["WNLI.tsv, line 7: found '5 0'"]),
    "carriage returns": (
        lambda t: t.update({"WNLI.tsv": t["WNLI.tsv"].replace("\n", "\r\n")}),
        ["WNLI.tsv, line 1: 147 lines end in a carriage return"],
    ),
    "a byte order mark": (
        lambda t: t.update({"WNLI.tsv": "\ufeff" + t["WNLI.tsv"]}),
        ["WNLI.tsv, line 1: begins with a byte order mark"],
    ),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    place = tmp_path_factory.mktemp("filled") / "filled.zip"
    write({}, place)
    texts = texts_of(place)
    return {name: text if name != "QQP.tsv" else "" for name, text in texts.items()}  # the large one is slow


@pytest.mark.parametrize("case", DEVIATIONS)
def test_the_checker_finds_every_deviation(case, filled, tmp_path):
    change, expected = DEVIATIONS[case]
    texts = dict(filled)
    change(texts)
    place = tmp_path / "x.zip"
    place.write_bytes(zipped(texts))
    problems = [str(p) for p in check(place) if "QQP.tsv" not in p.source]
    assert len(problems) == len(expected)
    for problem, words in zip(problems, expected, strict=True):
        assert problem.startswith(f"{place}: ")
        assert words in problem


def test_what_is_no_zip(tmp_path, filled):
    place = tmp_path / "x.zip"
    assert "No such file" in str(check(place)[0])
    place.write_bytes(b"PK but no zip")
    assert "it is not a zip file; expected a zip of 11 files" in str(check(place)[0])
    whole = zipped(filled)
    place.write_bytes(whole[: len(whole) // 2])
    assert len(check(place)) == 1
    broken = bytearray(whole)
    broken[60] ^= 0xFF  # inside the first file
    place.write_bytes(bytes(broken))
    assert any("CoLA.tsv: cannot be read from the zip" in str(p) for p in check(place))
    with zipfile.ZipFile(place, "w") as archive:
        for _ in range(2):
            with pytest.warns(UserWarning, match="Duplicate") if _ else no_warning():
                archive.writestr("WNLI.tsv", filled["WNLI.tsv"])
        archive.writestr("AX.tsv", b"index\tprediction\n\xff")
    problems = [str(p) for p in check(place)]
    assert any("WNLI.tsv: found 2 of them; expected one" in p for p in problems)
    assert any("AX.tsv: byte 17 is not UTF-8" in p for p in problems)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_every_way_to_compress_may_be_damaged(tmp_path, filled, method):
    place = tmp_path / "x.zip"
    with zipfile.ZipFile(place, "w", method) as archive:
        archive.writestr("CoLA.tsv", filled["CoLA.tsv"])
        start = archive.infolist()[0].header_offset + 30 + len("CoLA.tsv")
        size = archive.infolist()[0].compress_size
    whole, unreadable = place.read_bytes(), 0
    for at in range(start, start + size):
        place.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        problems = [str(p) for p in check(place) if "CoLA.tsv" in str(p)]
        # a few bits mean nothing: the text is then what it was
        assert problems in ([], [p for p in problems if "CoLA.tsv: cannot be read from the zip" in p])
        unreadable += bool(problems)
    assert unreadable > 0.7 * size


def no_warning():
    from contextlib import nullcontext

    return nullcontext()


def test_every_key_stands_for_one_file():
    assert len(FORMS) == len(GLUE.forms) == 11
    for form in GLUE.forms:
        assert isinstance(form, NumberForm | LabelForm)
        assert form.wrong(form.written(form.filler)) is None
