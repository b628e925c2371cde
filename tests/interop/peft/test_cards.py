"""The code of the README answers every kind as weft does, by the real PEFT."""

from __future__ import annotations

import re

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

import weft
from tests.support.every_kind import TAGS
from tests.support.tiny import scramble, tiny
from tests.support.tiny_run import save_encoder
from weft.interop import export_peft

TEXT = "the old cat sees a red dog"
OTHER = "a bird likes the dog here"
CHOICES = ["a very old bird", "here"]
NEAR = {"rel": 1e-5, "abs": 1e-5}
TASKS = [
    weft.Task("classify", labels=("it's", 'a "b"'), texts="the bird : {text}", temperature=1.7),
    weft.Task("multilabel", "multilabel", labels=("cat", "dog"), thresholds=(0.4, 0.6), temperature=2.0),
    weft.Task("regress", "regress", range=(0, 5)),
    weft.Task("tag", "tag", labels=TAGS, texts=("words",), label="tags"),
    weft.Task("span", "span", texts=("old {q}", "a {c}"), label="answers"),
    weft.Task("choose", "choose", texts=("p", "red {q}"), choices=("c",), temperature=0.5),
    weft.Task("rank", "rank", texts=("old {q}",), choices=("c",)),
]


@pytest.fixture(scope="module", params=["pooler", "mean"])
def model(request, tmp_path_factory):
    encoder = save_encoder(tmp_path_factory.mktemp("peft") / "encoder")
    method = {"use": "lora", "rank": 2}
    model = weft.Model(encoder, TASKS, method, max_length=24, pool=request.param)
    with torch.no_grad():
        model.heads["tag-5"].weight.mul_(20)  # so that tags differ from word to word
    return scramble(model).eval()


@pytest.fixture
def readme(model, tmp_path, monkeypatch):
    """Export a task and run the code of its README with other texts; its text, its names, what it printed."""

    def of(task, **words):
        folder = export_peft(model, task, tmp_path / task)
        text = (folder / "README.md").read_text(encoding="utf-8")
        (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
        code = code.replace('"encoder"', repr(model.encoder_source.source))
        for before, after in words.items():
            assert before.replace("_", " ") in code
            code = code.replace(before.replace("_", " "), after)
        monkeypatch.chdir(folder)
        printed: list = []
        names: dict = {"print": printed.append}
        exec(code, names)
        return text, names, printed[0]

    return of


def chances(answer):
    return list(answer["probabilities"].values())


def test_classify(model, readme):
    text, names, found = readme("classify", the_text=TEXT)
    assert found[0].tolist() == pytest.approx(chances(model.predict("classify", {"text": TEXT})), **NEAR)
    assert "pipeline_tag: text-classification" in text
    if model.pool == "pooler":  # a classifier of the family, with the labels' names
        assert names["base"].config.id2label == {0: "it's", 1: 'a "b"'}
        assert names["base"].config.label2id == {"it's": 0, 'a "b"': 1}


def test_multilabel(model, readme):
    text, _, found = readme("multilabel", the_text=TEXT)
    assert found[0].tolist() == pytest.approx(chances(model.predict("multilabel", TEXT)), **NEAR)
    assert "above its threshold: cat 0.4, dog 0.6." in text


def test_regress(model, readme):
    text, names, _ = readme("regress", the_text=TEXT)
    assert "the answer is 0 + 5·output, clipped to the range." in text
    found = 5 * names["logits"].clamp(0, 1).item()
    assert found == pytest.approx(model.predict("regress", TEXT)["value"], **NEAR)


def test_tag(model, readme):
    text, _, found = readme("tag", a_text_of_several_words=TEXT)
    assert "pipeline_tag: token-classification" in text
    raw = [tag for _, tag in found]
    assert [word for word, _ in found] == TEXT.split()
    # weft also repairs an I-X that follows nothing
    expected = model.predict("tag", TEXT)["tags"]
    assert [tag[2:] or tag for tag in raw] == [tag[2:] or tag for tag in expected]
    assert len(set(raw)) > 1


def test_span(model, readme):
    words = {"the_question": OTHER, "the_context_that_holds_the_answer": TEXT}
    _, _, found = readme("span", **words)
    assert found == model.predict("span", [{"q": OTHER, "c": TEXT}])[0]["answer"]


def test_choices(model, readme):
    words = {"the_first_choice": CHOICES[0], "the_second_choice": CHOICES[1]}
    _, _, found = readme("choose", the_p=TEXT, the_q=OTHER, **words)
    (expected,) = model.predict("choose", [{"p": TEXT, "q": OTHER, "c": CHOICES}])
    assert found.tolist() == pytest.approx(expected["probabilities"], **NEAR)
    _, _, found = readme("rank", the_q=TEXT, **words)
    (expected,) = model.predict("rank", [{"q": TEXT, "c": CHOICES}])
    assert found.tolist() == pytest.approx(expected["scores"], **NEAR)


def test_words_of_a_tokenizer_of_bytes(tmp_path, monkeypatch):
    """Its words begin with a space, as within a text: the tokens are those of weft."""
    backend = Tokenizer(models.BPE(unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    backend.train_from_iterator([TEXT, OTHER] * 3, trainers.BpeTrainer(vocab_size=70, special_tokens=special))
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {f"{name[1:4].lower()}_token": name for name in special}
    encoder = tmp_path / "encoder"
    tiny("bert").save_pretrained(encoder)
    PreTrainedTokenizerFast(tokenizer_object=backend, **names).save_pretrained(encoder)
    task = weft.Task("tag", "tag", labels=("a", "b", "c"), texts=("words",), label="tags")
    model = scramble(weft.Model(encoder, [task], {"use": "lora", "rank": 2}, max_length=40)).eval()
    folder = export_peft(model, "tag", tmp_path / "x")
    (code,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.S)
    code = code.replace('"encoder"', repr(str(encoder))).replace("a text of several words", TEXT)
    monkeypatch.chdir(folder)
    found: dict = {"print": lambda line: None}
    exec(code, found)
    within = model.tokenizer(" " + TEXT)["input_ids"]
    assert found["inputs"]["input_ids"][0].tolist() == within
    assert within != model.tokenizer(TEXT)["input_ids"], "the space makes other tokens"
