"""MT-Uncertainty made cheaper: a choice every k steps, fewer candidates, a measure from a lower block."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.more import examples, some_of
from tests.support.tiny import TASKS, build, scramble
from tests.support.tiny_run import breaking_off, metrics_of, untimed, write_run
from weft.config import load_run
from weft.errors import WeftError
from weft.sampling import Plan
from weft.sampling.samplers.mt_uncertainty import MtUncertainty
from weft.training.uncertainty import Chooser, choice_cost

pytestmark = pytest.mark.usefixtures("token_cache")

SIZES = (40, 25, 9)


def chooser_and_plan(batch_size=4, sizes=SIZES, stops=(), **more):
    sampler = MtUncertainty(**more)
    model = build("bert", "full", [weft.Task(name, size=2) for name in "abcde"[: len(sizes)]])
    names = [task.name for task in model.tasks]
    plan = Plan(sizes, sampler, 3, 60, batch_size, names=names, stops=stops)
    return Chooser(model, names, range(len(names)), sizes, sampler), plan


class Measured:
    """Uncertain of every example by a number of its own; counts how many were measured."""

    def __init__(self):
        self.seen = []

    def __call__(self, candidates, *_):
        self.seen.append(len(candidates.task))
        draws = np.random.default_rng(candidates.number)
        return draws.random(len(candidates.task)) + candidates.task / 4


@settings(max_examples=examples(15))
@given(st.integers(1, 7), st.integers(1, 6), st.lists(st.integers(1, 50), min_size=2, max_size=5))
def test_the_steps_between_two_choices_repeat_their_shares(every, batch_size, sizes):
    chooser, plan = chooser_and_plan(batch_size, sizes, every=every)
    measure, last = Measured(), None
    for number in range(20):
        before = len(measure.seen)
        step = chooser.step(plan, number, measure, print)
        counts = np.bincount(step.task[: step.real], minlength=len(sizes))
        chosen = len(measure.seen) > before
        assert chosen == (number % every == 0)
        assert (chooser.measured is not None) == chosen
        offered = plan.candidates(number)
        if chosen:
            last = counts
            assert len(chooser.measured) == step.real
        else:
            # the first of each task, and fewer only where an epoch ends with a short batch
            there = np.bincount(offered.task, minlength=len(sizes))
            assert counts.tolist() == np.minimum(last, there).tolist()
            for task in range(len(sizes)):
                expected = offered.index[offered.task == task][: counts[task]].tolist()
                assert step.index[: step.real][step.task[: step.real] == task].tolist() == expected
    assert sum(measure.seen) <= -(-20 // every) * len(sizes) * batch_size


def test_a_stop_makes_the_model_choose_again():
    chooser, plan = chooser_and_plan(every=10)
    measure = Measured()
    chooser.step(plan, 0, measure, print)
    chooser.step(plan, 1, measure, print)
    assert len(measure.seen) == 1
    stopped = plan.with_stops([(2, 2)])  # the task of which most was taken
    step = chooser.step(stopped, 2, measure, print)
    assert len(measure.seen) == 2
    assert set(step.task.tolist()) <= {0, 1}
    chooser.step(stopped, 3, measure, print)
    assert len(measure.seen) == 2


def test_what_is_between_two_choices_is_in_a_checkpoint():
    first, plan = chooser_and_plan(every=4)
    for number in range(6):
        first.step(plan, number, Measured(), print)
    second, _ = chooser_and_plan(every=4)
    second.load_state(json.loads(json.dumps(first.state())))
    for number in (6, 7, 8):
        one, other = (chooser.step(plan, number, Measured(), print) for chooser in (first, second))
        assert one.index.tolist() == other.index.tolist()
        assert one.task.tolist() == other.task.tolist()
    assert chooser_and_plan()[0].state() is None  # a checkpoint of every step's choice is as it was


@settings(max_examples=examples(15))
@given(st.integers(2, 8), st.booleans())
def test_fewer_candidates_are_each_tasks_next_ones(count, grouped):
    lengths = [np.random.default_rng(i).integers(1, 99, n) for i, n in enumerate(SIZES)]
    more = {"lengths": lengths, "group_by_length": grouped}
    plan = Plan(SIZES, {"use": "mt_uncertainty", "candidates": count}, 3, 60, 6, **more)
    whole = Plan(SIZES, "mt_uncertainty", 3, 60, count, **more)
    for number in range(60):
        assert plan.candidates(number).index.tolist() == whole.candidates(number).index.tolist()
        assert plan.chosen(plan.candidates(number), range(6 if len(plan.candidates(number).task) > 5 else 1))
    assert [row.examples for row in plan.summary()] == [row.examples for row in whole.summary()]
    assert plan.epoch() == whole.epoch()


def test_all_candidates_together_fill_a_batch():
    with pytest.raises(
        WeftError, match=r"sampler.candidates: 2 of each of 3 tasks(.|\n)*expected at least 3"
    ):
        Plan(SIZES, {"use": "mt_uncertainty", "candidates": 2}, 3, 60, 8)


def test_settings_that_are_not_used_leave_the_fingerprint_as_it_was():
    """A checkpoint holds it: a run that an earlier version began must go on."""
    plain = Plan(SIZES, "mt_uncertainty", 3, 60, 4)
    assert plain.sampler.fingerprint() == {
        "use": "mt_uncertainty",
        "rule": "code",
        "measure": "entropy",
        "proxy": {},
        "dropout": True,
    }
    prints = {plain.fingerprint()}
    for more in ({"every": 2}, {"candidates": 4}, {"exit_layer": 1}):
        prints.add(Plan(SIZES, {"use": "mt_uncertainty", **more}, 3, 60, 4).fingerprint())
    assert len(prints) == 4


def inputs_of(model):
    return {"input_ids": torch.tensor([[2, 6, 7, 3], [2, 8, 9, 3]]), "task": torch.tensor([0, 1])}


@pytest.mark.parametrize("family", ["bert", "modernbert", "deberta-v3", "distilbert"])
def test_an_exit_reads_the_lowest_blocks_alone(family):
    """The heads read what they would if the encoder ended there."""
    method = {"use": "lora", "rank": 2}
    model = scramble(build(family, method, TASKS[:2])).eval()
    whole = model(**inputs_of(model), layers=True)
    with torch.no_grad(), model.running_until(1):
        early = model(**inputs_of(model), layers=True)
    assert not torch.equal(early.layers[-1], whole.layers[-1])
    torch.testing.assert_close(early.layers[1], whole.layers[1])
    torch.testing.assert_close(early.layers[-1], whole.layers[1])  # blocks above return their input
    assert all(not torch.equal(early.by_shape[s], whole.by_shape[s]) for s in whole.by_shape)
    with model.running_until(model.num_layers):
        assert torch.equal(model(**inputs_of(model)).hidden, whole.hidden)
    assert model.until is None
    count = model.num_layers
    with (
        pytest.raises(WeftError, match=f"9 blocks cannot run; expected 1 to {count}"),
        model.running_until(9),
    ):
        pass


def test_blocks_above_the_exit_do_not_run():
    model = build("bert", "full", TASKS[:2])
    calls = []
    for number, layer in enumerate(model.encoder.encoder.layer):
        layer.attention.register_forward_hook(lambda *_, number=number: calls.append(number))
    with torch.no_grad(), model.running_until(1):
        model(**inputs_of(model))
    assert calls == [0]


def test_an_exit_above_the_encoder_is_refused(tmp_path):
    with pytest.raises(
        WeftError, match=r"train\.sampler\.exit_layer: 7, but the encoder has 2 blocks; expected 1 to 2"
    ):
        chooser_and_plan(exit_layer=7)


def test_the_cost_that_an_estimate_expects():
    chooser, plan = chooser_and_plan(every=4, exit_layer=1)
    assert choice_cost(plan, chooser.model) == 1 / 8
    assert choice_cost(chooser_and_plan()[1], chooser.model) == 1
    assert choice_cost(Plan(SIZES, "uniform", 1, 9, 4), chooser.model) == 1


# whole runs

CHEAPER = {
    "every": "{use: mt_uncertainty, every: 3}",
    "candidates": "{use: mt_uncertainty, candidates: 3}",
    "exit_layer": "{use: mt_uncertainty, exit_layer: 1}",
    "all": "{use: mt_uncertainty, every: 2, candidates: 4, exit_layer: 1, dropout: false}",
}


def train(file, out, sampler, *more, resume=False):
    from weft.workflows.train import train_run

    run_file = load_run(file, [f"train.sampler={sampler}", "method=full", "train.lr=0.001", *more])
    return train_run(run_file, out, resume=resume, device="cpu", tell=lambda note: None)


def lines(out, event=None):
    every = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [untimed(line) for line in every if event in (None, line["event"]) and line["event"] != "resume"]


@pytest.mark.parametrize("name", some_of(CHEAPER, 1))
def test_a_resumed_run_is_bit_exact(name, tmp_path):
    file = write_run(tmp_path, steps=10, measure_uncertainty=4)
    train(file, tmp_path / "straight", CHEAPER[name])
    with breaking_off(7), pytest.raises(KeyboardInterrupt):
        train(file, tmp_path / "broken", CHEAPER[name])
    train(file, tmp_path / "broken", CHEAPER[name], resume=True)
    one, other = (weft.load(tmp_path / run) for run in ("straight", "broken"))
    for (key, a), (_, b) in zip(one.named_parameters(), other.named_parameters(), strict=True):
        assert torch.equal(a, b), key
    assert metrics_of(tmp_path / "straight") == metrics_of(tmp_path / "broken")
    assert lines(tmp_path / "straight") == lines(tmp_path / "broken")
    chosen = lines(tmp_path / "straight", "chosen")
    every = 3 if name == "every" else 2 if name == "all" else 1
    assert [line["measure"] is not None for line in chosen] == [n % every == 0 for n in range(10)]


def test_the_log_has_the_measure_of_each_example_that_was_chosen(tmp_path):
    """From 0 to 1, null for the regression, whose scores are a proxy's; the most uncertain come first."""
    train(write_run(tmp_path, steps=4), tmp_path / "out", "{use: mt_uncertainty, rule: paper}")
    names = load_run(tmp_path / "run.yaml").tasks
    regression = [task.name for task in names].index("count")
    some = 0
    for line in lines(tmp_path / "out", "chosen"):
        assert len(line["measure"]) == len(line["task"]) == len(line["index"])
        known = [value for value in line["measure"] if value is not None]
        assert all(0 <= value <= 1 for value in known)
        assert known == sorted(known, reverse=True)  # by the paper's rule the order is that of the measure
        assert [value is None for value in line["measure"]] == [task == regression for task in line["task"]]
        some += len(known)
    assert some


def test_estimates_of_a_cheaper_choice_are_made(tmp_path):
    found = weft.check(write_run(tmp_path, steps=4), [f"train.sampler={CHEAPER['all']}"])
    assert found.estimate.seconds > 0
