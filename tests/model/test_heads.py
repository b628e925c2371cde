"""Stacked heads against plain linear maps, one example at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import weft
from tests.support.tiny import batch, build, tiny
from weft.core.layout import Layout
from weft.core.route import Route
from weft.errors import WeftError
from weft.model.heads import Head, build_heads
from weft.model.pooling import Reads

D = 6
MARKS = ({"text": 0, "start": "s", "end": "e"}, {"text": 1, "start": "t", "end": "f"})


def marked(name, **more):
    return weft.Task(name, "marked", size=2, texts=("a", "b"), marks=MARKS, **more)


TASKS = (
    weft.Task("one", size=3),
    weft.Task("two", size=3, layers=2, hidden=5),
    weft.Task("three", size=3, layers=3),
    weft.Task("own", size=3, pool="task_pooler"),
    weft.Task("own2", size=3, pool="task_pooler"),
    weft.Task("mean", "regress", pool="mean"),
    weft.Task("apart", size=3, texts=("a", "b"), apart=True, layers=2),
    weft.Task("pair", "similarity", texts=("a", "b"), compare="head", pool="task_pooler"),
    weft.Task("cosine", "similarity", texts=("a", "b"), pool="cls"),
    weft.Task("cosine_mean", "similarity", texts=("a", "b"), pool="mean"),
    marked("marked", layers=2, hidden=4),
    marked("marked_own", pool="task_pooler"),
    weft.Task("tag", "tag", size=4, texts=("w",), layers=2),
    weft.Task("span", "span", texts=("q", "c")),
    weft.Task("choose", "choose", texts=("q",), choices=("c",)),
)


@pytest.fixture(scope="module")
def heads():
    torch.manual_seed(3)
    found = build_heads(TASKS, D, 0.5, 1, "pooler").eval()
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.normal_()
    return found


@pytest.fixture(scope="module")
def rows():
    """Two examples a task, of two rows each, anywhere in the batch."""
    generator = torch.Generator().manual_seed(5)
    count = 2 * len(TASKS)
    example = torch.arange(count).repeat(2)[torch.randperm(2 * count, generator=generator)]
    rows = len(example)
    lengths = torch.randint(2, 6, (rows,), generator=generator)
    return {
        "hidden": torch.randn(rows, 5, D, generator=generator),
        "own": torch.randn(rows, D, generator=generator),
        "example": example,
        "task": example % len(TASKS),
        "mask": torch.arange(5) < lengths[:, None],
        "marks": torch.randint(0, 4, (rows, 5), generator=generator),
    }


def expected_logits(head, slot, task, rows, example):
    """A task's logits for its example by plain products, row by row or token by token."""
    mine = [r for r, e in enumerate(rows["example"].tolist()) if e == example]
    pool = task.pool or "pooler"

    def vector(r):
        if pool == "pooler":
            return rows["own"][r]
        if pool == "mean":
            return rows["hidden"][r][rows["mask"][r]].mean(0)
        x = rows["hidden"][r, 0]
        if pool == "task_pooler" and head.reads != "cosine":
            x = torch.tanh(head.pooler[slot] @ x + head.pooler_bias[slot])
        return x

    def mapped(x):
        for number in range((task.layers or 1) - 1):
            weight, bias = (getattr(head, f"{n}_{number}")[slot] for n in ("hidden", "hidden_bias"))
            x = (weight @ x + bias).clamp(min=0)
        return head.weight[slot] @ x + head.bias[slot]

    def at_marks(r, bit):
        here = [rows["hidden"][r, k] for k, m in enumerate(rows["marks"][r].tolist()) if m & bit]
        return torch.stack(here).mean(0) if here else torch.zeros(D)

    if head.reads == "cosine":
        u, v = (vector(r).double().numpy() for r in mine)
        return torch.tensor([[u @ v / np.sqrt((u @ u) * (v @ v))]] * 2, dtype=torch.float32)
    if head.reads == "tokens":
        return torch.stack([torch.stack([mapped(x) for x in rows["hidden"][r]]) for r in mine])
    if head.reads == "pair":
        return torch.stack([mapped(torch.cat([vector(r) for r in mine]))] * 2)
    if head.reads == "marked":
        return torch.stack([mapped(torch.cat([vector(r), at_marks(r, 1), at_marks(r, 2)])) for r in mine])
    return torch.stack([mapped(vector(r)) for r in mine])


