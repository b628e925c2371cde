"""Models judged on whole splits, on parts of them, on further sets and by groups; and baselines."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.every_kind import NAMES, SETTINGS, perfect_logits, rows_of_kind, task_of_kind, tokens_of
from tests.support.more import examples
from tests.support.tiny import build, scramble
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.data import load_split
from weft.data.splits.subset import rows_of
from weft.data.splits.task_rows import rows_of_task
from weft.data.tokens.tokens import in_memory
from weft.evaluation import evaluate as module
from weft.evaluation.baselines import bag_of_words, majority
from weft.evaluation.evaluate import decoded, evaluate, fixed_examples, judged
from weft.evaluation.scores import main_score
from weft.inference.batches import by_tokens
from weft.inference.examples import Examples
from weft.inference.runner import answers, outputs
from weft.suites import load_suite
from weft.tasks.kinds import KINDS

TOKENIZER = tiny_tokenizer("words")


@pytest.fixture(scope="module")
def model():
    return scramble(build("bert", "lora", [task_of_kind(name, 6) for name in NAMES]))


@pytest.fixture(scope="module")
def data(model):
    return {task.name: tokens_of(task, TOKENIZER) for task in model.tasks}


@pytest.fixture
def knowing(monkeypatch):
    """A model that knows: its answers are the targets."""

    def known(model, examples, **_):
        logits = [perfect_logits(tokens) for tokens in examples.splits]
        return [logits[split][i] for split, i in zip(examples.split, examples.index, strict=True)]

    monkeypatch.setattr(module, "answers", known)


def test_every_kind_is_judged_by_its_metrics(model, data):
    found = evaluate(model, data)
    assert list(found["tasks"]) == list(NAMES)
    for task in model.tasks:
        assert list(found["tasks"][task.name]) == list(task.metrics)
        assert all(np.isfinite(value) for value in found["tasks"][task.name].values())
    assert found["rows"] == found["of"] == dict.fromkeys(NAMES, 6)
    assert found["average"] == pytest.approx(np.mean([main_score(m) for m in found["tasks"].values()]))
    # one task by itself finds the same
    for name in NAMES:
        alone = evaluate(model, {name: data[name]})
        assert alone["tasks"][name] == pytest.approx(found["tasks"][name], abs=1e-6)


def test_a_model_that_knows_everything(model, data, knowing):
    found = evaluate(model, data)
    for name, metrics in found["tasks"].items():
        assert all(value == pytest.approx(1) for value in metrics.values()), name
    assert found["average"] == pytest.approx(1)


def test_the_model_is_left_in_eval_mode(model, data):
    expected = evaluate(model, data)
    assert evaluate(model.train(), data) == expected  # no dropout
    assert not any(module.training for module in model.modules())


def test_an_error_counts_as_what_is_left_of_one(knowing):
    task = task_of_kind("regress", 6, metrics=("mse", "pearson"))
    found = evaluate(build("bert", "frozen", [task]), {"regress": tokens_of(task, TOKENIZER)})
    assert found["tasks"]["regress"]["mse"] == pytest.approx(0, abs=1e-9)
    assert found["average"] == pytest.approx(1)
    assert main_score({"mse": 0.25, "pearson": 1.0}) == 0.75
    assert main_score({"mse_mm": 0.25}) == 0.75


def test_batches_change_nothing(model, data):
    """The logits of each example, whatever the batch's size: one row, seven, all."""
    listed = [(t, data[name], i) for i in (3, 0) for t, name in enumerate(NAMES)]
    found = [answers(model, listed, size) for size in (1, 7, 64, 10_000)]
    for several in zip(*found, strict=True):
        for other in several[1:]:
            np.testing.assert_allclose(several[0], other, rtol=1e-4, atol=1e-5)
    # no batch has more rows than were asked for, unless one example has
    for size in (1, 7):
        for batch in outputs(model, listed, size):
            assert len(batch.of_rows) <= size or len(batch.examples) == 1
            assert sorted(set(batch.of_rows)) == sorted(batch.examples)
    seen = [e for batch in outputs(model, listed, 7) for e in batch.examples]
    assert sorted(seen) == list(range(len(listed)))


