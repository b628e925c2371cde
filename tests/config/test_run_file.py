from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.more import some_of
from tests.support.tiny_run import write_run
from weft.config import load_run, preset_names
from weft.errors import WeftError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("config")
    write_run(path)
    return path


def test_a_run_file_is_read_whole(folder):
    run = load_run(folder / "run.yaml")
    assert [t.name for t in run.tasks] == ["cat", "same", "count"]
    assert run.method.rank == 2
    assert run.training.steps == 20
    assert Path(run.encoder) == folder / "encoder"  # from the run file's folder
    assert run.tasks[0].files["train"] == folder / "cat.train.jsonl"


def test_what_is_resolved_reads_back_as_the_same_run(folder, tmp_path):
    run = load_run(folder / "run.yaml", ["train.sampler=uniform"])
    (tmp_path / "resolved.yaml").write_text(yaml.safe_dump(run.resolved))
    again = load_run(tmp_path / "resolved.yaml")
    assert again.resolved == run.resolved
    assert (again.method, again.tasks, again.training) == (run.method, run.tasks, run.training)
    assert run.resolved["train"]["sampler"] == {"use": "uniform"}


def test_overrides_of_a_list_go_to_its_suites(tmp_path):
    (tmp_path / "run.yaml").write_text(
        "encoder: minilm\ntasks:\n- {suite: swatch, only: [sentiment]}\n- {suite: swatch, only: [question]}\n"
    )
    run = load_run(tmp_path / "run.yaml", ["tasks.fraction=0.5"])
    assert [task.fraction for task in run.tasks] == [0.5, 0.5]
    (tmp_path / "own.yaml").write_text("encoder: minilm\ntasks:\n- {name: a, size: 2, train: a.csv}\n")
    with pytest.raises(WeftError, match=r"is a list without a suite, so 'tasks.root' cannot be set in it"):
        load_run(tmp_path / "own.yaml", ["tasks.root=data"])


def test_one_column_may_be_a_string_and_missing_labels_are_null(tmp_path):
    (tmp_path / "run.yaml").write_text(
        "encoder: minilm\ntasks:\n  a: {texts: body, labels: [x, y], drop: [null, -1], train: a.csv}\n"
    )
    run = load_run(tmp_path / "run.yaml")
    assert run.tasks[0].texts == ("body",)
    assert run.tasks[0].drop == (None, "-1")
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(run.resolved))
    assert load_run(tmp_path / "again.yaml").tasks == run.tasks


def test_overrides(folder):
    run = load_run(
        folder / "run.yaml", ["train.steps=7", "method=bitfit", "method.biases=dense", "train.clip=null"]
    )
    assert (run.training.steps, run.method.name, run.method.biases) == (7, "bitfit", "dense")
    assert run.training.clip is None
    assert load_run(folder / "run.yaml", ["tasks.cat.metrics=[matthews]"]).tasks[0].metrics == ("matthews",)


def test_a_preset_by_name_and_a_file_on_top_of_one(tmp_path):
    assert "quickstart" in preset_names()
    run = load_run("quickstart")
    assert len(run.tasks) == 6
    (tmp_path / "mine.yaml").write_text("preset: quickstart\nmethod: lora\ntrain: {steps: 9}\n")
    mine = load_run(tmp_path / "mine.yaml")
    assert (mine.method.name, mine.training.steps) == ("lora", 9)
    assert mine.training.batch_size == run.training.batch_size


def test_the_methods_learning_rate_is_filled_in(folder):
    text = yaml.safe_load((folder / "run.yaml").read_text())
    del text["train"]["lr"]
    (folder / "no_lr.yaml").write_text(yaml.safe_dump(text))
    assert load_run(folder / "no_lr.yaml").resolved["train"]["lr"] == 1e-3
    assert load_run(folder / "no_lr.yaml", ["method=full"]).resolved["train"]["lr"] == 1e-4