@pytest.mark.parametrize("number", range(len(TASKS)), ids=[task.name for task in TASKS])
def test_every_way_of_reading(number, heads, rows):
    task = TASKS[number]
    head = heads[task.head]
    slot = [t.name for t in TASKS if t.head == task.head].index(task.name)
    reads = Reads(
        rows["hidden"], rows["own"], Layout(rows["example"], 2 * len(TASKS), rows["mask"]), rows["marks"]
    )
    with torch.no_grad():
        found = head(reads, Route(rows["task"]))
        for example in (number, number + len(TASKS)):
            mine = rows["example"] == example
            expected = expected_logits(head, slot, task, rows, example)
            torch.testing.assert_close(found[mine], expected, rtol=1e-5, atol=1e-5)


def test_shapes_and_their_widths(heads):
    assert sum(h.reads == "cosine" for h in heads.values()) == 2
    assert all(not list(h.parameters()) for h in heads.values() if h.reads == "cosine")
    assert heads["classify-3-task_pooler"].pooler.shape == (2, D, D)
    assert heads["classify-3-2x5"].hidden_0.shape == (1, 5, D)
    assert heads["classify-3-3xd"].hidden_1.shape == (1, D, D)
    assert heads["classify-3-apart-2xd"].hidden_0.shape == (1, D, 2 * D)
    assert heads["marked-2-2x4"].hidden_0.shape == (1, 4, 3 * D)
    assert heads["tag-4-2xd"].weight.shape == (1, 4, D)
    assert heads["span-2"].weight.shape == (1, 2, D)


def test_marks_that_are_nowhere_are_zero():
    head = Head("marked-2", [marked("marked")], D, 0.0, 1).eval()
    hidden = torch.randn(2, 3, D)
    layout = Layout(None, 2)
    with torch.no_grad():
        head.weight.normal_()
        without = head(Reads(hidden, hidden[:, 0], layout), Route(torch.zeros(2, dtype=torch.long)))
        expected = hidden[:, 0] @ head.weight[0, :, :D].T
    torch.testing.assert_close(without, expected)


def test_a_pooler_of_ones_own_starts_at_the_encoders():
    tasks = [weft.Task("a", size=2, pool="task_pooler"), weft.Task("b", size=2, pool="task_pooler")]
    model = build("bert", "frozen", tasks)
    dense = tiny("bert").pooler.dense
    head = model.heads["classify-2-task_pooler"]
    for slot in (0, 1):
        assert torch.equal(head.pooler[slot], dense.weight)
        assert torch.equal(head.pooler_bias[slot], dense.bias)
    # so the start is what the encoder's own pooler gives
    plain = build("bert", "frozen", [weft.Task("a", size=2), weft.Task("b", size=2)], pool="pooler")
    inputs = batch(model)
    with torch.no_grad():
        for one, other in zip(model.run(**inputs).logits, plain.run(**inputs).logits, strict=True):
            torch.testing.assert_close(one, other)
    # nothing reads the encoder's own: it must not train, nor be counted as trained
    full = build("bert", "full", tasks)
    assert not any(p.requires_grad for p in full.encoder.pooler.parameters())
    # an encoder without a pooler gives each task one that starts at a draw
    assert build("distilbert", "frozen", tasks).heads[
        "classify-2-task_pooler"
    ].pooler.std().item() == pytest.approx(0.02, rel=0.2)


def test_the_encoders_pooler_trains_where_some_task_reads_it():
    tasks = [weft.Task("a", size=2, pool="pooler"), weft.Task("b", size=2, pool="mean")]
    model = build("bert", "full", tasks, pool="cls")
    assert all(p.requires_grad for p in model.encoder.pooler.parameters())
    with pytest.raises(WeftError, match="has no pooler; expected cls, mean or task_pooler"):
        build("distilbert", "full", tasks, pool="cls")


