"""Where a task's own attention looks, against plain torch."""

from __future__ import annotations

import math

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

import weft
from tests.support.tiny import CONFIGS, batch, build, scramble
from tests.support.tiny_run import SPECIAL, save_encoder
from weft.analysis.attention import (
    AttentionMap,
    Layer,
    attention_of,
    in_layers,
    layer_of,
    methods_with_attention,
    most,
    received_attention,
    title_of,
)
from weft.data.batching.collate import collate
from weft.data.splits.split import load_split
from weft.data.tokens.tokens import in_memory
from weft.errors import WeftError
from weft.methods import METHODS

TASKS = (
    weft.Task("cat", labels=("no", "yes")),
    weft.Task("same", texts=("a", "b"), labels=("x", "y", "z")),
    weft.Task("count", "regress"),
)
PALS = {"use": "pals", "d_s": 12, "heads": 3}
TEXT = "the old cat sees a bird"
TOKENS = ("[CLS]", *TEXT.split(), "[SEP]")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("attention") / "encoder")


@pytest.fixture(scope="module")
def model(encoder):
    return of(encoder, PALS)


def of(encoder, method, **settings):
    """A model far from its start: near it, every attention is nearly even."""
    return scramble(weft.Model(encoder, TASKS, method, max_length=24, **settings))


def test_every_head_of_every_layer_gives_shares_of_the_real_tokens(model):
    seen = attention_of(model, "cat", TEXT)
    assert (seen.task, seen.texts, seen.tokens, seen.cut) == ("cat", (TEXT,), TOKENS, 0)
    assert [name for name, _ in seen.layers] == ["0/ffn_delta", "1/ffn_delta"]
    for _, p in seen.layers:
        assert (p.shape, p.dtype, p.device.type) == ((3, 8, 8), torch.float32, "cpu")
        assert not p.requires_grad
        torch.testing.assert_close(p.sum(-1), torch.ones(3, 8))
    pair = attention_of(model, "same", ("the cat", "a dog"))
    assert pair.tokens == ("[CLS]", "the", "cat", "[SEP]", "a", "dog", "[SEP]")


@pytest.mark.parametrize("task", ["cat", "count"])
def test_a_head_by_hand(model, task):
    inputs = []
    hooks = [
        block.register_forward_pre_hook(lambda _, given: inputs.append(given[0][0]))
        for block in model.encoder.encoder.layer
    ]
    try:
        seen = attention_of(model, task, TEXT)
    finally:
        for hook in hooks:
            hook.remove()
    slot = model.task_id(task)
    for number, (name, found) in enumerate(seen.layers):
        function = model.adapters[name][0].function
        down, qkv = function.project.down, function.inside.qkv
        small = inputs[number] @ down.weight[slot].T + down.bias[slot]  # [L, 12]
        query, key, _ = (small @ qkv.weight[slot].T + qkv.bias[slot]).split(12, dim=-1)
        for head in range(3):
            own = slice(4 * head, 4 * head + 4)
            expected = (query[:, own] @ key[:, own].T / math.sqrt(4)).softmax(-1)
            torch.testing.assert_close(found[head], expected)


def test_the_task_decides(model):
    one, other = (attention_of(model, task, TEXT) for task in ("cat", "count"))
    for (_, p), (_, q) in zip(one.layers, other.layers, strict=True):
        assert (p - q).abs().max() > 0.01


def tokenized(model, task, texts):
    rows = [dict(zip(task.texts, texts, strict=True))]
    split = load_split(weft.Task("x", task.kind, task.labels, texts=task.texts, files={"test": rows}), "test")
    return in_memory(split, model.tokenizer, model.max_length)


def test_it_is_the_attention_of_a_mixed_padded_batch(model):
    texts = [("a cat",), (TEXT, "the dog"), (TEXT,)]
    rows = [tokenized(model, task, own) for task, own in zip(TASKS, texts, strict=True)]
    inputs = collate([(own, 0) for own in rows], model.pad_id)
    output = model.eval().run(**inputs, task=torch.tensor([0, 1, 2]), attention=True)
    for row, task in enumerate(TASKS):
        seen = attention_of(model, task.name, texts[row])
        count = len(seen.tokens)
        for name, p in seen.layers:
            torch.testing.assert_close(output.attention[name][row, :, :count, :count], p)
            assert output.attention[name][row, :, :, count:].abs().sum() == 0


def test_the_model_is_left_in_eval_mode_and_dropout_plays_no_part(model):
    calm = attention_of(model.eval(), "cat", TEXT)
    moved = attention_of(model.train(), "cat", TEXT)
    assert not model.training
    for (_, p), (_, q) in zip(calm.layers, moved.layers, strict=True):
        assert torch.equal(p, q)


