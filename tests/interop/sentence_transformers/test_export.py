"""`weft export --to sentence-transformers`: `encode` equals `model.embed`, and cosines equal the answers."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch
import transformers

import weft
from tests.conformance.cases import every_case, shared
from tests.support.every_kind import TAGS
from tests.support.exported import exact_methods
from tests.support.tiny import FAMILIES, batch, scramble, tiny
from tests.support.tiny_run import assert_refused, save_encoder
from weft.cli import run
from weft.errors import WeftError
from weft.interop import export_hf, export_sentence_transformers
from weft.interop.folder import merged_encoder
from weft.interop.refusals import CannotExport

sentence_transformers = pytest.importorskip("sentence_transformers")

TEXTS = ["the old cat sees a red dog", "a bird", " ".join(["the dog likes a very old bird here"] * 5)]
PAIR = (TEXTS[0], TEXTS[1])
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
POOLS = ["mean", "cls", "pooler", "task_pooler"]
EXACT = exact_methods()


def tasks(pool):
    pair = {"texts": ("a", "b"), "pool": pool}
    return [
        weft.Task("sts", "similarity", range=(0, 5), **pair),
        weft.Task("plain", "similarity", **pair),
        weft.Task("classify", labels=("no", "yes", "maybe"), temperature=1.7, layers=2, pool=pool),
        weft.Task("regress", "regress", range=(1, 5), **pair),
        weft.Task("choose", "choose", choices=("c",), pool=pool),
        weft.Task("tag", "tag", labels=TAGS, texts=("words",)),
        weft.Task("apart", size=3, apart=True, **pair),
    ]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("st")
    save_encoder(folder / "encoder")
    return folder


@pytest.fixture(scope="module", params=POOLS)
def model(home, request):
    method = {"use": "lora", "rank": 2}
    return scramble(weft.Model(home / "encoder", tasks(request.param), method, max_length=24)).eval()


def load(folder):
    return sentence_transformers.SentenceTransformer(str(folder), device="cpu")


def encode(encoder, texts):
    return encoder.encode(texts, convert_to_tensor=True)


@pytest.mark.parametrize("task", ["sts", "classify", "tag"])
def test_vectors_are_those_of_embed(model, tmp_path, task):
    encoder = load(export_sentence_transformers(model, task, tmp_path / "x"))
    torch.testing.assert_close(encode(encoder, TEXTS), model.embed(TEXTS, task), **CLOSE)
    assert encoder.max_seq_length == 24


def test_normalized_vectors(model, tmp_path):
    encoder = load(export_sentence_transformers(model, "sts", tmp_path / "x", normalize=True))
    torch.testing.assert_close(encode(encoder, TEXTS), model.embed(TEXTS, "sts", normalize=True), **CLOSE)


def test_cosines_are_the_answers(model, tmp_path):
    for task, (low, high) in (("sts", (0, 5)), ("plain", (0, 1))):
        encoder = load(export_sentence_transformers(model, task, tmp_path / task))
        vectors = encode(encoder, list(PAIR))
        cosine = float(encoder.similarity(vectors[:1], vectors[1:]))
        assert cosine > 0, "the answer below is clipped at 0"
        answer = model.predict(task, [PAIR])[0]["value"]
        assert low + (high - low) * cosine == pytest.approx(answer, rel=1e-5, abs=1e-5)


def test_logits(model, tmp_path):
    classify = load(export_sentence_transformers(model, "classify", tmp_path / "c", "logits"))
    expected = [list(answer["probabilities"].values()) for answer in model.predict("classify", TEXTS)]
    np.testing.assert_allclose(encode(classify, TEXTS).softmax(-1), expected, **CLOSE)
    regress = load(export_sentence_transformers(model, "regress", tmp_path / "r", "logits"))
    value = float(np.clip(encode(regress, [PAIR])[0, 0], 1, 5))
    assert value == pytest.approx(model.predict("regress", [PAIR])[0]["value"], rel=1e-5, abs=1e-5)
    choose = load(export_sentence_transformers(model, "choose", tmp_path / "o", "logits"))
    scores = encode(choose, [(TEXTS[0], choice) for choice in TEXTS[1:]])[:, 0]
    expected = model.predict("choose", [(TEXTS[0], TEXTS[1:])])[0]["probabilities"]
    np.testing.assert_allclose(scores.softmax(-1), expected, **CLOSE)


@every_case
def test_a_methods_encoder_is_merged_or_refused(method, family):
    """The encoder of the folder; the vectors of one method follow from its hidden states."""
    model = shared(method, family)
    if not all(EXACT[part.name] for part in model.method.parts):
        with pytest.raises(CannotExport, match="cannot be merged"):
            merged_encoder(model, model.tasks[0])
        return
    rows = batch(model)
    inputs = {key: rows[key] for key in ("input_ids", "attention_mask")}
    with torch.no_grad():
        hidden = merged_encoder(model, model.tasks[0])(**inputs).last_hidden_state
        expected = model.run(**inputs, task=torch.zeros(len(rows["task"]), dtype=torch.long)).hidden
    real = inputs["attention_mask"].bool()
    torch.testing.assert_close(hidden[real], expected[real], rtol=1e-4, atol=1e-5)


def test_the_command_and_the_readme_it_writes(home, tmp_path, capsys, monkeypatch):
    model = scramble(weft.Model(home / "encoder", tasks("task_pooler"), "bitfit", max_length=24))
    model.save(tmp_path / "bundle")
    arguments = ["export", str(tmp_path / "bundle"), "--to", "sentence-transformers", "--task"]
    for task, options, modules in (
        ("sts", ["normalize=true"], ["Transformer", "Pooling", "Normalize"]),
        ("classify", ["output=logits"], ["Transformer", "Pooling", "Dense", "Dense", "Dense"]),
        ("regress", ["output=logits"], ["Transformer", "Pooling", "Dense", "Dense"]),
    ):
        out = tmp_path / task
        settings = [word for option in options for word in ("--set", option)]
        assert run([*arguments, task, "--out", str(out), *settings, "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert facts["modules"] == modules
        readme = (out / "README.md").read_text(encoding="utf-8")
        assert str(tmp_path) not in readme
        (code,) = re.findall(r"```python\n(.*?)```", readme, re.S)
        monkeypatch.chdir(out)
        printed: list = []
        exec(code, {"print": printed.append})
        assert printed[0].isfinite().all()
    assert "The answer of the task is 0 + 5·c" in (tmp_path / "sts" / "README.md").read_text(encoding="utf-8")
    assert run([*arguments, "sts", "--out", str(tmp_path / "sts")]) == 0
    assert "load it with sentence_transformers.SentenceTransformer(" in capsys.readouterr().out
    code = run([*arguments, "sts", "--out", str(tmp_path / "sts"), "--set", "output=logit"])
    assert_refused(code, capsys.readouterr(), ["output: 'logit' is unknown; did you mean 'logits'?"])


@pytest.mark.parametrize(
    ("task", "reason"),
    [("tag", "its head reads every token"), ("apart", "encodes its two texts separately"), ("sts", "cosine")],
)
def test_heads_without_a_place_are_refused(home, tmp_path, task, reason):
    model = weft.Model(home / "encoder", tasks("mean"), "frozen", max_length=24)
    with pytest.raises(WeftError, match=reason) as refused:
        export_sentence_transformers(model, task, tmp_path / "x", "logits")
    assert "cannot be exported to sentence-transformers" in str(refused.value)
    assert "leave out output=logits to export the vectors" in str(refused.value)
    assert "--to sentence-transformers" not in str(refused.value)
    assert not (tmp_path / "x").exists()
    export_sentence_transformers(model, task, tmp_path / "x")  # what the message says works
    readme = (tmp_path / "x" / "README.md").read_text(encoding="utf-8")
    assert "output=logits" not in readme, "the README does not advise what is refused"


def test_readmes_advise_the_head_where_it_has_a_place(home, tmp_path):
    model = weft.Model(home / "encoder", tasks("mean"), "frozen", max_length=24)
    export_sentence_transformers(model, "classify", tmp_path / "x")
    assert "--set output=logits" in (tmp_path / "x" / "README.md").read_text(encoding="utf-8")


def test_an_encoder_without_a_tokenizer_is_refused(tmp_path):
    model = weft.Model(tiny("bert"), tasks("mean"), "frozen", max_length=24)
    with pytest.raises(WeftError, match="has no tokenizer, which sentence-transformers needs"):
        export_sentence_transformers(model, "sts", tmp_path / "x")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_with_its_tokenizer(family, tmp_path):
    """Segment ids that the tokenizer gives and the encoder does not take are left out, as in weft."""
    encoder = save_encoder(tmp_path / "encoder", family)
    two = [weft.Task("classify", labels=("no", "yes"), texts=("a", "b"), pool="cls"), tasks("mean")[0]]
    model = scramble(weft.Model(encoder, two, {"use": "lora", "rank": 2}, max_length=24)).eval()
    sentences = load(export_sentence_transformers(model, "sts", tmp_path / "st"))
    for text in TEXTS:
        torch.testing.assert_close(encode(sentences, [text]), model.embed([text], "sts"), **CLOSE)
    classify = transformers.pipeline(
        "text-classification", str(export_hf(model, "classify", tmp_path / "hf"))
    )
    answers = classify({"text": PAIR[0], "text_pair": PAIR[1]}, top_k=None, truncation=True)
    found = {answer["label"]: answer["score"] for answer in answers}
    assert found == pytest.approx(model.predict("classify", [PAIR])[0]["probabilities"], rel=1e-5, abs=1e-5)
