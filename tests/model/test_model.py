from __future__ import annotations

import pytest
import torch

import weft
from tests.support.more import some_of
from tests.support.tiny import TASKS, batch, build, labels, no_dropout, scramble, tiny
from weft.errors import WeftError


def test_the_surface_of_the_design():
    model = weft.Model("minilm", TASKS, method=weft.methods.Lora(rank=4)).eval()
    ids = model.tokenizer(["It rains.", "Cats sleeps."], return_tensors="pt", padding=True)["input_ids"]
    output = model.run(ids, task=torch.tensor([2, 1]), layers=True)
    assert output.hidden.shape == (2, ids.size(1), 384)
    assert output.pooled.shape == (2, 384)
    assert len(output.layers) == 7
    assert [x.shape for x in output.logits] == [(1,), (3,)]


def test_heads_are_stacked_by_shape():
    model = build("bert", "frozen")
    assert {shape: tuple(head.weight.shape) for shape, head in model.heads.items()} == {
        "classify-2": (2, 2, 32),
        "classify-3": (1, 3, 32),
        "regress-1": (1, 1, 32),
    }


def test_heads_of_any_size():
    tasks = [weft.Task("many", size=150), weft.Task("points", "regress", size=4), weft.Task("two", size=2)]
    model = build("bert", "lora", tasks)
    output = model.run(torch.randint(5, 99, (3, 6)), task=torch.tensor([1, 0, 2]))
    assert [tuple(x.shape) for x in output.logits] == [(4,), (150,), (2,)]
    given = model.collate_labels([[1, 2, 3, 4], 149, 1], output.task)
    losses = model.example_losses(output, given)
    expected = torch.stack(
        [
            (output.logits[0] - torch.tensor([1.0, 2, 3, 4])).square().mean(),
            -output.logits[1].log_softmax(0)[149],
            -output.logits[2].log_softmax(0)[1],
        ]
    )
    torch.testing.assert_close(losses, expected)


def test_a_heads_start_is_the_same_in_any_company_and_under_any_method():
    alone = build("bert", "full", TASKS[3:])
    together = build("bert", "lora", TASKS)
    assert torch.equal(alone.heads["classify-2"].weight[0], together.heads["classify-2"].weight[1])


def test_the_pooler_runs_on_what_top_leaves():
    from tests.support.probe import Probe
    from weft.core.route import Route
    from weft.encoder.anatomy import sites_of
    from weft.encoder.body import WovenBody

    encoder = tiny("bert")
    top = sites_of(encoder).select(["top"])[0]
    body = WovenBody(encoder, [(top, Probe(top, lambda x, route: x * 2))])
    ids = torch.randint(5, 99, (2, 6))
    hidden, pooled = body.encode(Route(torch.zeros(2, dtype=torch.long)), {"input_ids": ids})
    torch.testing.assert_close(hidden, tiny("bert")(ids).last_hidden_state * 2)
    torch.testing.assert_close(pooled, encoder.pooler(hidden))


def test_token_types_reach_those_who_have_them_and_no_one_else():
    ids = torch.randint(5, 99, (2, 6))
    types = torch.tensor([[0, 0, 0, 1, 1, 1]] * 2)
    for family, changes in (("bert", True), ("distilbert", False), ("modernbert", False), ("roberta", False)):
        model = build(family, "frozen", TASKS[:1])
        one, two = model.run(ids).hidden, model.run(ids, token_type_ids=types).hidden
        assert torch.equal(one, two) is not changes


# of ModernBERT one block of either attention
@pytest.mark.parametrize(("encoder", "layers"), some_of([("bert", 1), ("modernbert", 2)], 1))
def test_compiled_gradients_equal_eager_ones(encoder, layers):
    torch._dynamo.reset()
    model = no_dropout(scramble(build(encoder, ["lora", "bitfit"], layers=layers, head_dropout=0.0)))
    inputs = batch(model)
    given = labels(model, inputs["task"])
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    gradients = []
    for run in (model, compiled):
        model.zero_grad()
        model.loss(run(**inputs), given).backward()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-5)


def test_micro_batches_add_up_to_the_step():
    from weft.model.losses import example_weights

    model = no_dropout(scramble(build("bert", "lora", head_dropout=0.0)))
    inputs = batch(model)
    given = labels(model, inputs["task"])
    weight = example_weights(inputs["task"])
    whole = model.loss(model.run(**inputs), given, weight)
    parts = [
        model.loss(
            model.run(**{k: v[s] for k, v in inputs.items()}), {k: v[s] for k, v in given.items()}, weight[s]
        )
        for s in (slice(0, 3), slice(3, 4), slice(4, 8))
    ]
    torch.testing.assert_close(sum(parts), whole)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": None}, "task: missing; expected 8 task ids from 0 to 3"),
        (
            {"task": torch.zeros(7, dtype=torch.long)},
            r"task: expected a LongTensor \[8\].*found torch.int64 \[7\]",
        ),
        ({"task": torch.zeros(8)}, r"task: expected a LongTensor \[8\].*torch.float32"),
        ({"task": torch.full((8,), 4)}, "task: id 4 does not exist; this model's ids are 0 to 3"),
        ({"task": torch.full((8,), -1)}, "task: id -1 does not exist"),
        ({"input_ids": torch.zeros(8, dtype=torch.long)}, r"input_ids: expected \[rows, length\]"),
        ({"attention_mask": torch.ones(8, 3)}, "attention_mask: expected the shape of input_ids"),
        ({"token_type_ids": torch.ones(8, 3)}, "token_type_ids: expected the shape of input_ids"),
        ({"example": torch.zeros(3, dtype=torch.long)}, "example: expected a LongTensor"),
        (
            {"example": torch.tensor([0, 2, 2, 3, 4, 5, 6, 7])},
            "example: expected ids from 0 on without a gap",
        ),
        ({"example": torch.tensor([-1, 0, 1, 2, 3, 4, 5, 6])}, "example: expected ids from 0 on"),
        ({"example": torch.tensor([0, 0, 1, 2, 3, 4, 5, 6])}, "example 0 has rows of the tasks"),
        ({"task": [0] * 8}, "task: expected a tensor; found list"),
        ({"input_ids": [[1]]}, "input_ids: expected a tensor; found list"),
        ({"input_ids": torch.zeros(0, 4, dtype=torch.long)}, "expected at least one row"),
    ],
)
def test_wrong_calls_are_answered(change, message):
    model = build("bert", "frozen")
    with pytest.raises(WeftError, match=message):
        model.run(**{**batch(model), **change})