def test_heads_start_equally_in_any_company():
    one = weft.Task("a", size=3, layers=3, hidden=7)
    alone = Head(one.head, [one], D, 0.1, 4)
    company = build_heads([weft.Task("z", size=3, layers=3, hidden=7), *TASKS, one], D, 0.1, 4)[one.head]
    for name, parameter in alone.named_parameters():
        assert torch.equal(parameter[0], company.get_parameter(name)[1]), name
    assert not torch.equal(company.weight[0], company.weight[1])
    assert alone.hidden_0.std().item() == pytest.approx(0.02, rel=0.3)
    assert (alone.bias == 0).all()
    assert (alone.hidden_bias_1 == 0).all()


def test_dropout_falls_on_what_is_read_and_between_layers():
    task = weft.Task("a", size=3, layers=2, hidden=400)
    head = Head(task.head, [task], 400, 0.5, 1).train()
    route = Route(torch.zeros(2, dtype=torch.long))
    hidden = torch.ones(2, 1, 400)
    with torch.no_grad():
        head.hidden_0.copy_(torch.eye(400))
        head.weight.fill_(1.0)
        torch.manual_seed(1)
        found = head(Reads(hidden, hidden[:, 0], Layout(None, 2)), route)
        head.eval()
        still = head(Reads(hidden, hidden[:, 0], Layout(None, 2)), route)
    assert (still == 400).all()
    # each unit survives both with probability 1/4, and is then 4
    assert ((found / 4 - 100).abs() < 40).all()
    assert (found[:, 0] != found[0, 0]).any()


def test_what_a_run_says_of_heads_and_what_a_task_says():
    tasks = [
        weft.Task("a", size=2),
        weft.Task("b", size=2, layers=1),
        weft.Task("c", size=2, layers=3, hidden=9),
    ]
    model = build("bert", "frozen", tasks, head_layers=2, head_hidden=11)
    assert [task.head for task in model.tasks] == ["classify-2-2x11", "classify-2", "classify-2-3x9"]
    plain = build("bert", "frozen", tasks)
    assert [task.head for task in plain.tasks] == ["classify-2", "classify-2", "classify-2-3x9"]


@pytest.mark.parametrize("pool", ["pooler", "cls", "mean", "task_pooler"])
def test_mixed_pools_by_task(pool):
    """A task that says what its head reads does not care what the others read."""
    tasks = [
        weft.Task("a", size=2, pool=pool),
        weft.Task("b", size=3),
        weft.Task("c", "regress", pool="mean"),
    ]
    one, other = (build("bert", "frozen", tasks, pool=p) for p in ("cls", "task_pooler"))
    inputs = batch(one)
    with torch.no_grad():
        logits = one.run(**inputs).logits, other.run(**inputs).logits
    for t, mine, its in zip(inputs["task"].tolist(), *logits, strict=True):
        if tasks[t].pool is not None:
            torch.testing.assert_close(mine, its)
        else:
            assert not torch.allclose(mine, its)


def test_the_cosine_is_scikit_learns():
    from sklearn.metrics.pairwise import cosine_similarity

    task = weft.Task("c", "similarity", texts=("a", "b"))
    head = Head(task.head, [task], D, 0.1, 1, pool="mean").train()
    hidden = torch.randn(6, 4, D)
    mask = torch.arange(4) < torch.tensor([4, 2, 3, 1, 4, 4])[:, None]
    example = torch.tensor([2, 0, 1, 1, 0, 2])
    reads = Reads(hidden, hidden[:, 0], Layout(example, 3, mask))
    found = head(reads, Route(torch.zeros(6, dtype=torch.long)))
    means = [F.normalize(hidden[r][mask[r]].mean(0), dim=0).numpy()[None] for r in range(6)]
    for e, (u, v) in enumerate([(1, 4), (2, 3), (0, 5)]):
        expected = cosine_similarity(means[u], means[v])[0, 0]
        assert found[example == e].tolist() == [[pytest.approx(expected, abs=1e-6)]] * 2
