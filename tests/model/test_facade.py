"""What users of Hugging Face and PEFT expect of a model, and how things print."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
import torch

import weft
from tests.support.tiny import TASKS, batch, build, scramble
from tests.support.tiny_run import save_encoder
from weft.model.output import Output


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = save_encoder(tmp_path_factory.mktemp("encoder"))
    return scramble(weft.Model(folder, TASKS, "lora")).eval()


def test_output_has_hugging_faces_names(model):
    output = model.run(**batch(model))
    assert isinstance(output, Output)
    assert output.last_hidden_state is output.hidden
    assert output.pooler_output is output.pooled


def test_save_and_load_under_hugging_faces_names(model, tmp_path):
    assert model.save_pretrained(tmp_path / "bundle") == tmp_path / "bundle"
    again = weft.Model.from_pretrained(tmp_path / "bundle", kernels="reference")
    assert isinstance(again, weft.Model)
    assert again.kernels == "reference"
    ask = [("a", "the cat"), ("c", "a dog")]
    assert again.predict(ask) == weft.load(tmp_path / "bundle", kernels="reference").predict(ask)
    torch.testing.assert_close(again.embed(["a cat"], task="b"), model.embed(["a cat"], task="b"))


def test_tokenizer(model):
    assert model.tokenizer("the cat")["input_ids"] == model.encoder_source.tokenizer("the cat")["input_ids"]


@pytest.mark.parametrize("method", ["lora", "full", "separate"])
def test_trainable_parameters_as_peft_prints_them(method, capsys):
    model = build("bert", method)
    model.print_trainable_parameters()
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    total = sum(p.numel() for p in model.parameters())
    expected = f"trainable params: {trained:,} || all params: {total:,} || trainable%: "
    assert capsys.readouterr().out == f"{expected}{100 * trained / total:.4f}\n"


def test_peft_prints_the_same_line(capsys):
    """The format is PEFT's own, to the letter."""
    peft = pytest.importorskip("peft")
    encoder = weft.load_encoder("minilm").model
    peft.get_peft_model(encoder, peft.LoraConfig(target_modules=["query"])).print_trainable_parameters()
    theirs = capsys.readouterr().out
    weft.Model("minilm", TASKS, "lora").print_trainable_parameters()
    ours = capsys.readouterr().out
    words = [[word for word in line.split() if not word[0].isdigit()] for line in (theirs, ours)]
    assert words[0] == words[1]


@pytest.mark.parametrize("method", ["lora", "full", "separate", "morris"])
def test_the_ledger_prints_as_a_table(method):
    tasks = [weft.Task(name, labels=("a", "b")) for name in ("cola", "rte")]
    ledger = weft.Model("random:bert-base", tasks, method, device="meta").ledger()
    lines = str(ledger).splitlines()
    table = {line[:9].strip(): line for line in lines[1:]}
    assert "109,482,240" in table["encoder"]
    assert f"{ledger['shared']:,}" in table["shared"]
    for name, count in ledger["per_task"].items():
        assert f" {count:,} " in table[f"task {name}"]
    assert f"{ledger['total']:,}" in table["total"]
    assert f"{100 * ledger['total_ratio']:.2f}%" in table["total"]
    assert f"{ledger['trained']:,}" in table["trained"]
    assert f"{ledger['trained_percent_per_task']:.2f}% per task" in table["trained"]
    assert ledger["total"] == round(ledger["total_ratio"] * ledger["encoder"])
    assert ledger["trained"] == pytest.approx(
        ledger["trained_percent_per_task"] / 100 * ledger["encoder"] * 2
    )
    assert len(lines) < 12
    assert all(len(line) < 200 for line in lines)


def test_a_model_prints_in_a_few_lines(model):
    text = repr(model)
    assert len(text.splitlines()) == 3
    assert "lora" in text
    assert "a (classify, 2)" in text
    many = build("bert", "bitfit", [weft.Task(f"t{i}", labels=("x", "y")) for i in range(50)])
    assert len(repr(many)) < 400
    assert "44 more" in repr(many)


def test_a_task_with_rows_in_memory_prints_in_a_line():
    rows = [{"text": f"a text of some length {i}", "label": i % 2} for i in range(5000)]
    task = weft.Task("mine", labels=("no", "yes"), files={"train": rows, "validation": Path("dev.jsonl")})
    assert repr(task) == (
        "Task('mine', kind='classify', labels=('no', 'yes'), size=2, metrics=('accuracy',), "
        "files={'train': 5000 rows, 'validation': 'dev.jsonl'})"
    )
    wide = weft.Task("wide", labels=tuple(f"label number {i}" for i in range(1000)))
    assert len(repr(wide)) < 300
    assert "1000 in all" in repr(wide)
    hub = weft.Task("s", labels=("a", "b"), files={"train": weft.Source("x.csv", options={})})
    assert "'train': 'x.csv'" in repr(hub)


def test_an_output_prints_its_shapes(model):
    output = model.run(**batch(model), layers=True)
    text = repr(output)
    assert "hidden=[8, 12, 32]" in text
    assert "layers=3" in text
    assert len(text) < 300


def test_a_run_prints_its_scores():
    scores = {f"t{i}": {"accuracy": 0.5 + i / 100} for i in range(40)}
    run = weft.Run(Path("runs/x"), {"tasks": scores, "rows": {}, "of": {}, "average": 0.7})
    assert repr(run).startswith("Run('runs/x', average=0.700, 40 tasks: t0 0.500, t1 0.510")
    assert len(repr(run)) < 200


@pytest.mark.parametrize("copied", [False, True])
def test_a_merged_encoder_is_saved_with_its_tokenizer(model, copied, tmp_path):
    """AutoTokenizer would make one of the special tokens alone without its files, and say nothing."""
    from transformers import AutoModel, AutoTokenizer

    plain = model.merge("a")
    if copied:
        plain = pickle.loads(pickle.dumps(copy.deepcopy(plain)))
        with torch.no_grad():
            next(plain.parameters()).zero_()  # the copy saves its own weights
    plain.save_pretrained(tmp_path / "merged")
    loaded = AutoModel.from_pretrained(tmp_path / "merged")
    for ours, theirs in zip(plain.parameters(), loaded.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "merged")
    text = "the cat a dog"
    assert tokenizer(text)["input_ids"] == model.tokenizer(text)["input_ids"]
    assert tokenizer.unk_token_id not in tokenizer(text)["input_ids"]


def test_a_merged_encoder_without_a_tokenizer_is_saved_alone(tmp_path):
    build("bert", "lora").merge("a").save_pretrained(tmp_path / "merged")
    assert (tmp_path / "merged" / "model.safetensors").is_file()
    assert not (tmp_path / "merged" / "tokenizer.json").exists()