@pytest.mark.parametrize(
    ("task", "label", "message"),
    [
        (0, 7, "example 0, task 'a': label 7; expected a label id from 0 to 1"),
        (0, -100, "expected a label id from 0 to 1"),
        (0, 0.9, "expected a label id"),
        (2, [0.5, 0.5], "task 'c'.*expected a finite number"),
        (2, float("nan"), "expected a finite number"),
        (2, "much", "expected a finite number"),
    ],
)
def test_wrong_labels_are_never_trained_on(task, label, message):
    with pytest.raises(WeftError, match=message):
        build("bert", "frozen").collate_labels([label], torch.tensor([task]))


def test_weights_of_another_shape_are_refused():
    model = build("bert", "frozen")
    inputs = batch(model)
    output = model.run(**inputs)
    with pytest.raises(WeftError, match=r"weight: expected one per example, \[8\]; found shape \[8, 1\]"):
        model.loss(output, labels(model, inputs["task"]), torch.ones(8, 1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: weft.Model(3, TASKS), "encoder: expected a name, a folder or a Hugging Face model; found 3"),
        (lambda: weft.Model(tiny("bert"), TASKS[0]), "tasks: expected a list of tasks; found one task"),
        (lambda: weft.Model(tiny("bert").half(), TASKS), "weights are torch.float16; expected torch.float32"),
        (
            lambda: weft.Model(tiny("bert"), TASKS, device="meta"),
            "on the meta device only random:ARCHITECTURE",
        ),
    ],
)
def test_models_that_cannot_be(make, message):
    with pytest.raises(WeftError, match=message):
        make()


def test_a_model_with_a_head_is_told_to_pass_its_encoder():
    from transformers import BertForSequenceClassification

    with pytest.raises(
        WeftError, match=r"BertForSequenceClassification is an encoder with a head; .*model\.bert"
    ):
        weft.Model(BertForSequenceClassification(tiny("bert").config), TASKS)


def test_a_row_of_padding_alone_poisons_nothing():
    model = build("bert", "frozen", pool="mean")
    inputs = batch(model)
    inputs["attention_mask"][3] = 0
    assert all(x.isfinite().all() for x in model.run(**inputs).logits)


def test_a_task_by_name():
    model = build("bert", "frozen")
    assert model.task_id("c") == 2
    with pytest.raises(WeftError, match="task 'e' is not in this model"):
        model.merge("e")


def test_heads_read_what_pool_says():
    ids = torch.randint(5, 99, (3, 6))
    mask = torch.tensor([[1] * 6, [1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0]])
    for pool in ("pooler", "cls", "mean"):
        model = build("bert", "frozen", TASKS[:1], pool=pool)
        for given in (mask, None):
            output = model.run(ids, given)
            weight = (torch.ones(3, 6) if given is None else given.float())[..., None]
            read = {
                "pooler": output.pooled,
                "cls": output.hidden[:, 0],
                "mean": (output.hidden * weight).sum(1) / weight.sum(1),
            }[pool]
            head = model.heads["classify-2"]
            torch.testing.assert_close(output.by_shape["classify-2"], read @ head.weight[0].T + head.bias[0])


def test_pool_is_chosen_by_the_encoder():
    assert weft.Model("minilm", TASKS, "frozen").pool == "mean"
    assert build("bert", "frozen").pool == "pooler"
    assert build("modernbert", "frozen").pool == "cls"
    with pytest.raises(WeftError, match="has no pooler; expected cls, mean or task_pooler"):
        build("modernbert", "frozen", pool="pooler")
    with pytest.raises(
        WeftError, match="pool: expected 'auto', 'pooler', 'cls', 'mean' or 'task_pooler'; found 'max'"
    ):
        build("bert", "frozen", pool="max")
    # what no loss reaches does not train
    assert not any(p.requires_grad for p in build("bert", "full", pool="mean").encoder.pooler.parameters())


def test_one_task_needs_no_task_ids():
    model = build("bert", "lora", TASKS[:1])
    ids = torch.randint(5, 99, (2, 6))
    assert torch.equal(model.run(ids).hidden, model.run(ids, task=torch.zeros(2, dtype=torch.long)).hidden)
