from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.every_kind import perfect_logits, task_of_kind, tokens_of
from tests.support.kind_batches import company, losses_of, random_logits
from tests.support.tiny import build
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.data.batching.batch import make_batch
from weft.errors import WeftError
from weft.evaluation.evaluate import judged
from weft.tasks import Task
from weft.tasks.kinds import KINDS

KIND = KINDS["similarity"]()


@given(company(2, 2), st.floats(0, 5), st.integers(0, 99))
def test_the_loss_of_a_cosine(batch, label, seed):
    """(cos − y/5)², once the label is scaled by its range."""
    task = Task("s", "similarity", texts=("a", "b"), range=(0, 5))
    values = [task.target(label) if own else None for own in batch.mine]
    logits = random_logits(len(values), 1, seed=seed, scale=0.5)
    found = losses_of("similarity", values, batch, logits)
    for e, own in enumerate(batch.mine):
        if own:
            assert found[e].item() == pytest.approx((logits[e].item() - label / 5) ** 2, rel=1e-4, abs=1e-6)


def test_raw_targets_need_a_head():
    texts, numbers = ("a", "b"), (0, 5)
    task = Task("s", "similarity", texts=texts, range=numbers, compare="head", targets="raw")
    assert task.target(4.0) == 4.0
    with pytest.raises(WeftError, match=r"targets: raw: a cosine is compared .* set compare: head"):
        Task("s", "similarity", texts=texts, range=numbers, targets="raw")


@pytest.mark.parametrize("pool", ["mean", "cls", "pooler"])
def test_from_texts_to_the_loss(pool):
    """Through a model: numpy's cosine of the two texts' vectors, each text a row by itself."""
    task = task_of_kind("cosine", 8)
    model = build("bert", "frozen", [task], pool=pool)
    assert not list(model.heads.parameters())
    tokens = tokens_of(task, tiny_tokenizer("wordpiece"), 40)
    tokens._ids = np.asarray(tokens._ids) % 99  # the tiny encoder's vocabulary
    batch = make_batch(model, [(tokens, i) for i in range(8)], np.zeros(8, np.int64), torch.device("cpu"))
    with torch.no_grad():
        output = model.run(**batch.inputs)
        found = model.example_losses(output, batch.labels)
        for i in range(8):
            vectors = []
            for r in tokens.rows_of(i):
                own = model.run(torch.tensor(tokens.ids(r))[None].long(), task=torch.tensor([0]))
                by_pool = {"mean": own.hidden.mean(1), "cls": own.hidden[:, 0], "pooler": own.pooled}
                vectors.append(by_pool[pool][0].double().numpy())
            u, v = vectors
            cosine = u @ v / (np.linalg.norm(u) * np.linalg.norm(v))
            assert output.logits[i].item() == pytest.approx(cosine, abs=1e-5)
            assert found[i].item() == pytest.approx((cosine - tokens.labels[i] / 5) ** 2, abs=1e-5)


@pytest.mark.parametrize("name", ["cosine", "similar"])
def test_a_model_that_knows_is_judged_perfect(name):
    task = task_of_kind(name, 30, metrics=("pearson", "spearman", "mse"))
    tokens = tokens_of(task, tiny_tokenizer("wordpiece"))
    assert (tokens.row_counts == 2).all()
    found = judged(task, perfect_logits(tokens), tokens, range(30))
    assert found == {
        "pearson": pytest.approx(1),
        "spearman": pytest.approx(1),
        "mse": pytest.approx(0, abs=1e-6),
    }


def test_each_text_is_a_row_of_its_own(tokenizer):
    task = Task(
        "s", "similarity", texts=("a", "b"), files={"train": [{"a": "It rains.", "b": "Wet!", "label": 1}]}
    )
    tokens = tokens_of(task, tokenizer, 16)
    assert [tokens.ids(r).tolist() for r in tokens.rows_of(0)] == [
        tokenizer("It rains.")["input_ids"],
        tokenizer("Wet!")["input_ids"],
    ]
    assert not tokens.has_types


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"texts": ("a",)}, "expected 2 text columns; found \\['a'\\]"),
        ({"compare": "cosin"}, "compare 'cosin'; did you mean 'cosine'"),
        ({"size": 2}, "similarity has one output; found size 2"),
        ({"labels": ("x", "y")}, "similarity has no labels"),
        ({"metrics": ("accuracy",)}, "metric 'accuracy' does not fit"),
    ],
)
def test_settings_it_cannot_have(settings, message):
    with pytest.raises(WeftError, match=message):
        Task("s", "similarity", **{"texts": ("a", "b"), **settings})


def test_it_is_the_cosine_unless_said_otherwise():
    assert Task("s", "similarity", texts=("a", "b")).head == "similarity-1-apart-cosine"
    assert Task("s", "similarity", texts=("a", "b"), compare="head").head == "similarity-1-apart-head"
    assert Task("s", "similarity", texts=("a", "b")).apart
