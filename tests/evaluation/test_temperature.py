"""Temperatures: the fit, what they change and what they leave alone, and where they are kept."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.torch import load_file

import weft
from tests.support.every_kind import SETTINGS, rows_of_kind
from tests.support.tiny import scramble
from tests.support.tiny_run import assert_refused, save_encoder, write_rows
from weft.bundle.one_task import hashes
from weft.cli.app import run
from weft.errors import RunFailed, WeftError
from weft.evaluation.temperature import (
    HIGHEST,
    LOWEST,
    best_temperature,
    calibrate_model,
    scaled_threshold,
    with_temperature,
)
from weft.interop import export_peft, load_peft
from weft.tasks import Task
from weft.tasks.kinds import KINDS
from weft.tasks.kinds.decisions import Decisions

LABELS = ("cat", "dog", "bird")
LOGITS = arrays.arrays(np.float32, (12, 3), elements=st.floats(-30, 30, width=32))
GOLD = arrays.arrays(np.int64, (12,), elements=st.integers(0, 2))
FLAGS = arrays.arrays(np.int64, (12, 3), elements=st.integers(0, 1))
TEMPERATURES = st.floats(LOWEST, HIGHEST)


@settings(deadline=None)
@given(LOGITS, GOLD)
def test_the_likelihood_is_never_worse_on_the_rows_of_the_fit(logits, gold):
    decisions = Decisions.of_classes(logits, gold)
    best = best_temperature(decisions)
    assert LOWEST <= best <= HIGHEST
    found = decisions.negative_log_likelihood(best)
    assert found <= decisions.negative_log_likelihood()
    others = [decisions.negative_log_likelihood(t) for t in (0.1, 0.3, 0.9, 1.1, 3, 10)]
    assert found <= min(others) + 1e-6  # convex in 1/T


@settings(deadline=None)
@given(arrays.arrays(np.float32, (12, 3), elements=st.floats(-30, 30, width=32)), FLAGS)
def test_labels_of_a_set_have_one_temperature_too(logits, gold):
    decisions = Decisions.of_flags(logits, gold, logits > 0)
    best = best_temperature(decisions)
    assert decisions.negative_log_likelihood(best) <= decisions.negative_log_likelihood()


@pytest.mark.parametrize("factor", [0.25, 1.0, 4.0])
def test_a_known_temperature_is_found(factor):
    """Labels drawn from softmax(logits); the model's logits are larger by a factor."""
    draw = np.random.default_rng(1)
    logits = draw.normal(size=(4000, 3)) * 2
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    gold = (chances.cumsum(1) > draw.random((4000, 1))).argmax(1)
    assert best_temperature(Decisions.of_classes(factor * logits, gold)) == pytest.approx(factor, rel=0.08)


def test_no_decisions_have_no_temperature():
    assert best_temperature(Decisions.of_classes(np.zeros((0, 2)), [])) == 1


@given(LOGITS, TEMPERATURES)
def test_no_label_changes(logits, temperature):
    kind, plain = KINDS["classify"](), Task("c", labels=LABELS)
    task = with_temperature(plain, temperature, "validation")
    before, after = (kind.answers(list(logits), t, [None] * len(logits)) for t in (plain, task))
    assert [a["label"] for a in before] == [a["label"] for a in after]
    assert (kind.decode(list(logits), plain, ()) == kind.decode(list(logits), task, ())).all()
    for answer, x in zip(after, logits, strict=True):
        assert sum(answer["probabilities"].values()) == pytest.approx(1)
        # the most likely label is the answer, up to ties
        assert answer["probabilities"][answer["label"]] == max(answer["probabilities"].values())
        assert answer == kind.answer(x, task, None)
    numbered = Task("c", "choose", choices=("a",))
    for x in logits:
        one, two = (
            KINDS["choose"]().answer(x, t, _Example()) for t in (numbered, replace(numbered, temperature=2.0))
        )
        assert one["choice"] == two["choice"]


class _Example:
    texts = ("question", "a", "b", "c")


@given(LOGITS, TEMPERATURES, TEMPERATURES, st.tuples(*[st.floats(0.01, 0.99)] * 3))
def test_thresholds_follow_and_no_label_of_a_set_changes(logits, first, second, thresholds):
    kind = KINDS["multilabel"]()
    plain = Task("m", "multilabel", labels=LABELS, thresholds=thresholds)
    once = with_temperature(plain, first, "validation")
    twice = with_temperature(once, second, "validation")
    back = with_temperature(twice, None, None)
    if min(first, second) > 0.3:  # else thresholds become so near to 0 or 1 that digits are lost
        assert back.thresholds == pytest.approx(thresholds, rel=1e-6)
    at = np.log(thresholds) - np.log1p(-np.array(thresholds))
    clear = np.abs(logits - at) > 1e-3 * (1 + np.abs(at))  # elsewhere rounding decides
    # probabilities near 0 and 1 are rounded too
    clear &= np.abs(logits / min(first, second)) < 30
    clear &= np.abs(at / min(first, second)) < 30
    for task in (once, twice):
        assert ((kind.decode(list(logits), plain, ()) == kind.decode(list(logits), task, ())) | ~clear).all()


