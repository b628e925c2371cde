"""Thresholds of labels: the best F1 by exact search, and where they are kept."""

import json

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import weft
from tests.support.every_kind import rows_of_kind
from tests.support.tiny import scramble
from tests.support.tiny_run import save_encoder, write_rows
from weft.bundle.one_task import hashes
from weft.cli.app import run
from weft.errors import RunFailed, WeftError
from weft.evaluation.thresholds import best_threshold, tune_model, tuned
from weft.metrics.labels import f1_of
from weft.tasks import Task

LABELS = ("cat", "dog", "bird")
TASK = Task("m", "multilabel", labels=LABELS)
CHANCES = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))


def f1_at(chances, gold, threshold):
    found = chances > threshold
    return f1_of(float((found & (gold == 1)).sum()), float(found.sum() + gold.sum()))


@given(st.lists(st.tuples(CHANCES, st.integers(0, 1)), min_size=1, max_size=30))
def test_no_threshold_is_better(pairs):
    chances, gold = np.array([p for p, _ in pairs]), np.array([y for _, y in pairs])
    threshold = best_threshold(chances, gold)
    assert 0 <= threshold <= 1
    best = f1_at(chances, gold, threshold)
    every = [0.0, 0.5, *chances, *(np.nextafter(chances, 0))]
    assert best >= max(f1_at(chances, gold, t) for t in every) - 1e-12


@settings(deadline=None)
@given(
    arrays.arrays(np.float32, (12, 3), elements=st.floats(-40, 40, width=32)),
    arrays.arrays(np.int64, (12, 3), elements=st.integers(0, 1)),
)
def test_tuned_f1_is_at_least_that_of_one_half_for_every_label(logits, gold):
    for label in tuned(TASK, list(logits), gold):
        assert label.f1 >= label.f1_at_half


@pytest.mark.parametrize(
    ("chances", "gold", "expected"),
    [
        ([0.9, 0.8, 0.1], [1, 1, 0], 0.5),  # one half is among the best
        ([0.4, 0.2, 0.1], [1, 1, 0], 0.15),  # halfway between two scores
        ([0.9, 0.7, 0.6], [1, 0, 0], 0.8),
        ([0.9, 0.7, 0.6], [0, 0, 0], 0.5),  # no row has the label
        ([0.3, 0.3, 0.3], [1, 1, 0], 0.15),  # every row is predicted
    ],
)
def test_by_hand(chances, gold, expected):
    assert best_threshold(np.array(chances), np.array(gold)) == pytest.approx(expected)