@settings(max_examples=examples(30), deadline=None)
@given(drawn=st.data(), budget=st.sampled_from([24, 100, 400]))
def test_batches_by_tokens(data, drawn, budget):
    listed = drawn.draw(
        st.lists(
            st.tuples(st.integers(0, len(NAMES) - 1), st.integers(0, 5)), min_size=1, max_size=40, unique=True
        )
    )
    listed = [(t, data[NAMES[t]], i) for t, i in listed]
    every = by_tokens(Examples.of(listed), limit=24, budget=budget)
    assert sorted(e for cut in every for e in cut.chosen) == list(range(len(listed)))
    for cut in every:
        own = [listed[e][1:] for e in cut.chosen]
        rows = sum(len(tokens.rows_of(i)) for tokens, i in own)
        longest = max(int(tokens.lengths[i]) for tokens, i in own)
        assert longest <= cut.length <= 24
        assert len(own) == 1 or rows * cut.length <= budget


def test_passes_run_inside_what_is_given(model, data):
    inside = []

    @contextmanager
    def precision():
        inside.append(True)
        with torch.autocast("cpu", torch.bfloat16):
            yield

    name = "regress"
    listed = [(NAMES.index(name), data[name], i) for i in range(6)]
    found, plain = np.stack(answers(model, listed, precision=precision)), np.stack(answers(model, listed))
    assert inside == [True, True]  # once to see what it changes, then around the pass
    assert found.dtype == np.float32
    assert not np.array_equal(found, plain)
    np.testing.assert_allclose(found, plain, rtol=0.1, atol=0.1)


def test_some_examples_alone(model, data):
    rows = {name: [4, 1] for name in NAMES}
    found = evaluate(model, data, rows)
    assert found["rows"] == dict.fromkeys(NAMES, 2)
    assert found["of"] == dict.fromkeys(NAMES, 6)
    for t, task in enumerate(model.tasks):
        tokens = data[task.name]
        logits = answers(model, [(t, tokens, i) for i in (4, 1)])
        expected = judged(task, logits, tokens, [4, 1])
        assert found["tasks"][task.name] == pytest.approx(expected, abs=1e-6)


def test_what_the_model_answers_to_each(model, data):
    for task in model.tasks:
        found = decoded(model, task.name, data[task.name])
        kind = KINDS[task.kind]()
        tokens = data[task.name]
        gold = kind.gold(tokens.labels, task, [tokens.example(i) for i in range(6)])
        groups = tokens.split.groups
        again = kind.score(task.metrics, gold, found if task.kind != "regress" else np.array(found), groups)
        assert again == pytest.approx(evaluate(model, {task.name: tokens})["tasks"][task.name], abs=1e-6)


def test_further_sets_are_judged_beside_the_task(tmp_path):
    rows = {seed: rows_of_kind("classify", 8, seed) for seed in (1, 2, 3)}
    also = {"mm": {"validation": rows[3], "test": rows[1][:3]}}
    settings = {**SETTINGS["classify"], "class_weights": (), "metrics": ("accuracy", "macro_f1")}
    files = {"train": rows[1], "validation": rows[2]}
    task = weft.Task("mnli", files=files, also=also, **settings)
    splits = rows_of_task(task).splits
    assert list(splits) == [("mnli", "train"), ("mnli", "validation"), ("mnli:mm", "validation")]
    model = scramble(build("bert", "frozen", [task]))
    data = {
        name: in_memory(rows_, TOKENIZER, 24)
        for (name, split), rows_ in splits.items()
        if split == "validation"
    }
    found = evaluate(model, data)
    assert list(found["tasks"]["mnli"]) == ["accuracy", "macro_f1", "accuracy_mm", "macro_f1_mm"]
    assert found["rows"] == found["of"] == {"mnli": 8, "mnli:mm": 8}
    assert found["average"] == found["tasks"]["mnli"]["accuracy"]  # the further set has no say
    # each set has the numbers it would have alone
    for name, suffix in (("mnli", ""), ("mnli:mm", "_mm")):
        plain = weft.Task("mnli", files={"validation": rows[2 if not suffix else 3]}, **settings)
        alone = evaluate(model, {"mnli": tokens_of(plain, TOKENIZER, split="validation")})["tasks"]["mnli"]
        assert {f"{key}{suffix}": value for key, value in alone.items()}.items() <= found["tasks"][
            "mnli"
        ].items(), name
    # and may be looked at in part
    part = evaluate(model, data, {"mnli": [0, 1], "mnli:mm": [5]})
    assert part["rows"] == {"mnli": 2, "mnli:mm": 1}


