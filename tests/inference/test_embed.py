"""`model.embed`: the vectors that heads read, and those of the bare encoder."""

from __future__ import annotations

import copy

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

import weft
from tests.support.tiny import TASKS, scramble
from tests.support.tiny_run import save_encoder
from weft.errors import WeftError
from weft.inference import predict as predicting

PAIR = weft.Task("pair", labels=("same", "other"), texts=("a", "b"))
OWN = weft.Task("own", labels=("no", "yes"), pool="task_pooler")
FIRST = weft.Task("first", labels=("no", "yes"), pool="cls")
APART = weft.Task("apart", labels=("no", "yes"), texts=("a", "b"), apart=True)
TAG = weft.Task("tag", "tag", labels=("O", "B-x", "I-x"))

TEXTS = [
    "the cat sees a dog here",
    ("a bird", "the old dog likes the red bird"),
    "now",
    ("the cat", "a cat"),
    "a new blue bird fears the very old dog there then",
]


def near(found, expected):
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.fixture(scope="module", params=["bert", "distilbert"])
def folder(request, tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder") / request.param, request.param)


@pytest.fixture(scope="module")
def model(folder):
    tasks = [*TASKS, PAIR, OWN, FIRST, APART, TAG]
    return scramble(weft.Model(folder, tasks, "lora", pool="mean", max_length=24)).eval()


@torch.no_grad()
def plain(model, text, task, pool):
    """The pooled output of a forward pass over this text alone."""
    texts = (text,) if isinstance(text, str) else text
    row = model.tokenizer(*texts, return_tensors="pt")
    output = model.run(**row, task=torch.tensor([model.task_id(task)]))
    return output.last_hidden_state[0].mean(0) if pool == "mean" else output.last_hidden_state[0, 0]


def test_templates_of_one_column_are_filled(folder):
    texts = ("query: {a}", "{b}!")
    tasks = [
        weft.Task("one", labels=("no", "yes"), texts=texts[:1]),
        weft.Task("two", labels=("no", "yes"), texts=texts),
        weft.Task("joined", labels=("no", "yes"), texts=("{a} {b}",)),
        weft.Task("plain", labels=("no", "yes"), texts=("a",)),
    ]
    model = weft.Model(folder, tasks, "frozen", pool="mean", max_length=24).eval()
    near(model.embed("the cat", "one"), model.embed("query: the cat", "plain"))
    near(model.embed([("the cat", "a bird")], "two"), model.embed([("query: the cat", "a bird!")], "plain"))
    near(model.embed("the cat a bird", "joined"), model.embed("the cat a bird", "plain"))


@pytest.mark.parametrize(
    ("task", "pool"), [("a", "mean"), ("pair", "mean"), ("first", "cls"), ("tag", "mean")]
)
def test_vectors_are_the_pooled_output_of_a_forward_pass(model, task, pool):
    found = model.embed(TEXTS, task=task)
    assert (found.dtype, found.device.type, found.requires_grad) == (torch.float32, "cpu", False)
    near(found, torch.stack([plain(model, text, task, pool) for text in TEXTS]))


def test_logits_follow_from_the_vectors(model):
    """What the head reads is what it answers from: with a pooler of the task's own, too."""
    for name in ("a", "own"):
        head = model.heads[model.tasks[model.task_id(name)].head]
        owners = head.stacks["weight"].slots.owners
        slot = owners.index(f"task:{name}")
        with torch.no_grad():
            logits = model.embed(["the cat sees"], task=name) @ head.weight[slot].T + head.bias[slot]
        answer = model.predict([(name, "the cat sees")])[0]["probabilities"]
        assert list(answer.values()) == pytest.approx(logits[0].softmax(0).tolist(), abs=1e-5)


def test_tasks_differ(model):
    a, b, bare = (model.embed(TEXTS, task=task) for task in ("a", "b", None))
    assert (a - b).abs().max() > 1e-3
    assert (a - bare).abs().max() > 1e-3


@torch.no_grad()
def test_without_a_task_it_is_the_bare_encoder(model, folder):
    encoder, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    expected = []
    for text in TEXTS:
        row = tokenizer(*((text,) if isinstance(text, str) else text), return_tensors="pt")
        if encoder.config.model_type == "distilbert":
            row.pop("token_type_ids", None)
        expected.append(encoder(**row).last_hidden_state[0].mean(0))
    near(model.embed(TEXTS), torch.stack(expected))


@torch.no_grad()
def test_without_a_task_a_sentence_encoder_pools_as_it_says(folder, tmp_path):
    import shutil

    place = tmp_path / "encoder"
    shutil.copytree(folder, place)
    (place / "1_Pooling").mkdir()
    (place / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    model = weft.Model(place, TASKS, "bitfit", pool="mean")
    row = model.tokenizer("the cat sees", return_tensors="pt")
    row.pop("token_type_ids", None)
    expected = AutoModel.from_pretrained(folder).eval()(**row).last_hidden_state[:, 0]
    near(model.embed(["the cat sees"]), expected)


def test_minilm_pools_by_the_mean():
    model = weft.Model("minilm", TASKS, "lora")
    row = model.tokenizer("A cat sleeps.", return_tensors="pt")
    with torch.no_grad():
        hidden = weft.load_encoder("minilm").model(**row).last_hidden_state
    near(model.embed(["A cat sleeps."]), hidden.mean(1))


def test_normalized_rows_have_norm_one(model):
    found = model.embed(TEXTS, task="a", normalize=True)
    near(found.norm(dim=1), torch.ones(len(TEXTS)))
    near(found * model.embed(TEXTS, task="a").norm(dim=1, keepdim=True), model.embed(TEXTS, task="a"))


@pytest.mark.parametrize("batch_size", [None, 1, 2])
def test_the_order_is_kept(model, batch_size, monkeypatch):
    alone = torch.cat([model.embed([text], task="b") for text in TEXTS])
    near(model.embed(TEXTS, task="b", batch_size=batch_size), alone)
    monkeypatch.setattr(predicting, "SLAB", 4)  # several slabs, tokenized ahead
    near(model.embed(TEXTS * 3, task="b", batch_size=batch_size), alone.repeat(3, 1))


def test_no_texts(model):
    for task in ("a", None):
        assert model.embed([], task=task).shape == (0, 32)
    assert model.embed((), normalize=True).shape == (0, 32)


def test_bf16_differs_slightly(model):
    exact, rounded = model.embed(TEXTS, task="a"), model.embed(TEXTS, task="a", precision="bf16")
    assert rounded.dtype == torch.float32
    assert not torch.equal(exact, rounded)
    assert (exact - rounded).norm() / exact.norm() < 0.05


@pytest.mark.each_value
@pytest.mark.parametrize("task", ["a", "own", "apart"])
def test_captured_passes_give_the_same(model, capturing, task):
    """On a CPU the code of captured passes runs uncaptured; texts are many, so that their shapes are warm."""
    texts = [text for text in TEXTS if isinstance(text, str)] * 20
    captured, eager = copy.deepcopy(model), copy.deepcopy(model)
    eager.captures.enabled = False
    found = captured.embed(texts, task=task, batch_size=8)
    assert captured.captures.of(captured, "float32").shapes > 0
    near(found, eager.embed(texts, task=task, batch_size=8))
    near(captured.embed(texts), eager.embed(texts))  # adapters off: never captured by itself


def test_separate_bodies(folder):
    model = scramble(weft.Model(folder, TASKS, "separate", pool="mean"))
    near(model.embed(TEXTS, task="b"), torch.stack([plain(model, t, "b", "mean") for t in TEXTS]))
    with pytest.raises(WeftError, match="separate"):
        model.embed(TEXTS)


@pytest.mark.parametrize(
    ("texts", "settings", "message"),
    [
        (None, {}, "texts: expected a list of texts"),
        (["x", 3], {}, "text 2: expected a text or a pair of texts; found 3"),
        ([("x", "y", "z")], {}, "text 1: expected a text or a pair of texts"),
        (["x", " "], {}, "text 2 is ' ': expected a text that is not empty"),
        (["x"], {"task": "aa"}, "task 'aa' is not in this model"),
        (["x"], {"batch_size": 0}, "batch_size must be at least 1; found 0"),
        (["x"], {"precision": "int8"}, "precision 'int8': expected float32 or bf16"),
        (
            ["x", ("a", "b")],
            {"task": "apart"},
            "text 2: task 'apart' encodes the two texts of a pair separately",
        ),
    ],
)
def test_wrong_calls(model, texts, settings, message):
    with pytest.raises(WeftError, match=message):
        model.embed(texts, **settings)
