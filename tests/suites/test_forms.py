"""Every suite in the hub's form and as officially downloaded: one task, one set of rows."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.support.official import write_hub, write_official
from tests.support.suite_rows import HUB
from weft.data import load_split
from weft.data.readers.source import Source
from weft.errors import WeftError
from weft.suites import find_suite, load_suite, suite_names

TASKS = [(suite, task) for suite, tasks in HUB.items() for task in tasks if task != "ax"]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """suite → its tasks in the hub's form and in the official one."""
    found = {}
    for suite in HUB:
        forms = []
        for write in (write_hub, write_official):
            root = tmp_path_factory.mktemp(f"{suite}-{write.__name__}")
            write(root, suite)
            forms.append({task.name: task for task in load_suite(suite, root)})
        found[suite] = forms
    return found


def test_every_suite_is_tested():
    assert set(HUB) == set(suite_names()) - {"swatch"}


@pytest.mark.parametrize(("suite", "task"), TASKS)
def test_both_forms_are_one_task(both, suite, task):
    hub, official = (form[task] for form in both[suite])
    assert hub == official
    assert hub.suite == official.suite == suite
    assert set(hub.files) == set(official.files)
    assert {k: set(v) for k, v in hub.also.items()} == {k: set(v) for k, v in official.also.items()}


@pytest.mark.parametrize(("suite", "task"), TASKS)
def test_both_forms_have_the_same_rows(both, suite, task):
    hub, official = (form[task] for form in both[suite])
    for split in hub.files:
        one, other = load_split(hub, split), load_split(official, split)
        assert one.texts == other.texts
        assert (one.labels, one.marks, one.dropped) == (other.labels, other.marks, other.dropped)
        assert (one.labels is None) == (split == "test" and suite not in ("wnut17", "snli", "scitail"))
        assert (one.groups is None) == (not hub.group)
        assert one.groups == other.groups
        if split == "test":
            assert (
                str(one.ids) == str(other.ids).replace("('", "(").replace("',)", ",)") or one.ids == other.ids
            )
            assert (one.ids is None) == (not hub.id)


def test_what_the_rows_mean(both):
    squad = load_split(both["squad"][1]["squad"], "train")
    assert squad.labels == [[("The old cat", 0), ("cat", 8)], [("cat", 21)]]
    newsqa = load_split(both["mrqa"][1]["newsqa"], "validation")
    assert newsqa.labels == [[*own, ("an old cat", -1)] for own in squad.labels]
    assert newsqa.ids == [("q10",), ("q11",)]
    record = load_split(both["superglue"][1]["record"], "train")
    assert record.texts[0][2:] == ("Ann", "Bob", "Rome")
    assert record.labels == [(0,), (0, 1)]
    swag = load_split(both["swag"][1]["swag"], "train")
    assert swag.texts[0][:3] == ("He sits.", "He", "does thing 0, slowly.")
    assert swag.labels == [(2,)]
    wsc = load_split(both["superglue"][1]["wsc"], "train")
    assert wsc.marks == [((0, 0, 4), (0, 20, 22))]
    copa = load_split(both["superglue"][1]["copa"], "train")
    assert copa.texts == [("It rained. What was the effect?", "It is wet.", "It is dry.")]
    multirc = load_split(both["superglue"][1]["multirc"], "train")
    assert multirc.texts[1] == ("Paragraph 0.", "Question 0? Answer 1")
    assert multirc.groups[:3] == [(0, 0), (0, 0), (0, 1)]
    assert load_split(both["snli"][1]["snli"], "train").dropped == 1
    boolq = both["superglue"][1]["boolq"]
    assert [boolq.labels[i] for i in load_split(boolq, "train").labels[:2]] == ["False", "True"]


def test_mnli_has_its_mismatched_set_beside_it(both):
    for form in both["glue"]:
        mnli = form["mnli"]
        assert len(load_split(replace(mnli, files=mnli.also["mm"]), "validation")) == 2
        assert len(load_split(mnli, "validation")) == 3
        ax = load_split(replace(mnli, files=mnli.also["ax"]), "test")
        assert (len(ax), ax.labels) == (2, None)
        assert ".." not in str(ax.source)


def test_mrpc_as_microsoft_gives_it(tmp_path):
    """The rows that dev_ids.tsv lists are the validation set, the others the training set."""
    write_official(tmp_path, "glue")
    folder = tmp_path / "glue" / "MRPC"
    glues = load_suite("glue", tmp_path, ["mrpc"])[0]
    expected = {split: load_split(glues, split) for split in ("train", "validation")}
    train, dev = ((folder / f"{name}.tsv").read_bytes() for name in ("train", "dev"))
    (folder / "msr_paraphrase_train.txt").write_bytes(train + dev.partition(b"\n")[2])
    test = (folder / "test.tsv").read_bytes()
    (folder / "msr_paraphrase_test.txt").write_bytes(
        test.replace(b"index", b"Quality").replace(b"20\t", b"1\t")
    )
    ids = ["\t".join(line.split("\t")[1:3]) for line in dev.decode().splitlines()[1:]]
    (folder / "dev_ids.tsv").write_text("\n".join(ids) + "\n")
    for name in ("train", "dev", "test"):
        (folder / f"{name}.tsv").unlink()
    (task,) = load_suite("glue", tmp_path, ["mrpc"])
    assert task == glues
    assert task.files["train"].path.name == "msr_paraphrase_train.txt"
    for split, rows in expected.items():
        found = load_split(task, split)
        assert (found.texts, found.labels) == (rows.texts, rows.labels)