def test_questions_are_right_as_a_whole():
    """Three questions with 2, 1 and 3 answers: one answer wrong makes its question wrong."""
    groups = [0, 0, 1, 2, 2, 2]
    rows = [{"text": "the cat", "label": k % 2, "p": 7, "q": g} for k, g in enumerate(groups)]
    task = weft.Task(
        "m", size=2, group=("p", "q"), metrics=("f1a", "question_em", "accuracy"), files={"train": rows}
    )
    tokens = tokens_of(task, TOKENIZER)
    assert tokens.split.groups == [(7, g) for g in groups]
    logits = perfect_logits(tokens)
    assert judged(task, logits, tokens, range(6)) == {"f1a": 1, "question_em": 1, "accuracy": 1}
    logits[4] = -logits[4]
    found = judged(task, logits, tokens, range(6))
    assert found["question_em"] == pytest.approx(2 / 3)
    assert found["accuracy"] == pytest.approx(5 / 6)
    # of some examples alone, the groups are theirs
    assert judged(task, [logits[i] for i in (2, 3, 4, 5)], tokens, [2, 3, 4, 5])["question_em"] == 0.5


@pytest.mark.parametrize("name", NAMES)
def test_a_guess_is_judged_as_a_model_is(name):
    task = task_of_kind(name, 20)
    train = load_split(task, "train")
    found = majority(task, train, train)
    assert list(found) == list(task.metrics)
    assert all(np.isfinite(value) and value <= 1 for value in found.values())
    words = bag_of_words(task, train, train)
    if name in ("classify", "apart", "regress", "two", "cosine", "similar", "marked", "multilabel"):
        assert list(words) == list(task.metrics)
        assert main_score(words) > main_score(found)  # on what it was trained on
    else:
        assert words is None


def test_guesses_by_hand():
    def guessed(name, rows, **settings):
        task = weft.Task(name, **{**SETTINGS[name], "files": {"train": rows}, **settings})
        split = load_split(task, "train")
        return majority(task, split, split)

    answer = {"text": ["cat"], "answer_start": [4]}
    assert guessed("span", [{"q": "who?", "c": "the cat", "answers": answer}]) == {
        "token_f1": 0,
        "exact_match": 0,
    }
    rows = [{"words": ["a", "cat"], "tags": ["O", "B-x"]}, {"words": ["a"], "tags": ["O"]}]
    metrics = ("token_accuracy", "entity_f1")
    assert guessed("tag", rows, metrics=metrics) == {"token_accuracy": pytest.approx(2 / 3), "entity_f1": 0}
    rows = [
        {"text": "q", "choices": ["a", "b", "c"][:n], "label": label}
        for n, label in ((3, 2), (3, 2), (2, 1), (3, 0))
    ]
    assert guessed("choose", rows) == {"accuracy": 0.75}
    rows = [{"text": "q", "found": ["a", "b"], "label": label} for label in ([1, 0], [0, 1])]
    assert guessed("rank", rows)["mrr"] == 0.75
    rows = [{"text": "x", "label": label} for label in (["cat"], ["cat", "dog"], ["bird"])]
    assert guessed("multilabel", rows, metrics=("exact",)) == {"exact": pytest.approx(1 / 3)}
    rows = [{"text": "x", "label": label} for label in ("no", "no", "yes")]
    assert guessed("classify", rows) == {"accuracy": pytest.approx(2 / 3)}


def test_real_questions(shared, tokenizer):
    (task,) = load_suite("superglue", shared, ["multirc"])
    split = load_split(task, "validation")
    some = rows_of(split, range(400))
    tokens = in_memory(some, tokenizer, 32)
    assert judged(task, perfect_logits(tokens), tokens, range(400)) == {"f1a": 1, "question_em": 1}
    # all answers of a question are of one group, and a question of several answers is one
    assert len(set(split.groups)) == 953
    found = majority(task, split, split)
    assert found["f1a"] == 0
    assert 0 < found["question_em"] < 0.05


@pytest.mark.parametrize("limit", [1, 5, 12, 29])
def test_a_subset_holds_whole_groups(limit):
    rows = [{"text": "the cat", "label": i % 2, "question": i // 3} for i in range(30)]
    task = weft.Task("g", size=2, group=("question",), metrics=("f1a", "question_em"), files={"train": rows})
    tokens = tokens_of(task, TOKENIZER)
    chosen = fixed_examples(tokens, limit, 1, "g")
    assert chosen == sorted(set(chosen))
    whole = {i // 3 for i in chosen}
    assert chosen == [i for i in range(30) if i // 3 in whole]
    assert abs(len(chosen) - limit) <= 3
    assert fixed_examples(tokens, None, 1, "g") == fixed_examples(tokens, 30, 1, "g") == list(range(30))