def test_names_of_other_connections_and_of_two_attentions_at_a_place(encoder):
    def names(method):
        return [name for name, _ in attention_of(of(encoder, method), "cat", TEXT).layers]

    assert names(PALS | {"connection": "serial"}) == ["0/block", "1/block"]
    top = {"use": "top_attention", "d_s": 12, "heads": 3, "depth": 2}
    assert names(top) == ["top/0", "top/1"]
    assert names("top_layer") == ["top/0"]
    assert names([PALS | {"layers": "top half"}, "lora", top]) == ["1/ffn_delta", "top/0", "top/1"]
    assert names([PALS, PALS])[:2] == ["0/ffn_delta", "0/ffn_delta.2"]


def test_the_methods_that_have_an_attention_are_those_that_are_named():
    have = []
    for name in METHODS:
        model = build("bert", name)
        if model.run(**batch(model), attention=True).attention:
            have.append(name)
    assert have == methods_with_attention()


@pytest.mark.parametrize(
    ("method", "named"),
    [("lora", "lora"), (["lora", "bitfit"], "lora + bitfit"), (PALS | {"inside": "ffn"}, "pals")],
)
def test_a_method_without_an_attention_is_told(encoder, method, named):
    with pytest.raises(WeftError) as told:
        attention_of(of(encoder, method), "cat", TEXT)
    assert f"method, {named}, gives its tasks no attention" in str(told.value)
    for name in methods_with_attention():
        assert name in str(told.value)


def test_wrong_calls(model):
    with pytest.raises(WeftError, match="did you mean 'cat'"):
        attention_of(model, "cta", TEXT)
    for task, texts in (("cat", (TEXT, TEXT)), ("same", TEXT), ("cat", " "), ("same", ("a", None))):
        with pytest.raises(WeftError, match=f"task '{task}' takes"):
            attention_of(model, task, texts)


def test_a_long_text_is_cut_and_said_to_be(model):
    seen = attention_of(model, "cat", "cat " * 30)
    assert len(seen.tokens) == 24
    assert seen.cut == 8
    assert seen.tokens[-1] == "[SEP]"


def hand_made():
    generator = torch.Generator().manual_seed(4)
    names = ("0/ffn_delta", "2/ffn_delta", "2/ffn_delta.2", "top/0")
    layers = tuple(Layer(n, torch.randn(2, 4, 4, generator=generator).softmax(-1)) for n in names)
    return AttentionMap("t", ("a b",), ("[CLS]", "a", "b", "[SEP]"), layers)


def test_looked_at():
    seen = hand_made()
    for (name, shares), layer in zip(received_attention(seen), seen.layers, strict=True):
        assert name == layer.name
        expected = sum(layer.probabilities[:, row] for row in range(4)) / 4
        torch.testing.assert_close(shares, expected)
        torch.testing.assert_close(shares.sum(-1), torch.ones(2))
    for (_, shares), layer in zip(received_attention(seen, 2), seen.layers, strict=True):
        assert torch.equal(shares, layer.probabilities[:, 2])
    for outside in (-1, 4):
        with pytest.raises(WeftError, match=rf"token {outside} is outside .* 0 \(\[CLS\]\) to 3 \(\[SEP\]\)"):
            received_attention(seen, outside)


def test_most_and_names():
    assert most(torch.tensor([0.25, 0.5, 0.0, 0.25])) == [(1, 0.5), (0, 0.25), (3, 0.25)]
    assert most(torch.tensor([1.0])) == [(0, 1.0)]
    assert [layer_of(n) for n in ("3/ffn_delta", "11/block.2", "top/0")] == [3, 11, None]
    assert title_of("3/block") == "layer 3 (3/block)"
    assert title_of("top/0") == "on top (top/0)"


def test_in_layers():
    seen = hand_made()
    assert [name for name, _ in in_layers(seen, [1, 2]).layers] == ["2/ffn_delta", "2/ffn_delta.2"]
    with pytest.raises(WeftError, match=r"layers 1 have no attention .* are at: 0/ffn_delta, 2/ffn_delta"):
        in_layers(seen, [1])


def byte_encoder(folder):
    """A tiny encoder whose tokenizer makes a token of every byte."""
    config = AutoConfig.for_model("bert", **CONFIGS["bert"][1] | {"vocab_size": 300})
    AutoModel.from_config(config).save_pretrained(folder)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: i for i, piece in enumerate([*SPECIAL, *letters])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.decoder = decoders.ByteLevel()
    names = {f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    return folder


def test_tokens_are_readable_where_they_are_bytes_and_where_they_would_not_show(tmp_path):
    model = of(byte_encoder(tmp_path / "bytes"), PALS)
    seen = attention_of(model, "same", ("a é\n", "日\x1b"))
    # a part of a character is shown as that character; a space keeps the tokenizer's mark
    expected = ("[CLS]", "a", "Ġ", "é", "é", "\\n", "[SEP]", "日", "日", "日", "\\x1b", "[SEP]")
    assert seen.tokens == expected