WRONG = {
    "section": ("encodr: minilm", r"line 1, encodr: no such section; did you mean 'encoder'"),
    "no encoder": ("tasks: {suite: swatch}", "encoder: expected a hub id, a folder, minilm.*found nothing"),
    "encoder type": ("encoder: 3\ntasks: {suite: swatch}", "line 1, encoder: expected .*found 3"),
    "architecture": ("encoder: random:bert-bse\ntasks: {suite: swatch}", "did you mean 'bert-base'"),
    "folder": ("encoder: ./nowhere\ntasks: {suite: swatch}", "'./nowhere': there is no such folder"),
    "no tasks": ("encoder: minilm", "tasks: expected .*found nothing"),
    "empty tasks": ("encoder: minilm\ntasks: []", "tasks: no tasks"),
    "task type": (
        "encoder: minilm\ntasks: {a: 3}",
        "line 2, tasks.a: expected the settings of a task.*found 3",
    ),
    "task given twice": (
        "encoder: minilm\ntasks:\n  a: {train: x}\n  a: {train: y}",
        "line 3, tasks.a: the key is set twice; again on line 4",
    ),
    "section given twice": (
        "train: {steps: 2}\ntrain: {steps: 3}",
        "train: the key is set twice; again on line 2",
    ),
    "yes and no": (
        "encoder: minilm\ntasks: {a: {labels: [no, yes], train: x.csv}}",
        "tasks.a.labels: YAML reads no and yes as false and true; put them in quotes",
    ),
    "texts": (
        "encoder: minilm\ntasks: {a: {texts: 5, labels: [x, y], train: x}}",
        "tasks.a.texts: expected .*found 5",
    ),
    "size": ("encoder: minilm\ntasks: {a: {size: two, train: x}}", "tasks.a.size: expected .*found 'two'"),
    "only": ("encoder: minilm\ntasks: {suite: swatch, only: 5}", "tasks.only: expected .*found 5"),
    "name in a list": ("encoder: minilm\ntasks: [{name: 5, train: x}]", "tasks.0.name: expected .*found 5"),
    "preset type": ("preset: 5", "preset: 5 does not exist"),
    "anchor in itself": ("heads: &a {pool: *a}", "a YAML anchor .* contains an alias"),
    "encoder file": ("encoder: run.yaml\ntasks: {suite: swatch}", "'run.yaml' is a file"),
    "task key": (
        "encoder: minilm\ntasks:\n  a: {text: x}",
        r"line 3, tasks.a.text: no such setting; did you mean 'texts'",
    ),
    "task data": ("encoder: minilm\ntasks: {a: {labels: [x, y]}}", "task 'a' has no data"),
    "task labels": (
        "encoder: minilm\ntasks: {a: {train: x.csv}}",
        "labels: none are named, and the training split cannot be read: .*x.csv: there is no such file",
    ),
    "labels without train": (
        "encoder: minilm\ntasks: {a: {validation: x.csv}}",
        "classify needs two labels or more",
    ),
    "task kind": ("encoder: minilm\ntasks: {a: {kind: tagg, train: x.csv}}", "kind 'tagg' does not exist"),
    "task metric": (
        "encoder: minilm\ntasks: {a: {labels: [x, y, z], metrics: [f1], train: x.csv}}",
        "metric 'f1' does not fit classify-3",
    ),
    "task name": (
        "encoder: minilm\ntasks: {a b: {labels: [x, y], train: x.csv}}",
        "task name 'a b' cannot be used",
    ),
    "task in list": ("encoder: minilm\ntasks: [{labels: [x, y], train: x.csv}]", "needs the key 'name'"),
    "three texts": (
        "encoder: minilm\ntasks: {a: {labels: [x, y], texts: [a, b, c], train: x}}",
        "one text column or two",
    ),
    "suite": ("encoder: minilm\ntasks: {suite: gleu}", "suite 'gleu' does not exist; did you mean 'glue'"),
    "suite root": ("encoder: minilm\ntasks: {suite: glue}", "suite 'glue' needs 'root'"),
    "suite folder": ("encoder: minilm\ntasks: {suite: glue, root: ./nowhere}", "is not a folder"),
    "suite task": ("encoder: minilm\ntasks: {suite: swatch, only: [sentimnt]}", "did you mean 'sentiment'"),
    "suite key": ("encoder: minilm\ntasks: {suite: swatch, onyl: [sentiment]}", "did you mean 'only'"),
    "two of a name": (
        "encoder: minilm\ntasks: [{suite: swatch, only: [question]}, {suite: swatch, only: [question]}]",
        "two tasks are named 'question'",
    ),
    "method": ("encoder: minilm\nmethod: lorra\ntasks: {suite: swatch}", "did you mean 'lora'"),
    "method key": (
        "encoder: minilm\nmethod:\n  use: lora\n  rnk: 3\ntasks: {suite: swatch}",
        r"line 4, method.rnk: no such setting",
    ),
    "train key": (
        "encoder: minilm\ntasks: {suite: swatch}\ntrain:\n  stpes: 3",
        r"line 4, train.stpes: no such setting; did you mean 'steps'",
    ),
    "train value": (
        "encoder: minilm\ntasks: {suite: swatch}\ntrain: {steps: -4}",
        r"train.steps: expected greater than or equal to 0; found -4",
    ),
    "train type": ("encoder: minilm\ntasks: {suite: swatch}\ntrain: fast", "train: expected settings"),
    "sampler": (
        "encoder: minilm\ntasks: {suite: swatch}\ntrain: {sampler: anealed}",
        "sampler 'anealed' does not exist",
    ),
    "best": (
        "encoder: minilm\ntasks: {suite: swatch}\ntrain: {best: sentimnt}",
        "train.best: 'sentimnt'; did you mean 'sentiment'",
    ),
    "a section within": (
        "encoder: minilm\ntasks: {suite: swatch}\ntrain: {stop: {patience: 0}, steps: -1}",
        r"has 2 mistakes:(.|\n)*train.stop: patience: expected greater than 0; found 0",
    ),
    "no section": (
        "encoder: minilm\ntasks: {suite: swatch}\ntrain: {lr_of: 3}",
        r"train.lr_of: expected settings \(encoder, shared, task, gates, tasks\); found 3",
    ),
    "no policy": (
        "encoder: minilm\ntasks: {suite: swatch}\ntrain: {sampler: {use: counterfactual, policy: p.yaml}}",
        r"has 1 mistake:(.|\n)*train.sampler: policy: there is no file (.|\n)*weft policy RUN --out",
    ),
    "weight": (
        "encoder: minilm\ntasks: {suite: swatch}\ntrain: {task_weights: {question: 0}}",
        r"has 1 mistake:(.|\n)*train.task_weights: expected a number above 0 for 'question'; found 0",
    ),
    "conflict": (
        "encoder: minilm\ntasks: {suite: swatch}\ntrain: {mixed: true, conflict: pcgard}",
        "train.conflict: conflict 'pcgard' does not exist; did you mean 'pcgrad'",
    ),
    "stop": (
        "encoder: minilm\ntasks: {suite: swatch}\ntrain: {stop: {patience: 2}}",
        "train.stop: early stopping needs evaluations: set train.evaluate_every",
    ),
    "precision": (
        "encoder: minilm\ntasks: {suite: swatch}\ntrain: {precision: half}",
        "train.precision: expected 'auto', 'float32' or 'bf16'",
    ),
    "preset": ("preset: quikstart", "preset: 'quikstart' does not exist; did you mean 'quickstart'"),
    "not yaml": ("encoder: [minilm", r"line \d+, column \d+: this is not YAML"),
    "no mapping": ("- minilm", "expected sections"),
}


