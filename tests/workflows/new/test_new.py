"""From files to a run file that passes the check, and to a trained model."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.support.own_files import SIX
from tests.support.paths import real_data
from tests.support.tiny_run import save_encoder
from weft.cli import run
from weft.config import load_run
from weft.data.checks.check import check
from weft.data.drafting import sample
from weft.errors import WeftError
from weft.workflows.new.new import new_run_file, path_from


@pytest.mark.parametrize("name", SIX)
def test_a_draft_passes_the_check_without_an_edit(tmp_path, name):
    drafted = new_run_file([SIX[name](tmp_path)], tmp_path / "run.yaml")
    report = check(load_run(drafted.path).tasks)
    assert report.ok, report.lines()
    assert all(finding.severity != "warning" for finding in report.findings), report.lines()


def test_all_six_files_in_one_run(tmp_path, capsys):
    """`weft new`, `weft check`, `weft train`, `weft evaluate` and `weft predict`, without an edit."""
    encoder = save_encoder(tmp_path / "encoder")
    files = [str(write(tmp_path)) for write in SIX.values()]
    run_file = str(tmp_path / "run.yaml")
    assert run(["new", *files, "--encoder", str(encoder), "--out", run_file]) == 0
    assert run(["check", run_file, "--no-estimate"]) == 0
    out = str(tmp_path / "out")
    few = ["train.steps=6", "train.evaluate_every=0", "train.batch_size=4"]
    assert run(["train", run_file, *few, "--out", out, "--device", "cpu"]) == 0
    capsys.readouterr()
    assert run(["evaluate", out, "--rows", "10", "--json", "--device", "cpu"]) == 0
    scores = json.loads(capsys.readouterr().out)["tasks"]
    assert set(scores) == {"Umfrage_2024", "tickets", "comments", "names", "questions", "avis"}
    requests = tmp_path / "in.jsonl"
    requests.write_text('{"task": "tickets", "text": "the cat sees"}\n{"task": "names", "text": "a dog"}\n')
    assert run(["predict", out, str(requests), "--device", "cpu"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["label"] in ("normal", "urgent")
    assert len(second["tags"]) == 2


def test_it_is_deterministic_and_imports_no_torch(tmp_path):
    import subprocess
    import sys

    file = SIX["latin_1"](tmp_path)
    script = (
        "import sys; from weft.workflows.new.new import new_run_file; "
        f"new_run_file([{str(file)!r}], {str(tmp_path / 'a.yaml')!r}); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    (tmp_path / "b").mkdir()
    again = new_run_file([file], tmp_path / "b.yaml").text
    assert (tmp_path / "a.yaml").read_text().replace("a.yaml", "b.yaml") == again


def test_a_large_file_is_not_read_whole(tmp_path, monkeypatch):
    """Labels are left to the run, which finds those of the whole file."""
    monkeypatch.setattr(sample, "WHOLE", 500)
    monkeypatch.setattr(sample, "RECORDS", 50)
    file = tmp_path / "large.csv"
    lines = [f"a text of number {n},{'abc'[n % 2 + (n > 100)]}\n" for n in range(300)]
    file.write_text("".join(["text,label\n", *lines]))
    reads = []
    monkeypatch.setattr(sample, "read_rows", lambda *_: reads.append(1))
    drafted = new_run_file([file], tmp_path / "run.yaml")
    assert not reads
    assert "in the first 50 rows" in drafted.text
    assert "labels" not in drafted.tasks[0].settings
    (task,) = load_run(drafted.path).tasks
    assert task.labels == ("a", "b", "c")


def test_an_existing_file_is_kept(tmp_path):
    file, target = SIX["latin_1"](tmp_path), tmp_path / "run.yaml"
    target.write_text("mine")
    with pytest.raises(WeftError, match=r"run\.yaml exists; to overwrite it add --force"):
        new_run_file([file], target)
    assert target.read_text() == "mine"
    new_run_file([file], target, force=True)
    assert yaml.safe_load(target.read_text())["encoder"] == "minilm"


@pytest.mark.parametrize(
    ("options", "message"),
    [({"encoder": "random:bert-gigantic"}, "encoder"), ({"method": "loar"}, "did you mean 'lora'")],
)
def test_a_mistake_writes_nothing(tmp_path, options, message):
    with pytest.raises(WeftError, match=message):
        new_run_file([SIX["latin_1"](tmp_path)], tmp_path / "run.yaml", **options)
    assert not (tmp_path / "run.yaml").exists()


def test_no_files():
    with pytest.raises(WeftError, match="no data files"):
        new_run_file([])


def test_paths_are_relative_to_the_run_file(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "runs").mkdir()
    file = SIX["conll"](tmp_path / "data")
    drafted = new_run_file([file], tmp_path / "runs" / "run.yaml")
    assert drafted.tasks[0].settings["train"] == "../data/names.conll"
    assert load_run(drafted.path).tasks[0].files["train"] == file.resolve()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "runs" / "deep")
    (tmp_path / "runs" / "deep").mkdir()
    assert new_run_file([file], link / "run.yaml").tasks[0].settings["train"] == "../../data/names.conll"
    assert load_run(link / "run.yaml").tasks[0].files["train"] == file.resolve()
    assert path_from(tmp_path, tmp_path / "x.csv") == "x.csv"


@pytest.mark.parametrize(
    ("data", "kind", "texts", "label"),
    [
        ("glue/cola", "classify", ["sentence"], "label"),
        ("glue/stsb", "regress", ["sentence1", "sentence2"], "label"),
        ("cs224n/quora", "classify", ["sentence1", "sentence2"], "is_duplicate"),
        ("superglue/copa", "choose", ["premise"], "label"),
        ("wnut17", "tag", ["tokens"], "ner_tags"),
        ("scitail", "classify", ["premise", "hypothesis"], "label"),
    ],
)
def test_real_data(tmp_path, data, kind, texts, label):
    drafted = new_run_file([real_data(*data.split("/"))], tmp_path / "run.yaml")
    (draft,) = drafted.tasks
    assert (draft.settings["kind"], draft.settings["texts"], draft.settings["label"]) == (kind, texts, label)
    report = check(load_run(drafted.path).tasks)
    assert report.ok, report.lines()