def test_broken_rows_of_qqp_are_left_out(tmp_path):
    write_official(tmp_path, "glue")
    path = tmp_path / "glue" / "QQP" / "train.tsv"
    path.write_bytes(path.read_bytes() + b"99\t1\t2\thalf a question\n and the rest\t0\n")
    (task,) = load_suite("glue", tmp_path, ["qqp"])
    assert len(load_split(task, "train")) == 4


def test_a_partial_suite_says_what_is_missing(tmp_path):
    write_official(tmp_path, "superglue")
    for name in ("ReCoRD/train.jsonl", "CB/test.jsonl", "WSC/val.jsonl"):
        (tmp_path / "superglue" / name).unlink()
    found = find_suite("superglue", tmp_path)
    assert [task.name for task in found.tasks] == ["boolq", "cb", "copa", "multirc", "rte", "wic", "wsc"]
    assert found.notes == [
        f"suite superglue: no train file of record in {str(tmp_path)!r}: left out",
        "suite superglue: no test file of cb",
        "suite superglue: no axb file of rte",
        "suite superglue: no axg file of rte",
        "suite superglue: no validation file of wsc",
    ]
    with pytest.raises(WeftError, match=r"task 'record' has no train file in .*ReCoRD/train\.jsonl"):
        find_suite("superglue", tmp_path, ["cb", "record"])


def test_scitail_is_cut_only_where_it_has_no_validation_file(tmp_path):
    write_official(tmp_path, "scitail")
    assert load_suite("scitail", tmp_path)[0].cut is None
    (tmp_path / "scitail" / "tsv_format" / "scitail_1.0_dev.tsv").unlink()
    found = find_suite("scitail", tmp_path)
    assert found.tasks[0].cut == 0.1
    assert found.notes == ["suite scitail: scitail has no validation file: 10% of its train rows are used"]


def test_the_root_may_be_the_suites_own_folder(tmp_path):
    write_hub(tmp_path, "squad")
    write_official(tmp_path, "mrqa")
    assert len(load_suite("squad", tmp_path / "squad")) == 1
    assert len(load_suite("mrqa", tmp_path / "mrqa")) == 6
    with pytest.raises(WeftError, match="suite 'mrqa': no task has files"):
        load_suite("mrqa", tmp_path / "squad")  # squad/train.parquet is the suite squad's


def test_files_named_as_the_hub_names_them(tmp_path):
    write_hub(tmp_path, "superglue")
    for path in list(tmp_path.rglob("*.parquet")):
        path.rename(path.with_name(f"{path.stem}-00000-of-00001.parquet"))
    assert len(load_suite("superglue", tmp_path)) == 8


@pytest.fixture
def fake_hub(monkeypatch):
    """A `datasets` package that holds the rows, by the hub's ids."""
    monkeypatch.setattr("weft.data.readers.hub.hub_problem", lambda: None)
    asked = []

    class Data:
        def __init__(self, rows):
            self.rows = rows
            self.column_names = list(rows[0])

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, column):
            return [row[column] for row in self.rows]

    def load_dataset(name, config=None, *, split):
        known = {
            "nyu-mll/glue": ("glue", config),
            "aps/super_glue": ("superglue", config),
            "rajpurkar/squad": ("squad", "squad"),
            "mrqa-workshop/mrqa": ("mrqa", None),
        }
        if name not in known:
            raise FileNotFoundError(name)
        asked.append((name, config, split))
        suite, task = known[name]
        if suite != "mrqa":
            return Data(HUB[suite][task][split])
        rows = []
        for subset, row in [(s, r) for s in ("SQuAD", "NewsQA") for r in HUB["mrqa"]["newsqa"][split]]:
            answers = row["answers"]
            spans = [
                {"start": [s], "end": [s + len(t) - 1]}
                for t, s in zip(answers["text"], answers["answer_start"], strict=True)
                if s >= 0
            ]
            detected = {"text": answers["text"][:-1], "char_spans": spans}
            rows.append(
                {**row, "subset": subset, "detected_answers": detected, "answers": answers["text"][-1:]}
            )
        return Data(rows)

    monkeypatch.setitem(
        sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset, __spec__=object())
    )
    return asked


def test_from_the_hub(both, fake_hub):
    for suite, name, split in [
        ("glue", "mnli", "validation"),
        ("superglue", "record", "train"),
        ("superglue", "record", "test"),
        ("squad", "squad", "validation"),
        ("mrqa", "newsqa", "train"),
    ]:
        (task,) = load_suite(suite, "hub", [name])
        assert task == both[suite][0][name]
        found, expected = load_split(task, split), load_split(both[suite][0][name], split)
        assert (found.texts, found.labels) == (expected.texts, expected.labels)
    assert fake_hub[0] == ("nyu-mll/glue", "mnli", "validation_matched")
    assert all(isinstance(file, Source) for file in load_suite("glue")[0].files.values())


def test_no_root_and_no_datasets(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(WeftError, match=r"suite 'glue' needs 'root'.*pip install datasets"):
        load_suite("glue")
    with pytest.raises(WeftError, match="is not on the hub; set 'root'"):
        load_suite("cs224n", "hub")