@pytest.mark.parametrize("case", some_of(WRONG, 16))
def test_wrong_run_files_are_answered(case, tmp_path, capsys):
    text, message = WRONG[case]
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(WeftError, match=message):
        load_run(path)
    from weft.cli import run

    # and the command line says the same, in few words, with exit 2
    for command in (["train", str(path), "--out", str(tmp_path / "out")], ["check", str(path)]):
        assert run(command) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert "Traceback" not in said.err
        assert str(path) in said.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("steps", "steps: expected key=value"),
        ("train.steps.x=3", "train.steps.x: train.steps holds 20, so 'train.steps.x' cannot be set in it"),
        ("train.stepz=3", "train.stepz: no such setting; did you mean 'steps'"),
        ("train.steps=[", "the value '\\[' cannot be read as YAML"),
    ],
)
def test_wrong_overrides(folder, override, message):
    with pytest.raises(WeftError, match=message):
        load_run(folder / "run.yaml", [override])


def test_a_mistake_in_an_override_is_blamed_on_the_command_line(folder):
    """Not on a line of the file, even where the file has the section, or the key with a right value."""
    for override, place in (
        ("train.step=3", r"command line, train\.step: no such setting"),
        ("train.steps=abc", r"command line, train\.steps"),
        ("method=lorra", "command line, method"),
    ):
        with pytest.raises(WeftError, match=place) as wrong:
            load_run(folder / "run.yaml", [override])
        assert "line 1" not in str(wrong.value)
    # a mistake of the file beside it keeps its line
    content = yaml.safe_load((folder / "run.yaml").read_text())
    content["train"]["stepz"] = 3
    (folder / "two.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(WeftError, match=r"line \d+, train\.stepz") as wrong:
        load_run(folder / "two.yaml", ["train.sampler=unifrom"])
    assert "command line, train.sampler" in str(wrong.value)


def test_null_means_the_default(folder, tmp_path):
    said = yaml.safe_load((folder / "run.yaml").read_text())
    said["tasks"]["cat"]["metrics"] = None
    (folder / "nulls.yaml").write_text(yaml.safe_dump({**said, "train": None, "heads": None}))
    run = load_run(folder / "nulls.yaml", ["train.steps=5"])
    assert run.training.steps == 5
    assert run.tasks[0].metrics == ("accuracy",)


def test_another_method_brings_its_own_settings(folder):
    assert load_run(folder / "run.yaml", ["method.use=full"]).method.name == "full"
    with pytest.raises(WeftError, match="preset: 'nonsense' does not exist"):
        load_run(folder / "run.yaml", ["preset=nonsense"])


def test_all_mistakes_at_once(tmp_path):
    path = tmp_path / "run.yaml"
    text = "encodr: x\nencoder: random:no\nmethod: {use: lora, rank: x}\n"
    path.write_text(text + "tasks: {suite: no}\ntrain: {steps: -1, lr: -1}\n")
    with pytest.raises(WeftError, match="has 6 mistakes"):
        load_run(path)


def test_bytes_that_are_not_text(tmp_path):
    (tmp_path / "run.yaml").write_bytes(b"encoder: \xff\xfe")
    with pytest.raises(WeftError, match="byte 9 is not UTF-8"):
        load_run(tmp_path / "run.yaml")
    with pytest.raises(WeftError, match=r"there is no run file 'nothing.yaml'"):
        load_run("nothing.yaml")