@given(st.floats(0, 1), st.floats(0.01, 100))
def test_scaled_thresholds_are_probabilities(threshold, factor):
    assert 0 <= scaled_threshold(threshold, factor) <= 1
    assert scaled_threshold(0.5, factor) == 0.5
    assert scaled_threshold(threshold, 1.0) == threshold


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": 0.0}, "temperature: expected a number from 0.001 to 1000"),
        ({"temperature": float("nan")}, "temperature: expected a number"),
        ({"temperature": "2"}, "temperature: expected a number"),
        ({"temperature": True}, "temperature: expected a number"),
        (
            {"calibrated_on": "validation"},
            "calibrated_on: expected the split that its temperature was fitted",
        ),
        ({"temperature": 2, "calibrated_on": "dev"}, "calibrated_on: expected the split"),
        (
            {"kind": "regress", "labels": (), "temperature": 2},
            "temperature belongs to choose, classify, marked",
        ),
    ],
)
def test_wrong_settings(wrong, message):
    with pytest.raises(WeftError, match=message):
        Task("m", **{"labels": LABELS, **wrong})


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder"))


KINDS_OF_TASKS = ("classify", "multilabel", "marked", "choose", "regress", "tag")


@pytest.fixture
def folder(tmp_path, encoder, monkeypatch):
    """A bundle of tasks with and without probabilities, and a run file that names their data."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    tasks, built = {}, []
    for name in KINDS_OF_TASKS:
        files = {
            split: str(write_rows(tmp_path / f"{name}.{split}.jsonl", rows_of_kind(name, 30, seed)))
            for seed, split in enumerate(("train", "validation", "test"))
        }
        settings_of_task = {**SETTINGS[name]}
        for key in ("layers", "pool", "class_weights"):
            settings_of_task.pop(key, None)
        tasks[name] = json.loads(json.dumps(settings_of_task)) | files
        built.append(Task(name, **settings_of_task))
    (tmp_path / "run.yaml").write_text(yaml.safe_dump({"tasks": tasks}))
    scramble(weft.Model(encoder, built, {"use": "lora", "rank": 2}, pool="mean"), 1).save(tmp_path / "bundle")
    return tmp_path


def evaluated(capsys, folder, *options, bundle="bundle"):
    capsys.readouterr()
    arguments = ["evaluate", str(folder / bundle), "--tasks", str(folder / "run.yaml"), "--json"]
    assert run([*arguments, *options]) == 0
    printed = capsys.readouterr()
    return json.loads(printed.out), printed.err


CALIBRATED = ("classify", "multilabel", "marked", "choose")
TEXT = "the cat likes a bird"


def test_temperatures_are_stored_in_the_files_of_their_tasks_alone(folder, capsys):
    bundle = folder / "bundle"
    before, files = evaluated(capsys, folder)[0], hashes(bundle)
    plain = weft.load(bundle).predict("classify", TEXT)
    found, notes = evaluated(capsys, folder, "--calibrate", "--report")
    changed = {name for name, sha256 in hashes(bundle).items() if files[name] != sha256}
    assert changed == {"bundle.json", *(f"tasks/{name}.safetensors" for name in CALIBRATED)}
    assert set(found["temperatures"]) == set(CALIBRATED)
    assert found["tasks"] == before["tasks"]  # no answer changes
    assert "classify: fitted on 30 decisions: its temperature is uncertain" in notes
    model = weft.load(bundle)
    for name in CALIBRATED:
        task, fit = model.tasks[model.task_id(name)], found["temperatures"][name]
        assert (task.temperature, task.calibrated_on) == (fit["temperature"], "validation")
        assert fit["nll"] < fit["nll_at_one"]  # random weights are badly calibrated
        facts = found["errors"]["tasks"][name]["calibration"]
        assert (facts["nll"], facts["ece"]) == pytest.approx((fit["nll"], fit["ece"]))
        assert (facts["temperature"], facts["fitted_on"]) == (fit["temperature"], "validation")
    # predict, for one task and for all, has the probabilities of the temperature
    logits = np.log(list(plain["probabilities"].values()))
    scaled = np.exp(logits / found["temperatures"]["classify"]["temperature"])
    calibrated = model.predict("classify", TEXT)
    assert list(calibrated["probabilities"].values()) == pytest.approx(
        (scaled / scaled.sum()).tolist(), rel=1e-4
    )
    assert calibrated["label"] == plain["label"]
    every = model.predict_all([TEXT], tasks=["classify"])[0]["classify"]
    assert every["probabilities"] == pytest.approx(calibrated["probabilities"], rel=1e-4)
    # the same again: the fit starts from raw logits
    again, _ = evaluated(capsys, folder, "--calibrate")
    assert again["temperatures"] == found["temperatures"]


def test_a_bundle_without_a_temperature_does_not_mention_it(folder):
    for name in KINDS_OF_TASKS:
        content = (folder / "bundle" / "tasks" / f"{name}.safetensors").read_bytes()
        assert b"temperature" not in content
        assert b"calibrated" not in content


def test_both_are_stored_at_once_and_thresholds_are_calibrated_probabilities(folder, capsys):
    found, _ = evaluated(capsys, folder, "--calibrate", "--tune-thresholds")
    model = weft.load(folder / "bundle")
    task = model.tasks[model.task_id("multilabel")]
    assert task.temperature == found["temperatures"]["multilabel"]["temperature"]
    assert list(task.thresholds) == [x["threshold"] for x in found["thresholds"]["multilabel"]]
    for answer in model.predict("multilabel", [row["text"] for row in rows_of_kind("multilabel", 20, 7)]):
        above = [
            n for n, t in zip(task.labels, task.thresholds, strict=True) if answer["probabilities"][n] > t
        ]
        assert answer["labels"] == above


def test_tuned_thresholds_keep_their_meaning_when_a_temperature_follows(folder, capsys):
    tuned, _ = evaluated(capsys, folder, "--tune-thresholds")
    calibrated, _ = evaluated(capsys, folder, "--calibrate")
    assert calibrated["tasks"] == tuned["tasks"]


def test_copies_keep_them_and_training_drops_them(folder, capsys):
    evaluated(capsys, folder, "--calibrate")
    bundle = folder / "bundle"
    expected = weft.load(bundle).tasks[0].temperature
    weft.copy_task(bundle, "classify", bundle, rename="copied", out=folder / "two")
    model = weft.load(folder / "two")
    assert model.tasks[-1].temperature == expected
    model.save(folder / "three")
    assert weft.load(folder / "three").tasks[-1].temperature == expected
    rows = {split: rows_of_kind("multilabel", 20) for split in ("train", "validation")}
    model = weft.load(bundle)
    set_by_hand = (0.2, 0.3, 0.4)
    number = model.task_id("multilabel")
    plain = replace(model.tasks[number], temperature=None, calibrated_on=None, thresholds=set_by_hand)
    task = with_temperature(plain, 3.0, "validation")
    object.__setattr__(task, "files", rows)
    model.tasks = (*model.tasks[:number], task, *model.tasks[number + 1 :])
    training = weft.Training(steps=1, max_length=24)
    weft.train(model, training, folder / "run", tasks=["multilabel"], progress=False)
    trained = weft.load(folder / "run")
    assert trained.tasks[number].temperature is None
    assert trained.tasks[number].thresholds == pytest.approx(set_by_hand)
    assert trained.tasks[0].temperature == expected  # it was not trained


@pytest.mark.parametrize("head", ["auto", "file"])
def test_peft_gets_a_head_with_the_same_probabilities(folder, capsys, head):
    model = weft.load(folder / "bundle")
    plain = export_peft(model, "classify", folder / "plain", head)
    evaluated(capsys, folder, "--calibrate")
    model = weft.load(folder / "bundle")
    temperature = model.tasks[model.task_id("classify")].temperature
    exported = export_peft(model, "classify", folder / "exported", head)
    old, new = (load_file(out / "head.safetensors") for out in (plain, exported))
    for name in ("weight", "bias"):
        torch.testing.assert_close(new[name] * temperature, old[name])
    assert "temperature" not in json.loads((exported / "weft.json").read_text())["task"]
    assert f"divided by the task's temperature, {temperature:.6g}" in (exported / "README.md").read_text()
    assert "temperature" not in (plain / "README.md").read_text()
    again = load_peft(exported).predict("classify", TEXT)
    assert again["probabilities"] == pytest.approx(model.predict("classify", TEXT)["probabilities"], rel=1e-4)


def test_fitting_needs_validation_and_probabilities(folder, capsys):
    arguments = ["evaluate", str(folder / "bundle"), "--tasks", str(folder / "run.yaml"), "--calibrate"]
    code = run([*arguments, "--split", "test"])
    assert_refused(code, capsys.readouterr(), ["temperatures are fitted on validation; found split 'test'"])
    for name in CALIBRATED:
        weft.remove_task(folder / "bundle", name, folder / "bundle")
    code = run(arguments)
    expected = "the kinds choose, classify, marked, multilabel do; found regress: regress, tag: tag"
    assert_refused(code, capsys.readouterr(), [expected])


def test_temperatures_of_weights_that_others_have_replaced_are_not_stored(folder, monkeypatch):
    bundle = folder / "bundle"
    model = weft.load(bundle)

    def calibrate(*arguments):
        scramble(model, 5).save(bundle)
        return calibrate_model(*arguments)

    monkeypatch.setattr("weft.evaluation.temperature.calibrate_model", calibrate)
    with pytest.raises(
        RunFailed, match=r"was changed while it was evaluated .*; the fitted temperatures belong"
    ):
        weft.evaluate(bundle, folder / "run.yaml", calibrate=True, progress=False)
    assert weft.load(bundle).tasks[0].temperature is None


def test_a_model_in_memory_is_calibrated_itself(folder):
    model = weft.load(folder / "bundle")
    result = model.evaluate(str(folder / "run.yaml"), calibrate=True, progress=False)
    assert model.tasks[0].temperature == result["temperatures"]["classify"]["temperature"]
    assert weft.load(folder / "bundle").tasks[0].temperature is None