def test_predictions_follow_the_thresholds():
    from weft.tasks.kinds import KINDS

    kind, logits = KINDS["multilabel"](), np.array([0.1, -0.1, -2.0], np.float32)
    task = Task("m", "multilabel", labels=LABELS, thresholds=(0.9, 0.3, 0.5))
    assert kind.answer(logits, TASK, None)["labels"] == ["cat"]
    assert kind.answer(logits, task, None)["labels"] == ["dog"]
    assert (
        kind.answer(logits, task, None)["probabilities"] == kind.answer(logits, TASK, None)["probabilities"]
    )
    assert kind.decode([logits], task, ()).tolist() == [[0, 1, 0]]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"thresholds": (0.5,)},
            "thresholds: expected 3 numbers from 0 to 1, one for each of cat, dog, bird",
        ),
        ({"thresholds": (0.5, 0.5, 2)}, "thresholds: expected 3 numbers"),
        ({"tuned_on": "validation"}, "tuned_on: expected the split that its thresholds were tuned on"),
        ({"thresholds": (0.5,) * 3, "tuned_on": "dev"}, "tuned_on: expected the split"),
        ({"kind": "classify", "thresholds": (0.5,) * 3}, "thresholds belongs to multilabel"),
    ],
)
def test_wrong_settings(wrong, message):
    with pytest.raises(WeftError, match=message):
        Task("m", **{"kind": "multilabel", "labels": LABELS, **wrong})


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def folder(tmp_path, encoder, monkeypatch):
    """A bundle with a multi-label task and another one, and a run file that names their data."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    tasks = {}
    for name, kind in (("themes", "multilabel"), ("other", "classify")):
        files = {
            split: str(write_rows(tmp_path / f"{name}.{split}.jsonl", rows_of_kind(kind, 30, seed)))
            for seed, split in enumerate(("train", "validation", "test"))
        }
        labels = list(LABELS) if kind == "multilabel" else ["no", "yes"]
        tasks[name] = {"kind": kind, "labels": labels, **files}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump({"tasks": tasks}))
    built = [Task(name, task["kind"], labels=tuple(task["labels"])) for name, task in tasks.items()]
    scramble(weft.Model(encoder, built, {"use": "lora", "rank": 2}), 1).save(tmp_path / "bundle")
    return tmp_path


def evaluated(capsys, folder, *options):
    capsys.readouterr()
    arguments = ["evaluate", str(folder / "bundle"), "--tasks", str(folder / "run.yaml"), "--json"]
    assert run([*arguments, *options]) == 0
    told = capsys.readouterr()
    return json.loads(told.out), told.err


def test_thresholds_are_stored_in_the_tasks_file_alone(folder, capsys):
    before, bundle = evaluated(capsys, folder)[0], folder / "bundle"
    files = hashes(bundle)
    found, told = evaluated(capsys, folder, "--tune-thresholds")
    changed = {name for name, sha256 in hashes(bundle).items() if files[name] != sha256}
    assert changed == {"bundle.json", "tasks/themes.safetensors"}  # the first has the hash of the second
    assert found["tuned"] == ["themes"]
    assert "themes: the thresholds were tuned on validation, so these metrics are too good" in told
    assert found["tasks"]["other"] == before["tasks"]["other"]
    assert found["tasks"]["themes"]["macro_f1"] > before["tasks"]["themes"]["macro_f1"]
    labels = found["thresholds"]["themes"]
    assert found["tasks"]["themes"]["macro_f1"] == pytest.approx(np.mean([x["f1"] for x in labels]))
    # a loaded bundle uses them: the same metrics again, and other predictions
    again, told = evaluated(capsys, folder)
    assert again["tasks"] == found["tasks"]
    assert "tuned on validation" in told
    task = weft.load(bundle).tasks[0]
    assert task.thresholds == tuple(x["threshold"] for x in labels)
    assert task.tuned_on == "validation"
    # another split is not the one they were tuned on
    test, told = evaluated(capsys, folder, "--split", "test")
    assert "tuned" not in test
    assert "too good" not in told


def test_a_bundle_without_thresholds_does_not_mention_them(folder):
    assert b"threshold" not in (folder / "bundle" / "tasks" / "themes.safetensors").read_bytes()
    assert b"tuned" not in (folder / "bundle" / "tasks" / "themes.safetensors").read_bytes()


def test_copies_keep_them_and_training_drops_them(folder, capsys, encoder):
    evaluated(capsys, folder, "--tune-thresholds")
    bundle = folder / "bundle"
    expected = weft.load(bundle).tasks[0].thresholds
    weft.copy_task(bundle, "themes", bundle, rename="copied", out=folder / "two")
    model = weft.load(folder / "two")
    assert [task.thresholds for task in model.tasks] == [expected, (), expected]
    model.save(folder / "three")
    assert weft.load(folder / "three").tasks[0].thresholds == expected
    rows = {split: rows_of_kind("multilabel", 20) for split in ("train", "validation")}
    model = weft.load(bundle)
    object.__setattr__(model.tasks[0], "files", rows)
    weft.train(model, weft.Training(steps=1, max_length=24), folder / "run", tasks=["themes"], progress=False)
    assert weft.load(folder / "run").tasks[0].thresholds == ()


def test_tuning_needs_validation_and_a_task_with_thresholds(folder, capsys):
    arguments = ["evaluate", str(folder / "bundle"), "--tasks", str(folder / "run.yaml"), "--tune-thresholds"]
    assert run([*arguments, "--split", "test"]) == 2
    assert "thresholds are tuned on validation; found split 'test'" in capsys.readouterr().err
    weft.remove_task(folder / "bundle", "themes", folder / "bundle")
    assert run(arguments) == 2
    assert "only the kind multilabel has; found other: classify" in capsys.readouterr().err


def test_thresholds_of_weights_that_others_have_replaced_are_not_stored(folder, monkeypatch):
    bundle = folder / "bundle"
    model = weft.load(bundle)

    def tune(*arguments):
        scramble(model, 5).save(bundle)
        return tune_model(*arguments)

    monkeypatch.setattr("weft.evaluation.thresholds.tune_model", tune)
    with pytest.raises(
        RunFailed, match=r"was changed while it was evaluated \(themes\); the fitted thresholds"
    ):
        weft.evaluate(bundle, folder / "run.yaml", tune_thresholds=True, progress=False)
    assert weft.load(bundle).tasks[0].thresholds == ()
