"""Adding and retraining a task while others change the bundle: nothing of theirs or of ours is lost."""

from __future__ import annotations

import pytest

import weft
from tests.support.forked import Forked
from tests.support.new_task import CAT, FAST, ROWS, add
from tests.support.tiny import TASKS, scramble
from weft.bundle.one_task import hashes
from weft.errors import RunFailed
from weft.growing import add as adding
from weft.growing import retrain as retraining
from weft.growing.train_one import train_one
from weft.utils.lock_file import LockHeld

LORA = {"use": "lora", "rank": 2}


@pytest.fixture
def meanwhile(monkeypatch):
    """Something that others do after the model was loaded and before the trained task is written."""

    def do(change):
        def train(*arguments, **settings):
            scores = train_one(*arguments, **settings)
            change()
            return scores

        monkeypatch.setattr(adding, "train_one", train)
        monkeypatch.setattr(retraining, "train_one", train)

    return do


def names(bundle):
    return [task.name for task in weft.load(bundle).tasks]


def retrain(bundle, out, name="a"):
    task = weft.Task(name, labels=("no", "yes"), files=ROWS)
    return weft.retrain_task(bundle, name, task, out, training=FAST, progress=False)


def test_tasks_that_others_add_and_remove_in_the_meantime_stay_so(make, meanwhile):
    bundle = make(LORA)

    def change():
        weft.copy_task(bundle, "a", bundle, rename="theirs")
        weft.remove_task(bundle, "b", bundle)

    meanwhile(change)
    add(bundle, bundle)
    assert names(bundle) == ["a", "c", "theirs", "cat"]
    meanwhile(lambda: weft.remove_task(bundle, "theirs", bundle))
    retrain(bundle, bundle)
    assert names(bundle) == ["a", "c", "cat"]


def test_two_processes_add_tasks_at_once(make):
    """Also under one name: then the second is refused before it trains."""
    bundle = make(LORA)
    other = weft.Task("other", labels=("no", "yes"), files=ROWS)
    processes = [Forked(lambda task=task: add(bundle, bundle, task)) for task in (CAT, other)]
    assert [process.wait() for process in processes] == [0, 0]
    assert sorted(names(bundle)) == ["a", "b", "c", "cat", "other"]


@pytest.mark.parametrize("in_place", [True, False])
def test_the_name_or_the_new_bundle_is_reserved_while_it_trains(make, meanwhile, tmp_path, in_place):
    bundle = make(LORA)
    out = bundle if in_place else tmp_path / "out"
    told = []

    def attempt():
        with pytest.raises(LockHeld, match="set a different out"):
            add(bundle, out)
        if in_place:
            with pytest.raises(LockHeld, match="task 'cat' of"):
                weft.copy_task(bundle, "a", bundle, rename="cat")

    meanwhile(lambda: told.append(Forked(attempt).wait()))
    add(bundle, out)
    assert told == [0]
    assert names(out) == ["a", "b", "c", "cat"]


def different_weights(bundle, encoder):
    """A writer that knows nothing of the training: all weights are different ones."""
    scramble(weft.Model(encoder, TASKS[:3], "full", max_length=16), 9).save(bundle)


@pytest.mark.parametrize("in_place", [True, False])
def test_if_the_shared_weights_change_the_result_is_written_elsewhere(
    make, meanwhile, encoder, tmp_path, in_place
):
    bundle = make("full")
    made = make("full", "straight")
    add(made, made)
    meanwhile(lambda: different_weights(bundle, encoder))
    if in_place:
        with pytest.raises(
            RunFailed, match="its encoder, method or shared weights are different ones"
        ) as told:
            add(bundle, bundle)
        out = tmp_path / "bundle-cat"
        assert str(told.value).endswith(f"is in {out}")
        assert names(bundle) == ["a", "b", "c"]
    else:
        out = tmp_path / "out"
        add(bundle, out)
    # the bundle as it was when the training began, with the trained task
    assert names(out) == ["a", "b", "c", "cat"]
    tensors = {name: hash_ for name, hash_ in hashes(out).items() if name != "tasks/cat.safetensors"}
    before = hashes(make("full"))
    assert {name: tensors[name] for name in before if name != "bundle.json"} == {
        name: hash_ for name, hash_ in before.items() if name != "bundle.json"
    }


def test_training_everything_does_not_undo_what_others_did(make, meanwhile, tmp_path):
    bundle = make("full")
    meanwhile(lambda: weft.copy_task(bundle, "a", bundle, rename="theirs"))
    with pytest.raises(RunFailed, match="its tasks theirs were added, trained or removed"):
        add(bundle, bundle, only="all")
    assert names(bundle) == ["a", "b", "c", "theirs"]
    assert names(tmp_path / "bundle-cat") == ["a", "b", "c", "cat"]
    meanwhile(lambda: None)
    add(bundle, bundle, only="all")
    assert names(bundle) == ["a", "b", "c", "theirs", "cat"]


def test_a_task_that_others_replaced_is_not_overwritten(make, meanwhile, tmp_path, encoder):
    bundle = make(LORA)
    retrain(make(LORA, "again"), tmp_path / "theirs")

    def change():
        model = weft.load(tmp_path / "theirs")
        model.save(bundle)

    meanwhile(change)
    before = hashes(tmp_path / "theirs")
    with pytest.raises(RunFailed, match="its task 'a' was added, trained or removed"):
        retrain(bundle, bundle)
    assert hashes(bundle) == before
    assert names(tmp_path / "bundle-a") == ["a", "b", "c"]


def test_a_bundle_that_is_gone_when_the_training_ends(make, meanwhile, tmp_path):
    bundle = make(LORA)
    meanwhile(lambda: bundle.rename(tmp_path / "moved"))
    with pytest.raises(RunFailed, match="no longer a bundle that can be read"):
        add(bundle, bundle)
    assert names(tmp_path / "bundle-cat") == ["a", "b", "c", "cat"]
