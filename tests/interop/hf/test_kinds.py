"""Every kind by `weft export --to hf`: pipelines and the README's code answer as `model.predict` does."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch
import transformers

import weft
from tests.support.every_kind import SETTINGS, TAGS
from tests.support.tiny import scramble
from tests.support.tiny_run import assert_refused, save_encoder
from weft.cli import run
from weft.interop.hf.classes import ANSWERING
from weft.tasks.kinds import KINDS

TEXT = "the old cat sees a red dog"
OTHER = "a bird likes the dog here"
CHOICES = ["the cat", "a very old bird", "here"]
LONG = " ".join([TEXT] * 6)
"""More tokens than the model's maximal length."""
NEAR = {"rel": 1e-5, "abs": 1e-5}

TASKS = [
    weft.Task("classify", labels=("no", "yes", "maybe"), temperature=1.7),
    weft.Task("pair", labels=("no", "yes"), texts=("a", "b")),
    weft.Task(
        "multilabel", "multilabel", labels=("cat", "dog", "bird"), thresholds=(0.4, 0.5, 0.6), temperature=2.0
    ),
    weft.Task("regress", "regress", texts=("a", "b"), range=(1, 5)),
    weft.Task("raw", "regress", texts=("a", "b"), range=(1, 5), targets="raw"),
    weft.Task("two", "regress", label=("x", "y")),
    weft.Task("rank", "rank", choices=("found",)),
    weft.Task("tag", "tag", labels=TAGS, texts=("words",), label="tags"),
    weft.Task("parts", "tag", labels=("noun", "verb", "other"), texts=("words",), label="tags"),
    weft.Task("span", "span", texts=("q", "c"), label="answers"),
    weft.Task("choose", "choose", choices=("choices",), temperature=0.5),
    weft.Task("put_in", "choose", texts=("p", "q"), choices=("e",)),
    weft.Task("apart", size=3, texts=("a", "b"), apart=True),
    weft.Task("cosine", "similarity", texts=("a", "b"), range=(0, 5)),
    weft.Task("similar", "similarity", texts=("a", "b"), compare="head"),
    weft.Task("marked", **{**SETTINGS["marked"], "pool": None}),
]
REFUSED = ["apart", "cosine", "similar", "marked"]
EXPORTED = [task.name for task in TASKS if task.name not in REFUSED]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hf")
    model = weft.Model(save_encoder(folder / "encoder"), TASKS, {"use": "lora", "rank": 2}, max_length=24)
    with torch.no_grad():
        model.heads["tag-5"].weight.mul_(20)  # so that tags differ from word to word
    scramble(model).save(folder / "bundle")
    return folder


@pytest.fixture(scope="module")
def model(home):
    return weft.load(home / "bundle").eval()


@pytest.fixture(scope="module")
def folder(home):
    """The folder of a task, exported once."""

    def of(task):
        out = home / "exported" / task
        if not out.exists():
            assert run(["export", str(home / "bundle"), "--task", task, "--to", "hf", "--out", str(out)]) == 0
        return out

    return of


def pipe(name, folder, **settings):
    return transformers.pipeline(name, str(folder), device="cpu", **settings)


def by_label(answers):
    return {answer["label"]: answer["score"] for answer in answers}


@pytest.mark.parametrize("text", [TEXT, LONG])
def test_classify(model, folder, text):
    answers = pipe("text-classification", folder("classify"))(text, top_k=None, truncation=True)
    assert by_label(answers) == pytest.approx(model.predict("classify", text)["probabilities"], **NEAR)


@pytest.mark.parametrize("texts", [(TEXT, OTHER), (LONG, OTHER)])
def test_a_pair(model, folder, texts):
    inputs = {"text": texts[0], "text_pair": texts[1]}
    answers = pipe("text-classification", folder("pair"))(inputs, top_k=None, truncation=True)
    assert by_label(answers) == pytest.approx(model.predict("pair", [texts])[0]["probabilities"], **NEAR)


def test_multilabel(model, folder):
    out = folder("multilabel")
    answers = by_label(pipe("text-classification", out)(TEXT, top_k=None))
    expected = model.predict("multilabel", TEXT)
    assert answers == pytest.approx(expected["probabilities"], **NEAR)
    assert json.loads((out / "config.json").read_text())["problem_type"] == "multi_label_classification"
    # the thresholds are in the README and in weft.json
    assert "cat 0.4, dog 0.5, bird 0.6" in (out / "README.md").read_text()
    thresholds = json.loads((out / "weft.json").read_text())["task"]["thresholds"]
    holds = [
        label
        for label, least in zip(("cat", "dog", "bird"), thresholds, strict=True)
        if answers[label] > least
    ]
    assert holds == expected["labels"]


@pytest.mark.parametrize("task", ["regress", "raw"])
def test_regress(model, folder, task):
    answers = pipe("text-classification", folder(task))
    for texts in ((TEXT, OTHER), (OTHER, TEXT), (TEXT, TEXT)):
        (answer,) = answers({"text": texts[0], "text_pair": texts[1]}, top_k=None)
        assert answer["label"] == task  # not the column, which is named "label"
        clipped = float(np.clip(answer["score"], 1, 5))
        assert clipped == pytest.approx(model.predict(task, [texts])[0]["value"], **NEAR)


def test_several_numbers(model, folder):
    answers = by_label(pipe("text-classification", folder("two"))(TEXT, top_k=None))
    assert [answers["x"], answers["y"]] == pytest.approx(model.predict("two", TEXT)["value"], **NEAR)


def test_rank(model, folder):
    score = pipe("text-classification", folder("rank"))
    answers = [score({"text": TEXT, "text_pair": choice})["score"] for choice in CHOICES]
    assert answers == pytest.approx(model.predict("rank", [(TEXT, CHOICES)])[0]["scores"], **NEAR)


def test_tag(model, folder):
    parts = pipe("token-classification", folder("parts"), ignore_labels=[])(TEXT)
    assert [answer["entity"] for answer in parts] == model.predict("parts", TEXT)["tags"]
    # illegal BIO tags begin an entity, in both
    entities = pipe("token-classification", folder("tag"), aggregation_strategy="simple")(TEXT)
    assert len(entities) > 1
    found = [(entity["entity_group"], entity["word"]) for entity in entities]
    assert found == [(e["type"], e["text"]) for e in model.predict("tag", TEXT)["entities"]]


def run_readme(out, monkeypatch, **words):
    """Run the code of a README with other texts; return its names and what it printed."""
    (code,) = re.findall(r"```python\n(.*?)```", (out / "README.md").read_text(encoding="utf-8"), re.S)
    for before, after in words.items():
        code = code.replace(before.replace("_", " "), after)
    monkeypatch.chdir(out)
    printed: list = []
    names: dict = {"print": printed.append}
    exec(code, names)
    return names, printed[0]


def test_span(model, folder, monkeypatch):
    words = {"the_question": OTHER, "the_context_that_holds_the_answer": TEXT}
    _, answer = run_readme(folder("span"), monkeypatch, **words)
    assert answer == model.predict("span", [(OTHER, TEXT)])[0]["answer"]


def test_choose(model, folder, monkeypatch):
    words = {"the_text": TEXT, "the_first_choice": CHOICES[0], "the_second_choice": CHOICES[1]}
    _, chances = run_readme(folder("choose"), monkeypatch, **words)
    expected = model.predict("choose", [(TEXT, CHOICES[:2])])[0]["probabilities"]
    assert chances[0].tolist() == pytest.approx(expected, **NEAR)


@pytest.mark.parametrize("task", ["classify", "pair", "multilabel", "regress", "rank", "tag"])
def test_the_code_of_a_readme_runs(model, folder, monkeypatch, task):
    words = {"a_text_of_several_words": TEXT, "the_text": TEXT, "the_a": TEXT, "the_b": OTHER}
    names, printed = run_readme(folder(task), monkeypatch, **words)
    assert printed, "the answers, not an empty list"
    assert names["pipeline"] is transformers.pipeline


def test_a_choice_in_the_place_of_a_placeholder(model, folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder("put_in"))
    choose = transformers.AutoModelForMultipleChoice.from_pretrained(folder("put_in"))
    stem = "the @placeholder likes the dog"
    rows = [stem.replace("@placeholder", choice) for choice in CHOICES]
    inputs = tokenizer([TEXT] * 3, rows, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        logits = choose(**{key: value[None] for key, value in inputs.items()}).logits
    expected = model.predict("put_in", [((TEXT, stem, CHOICES))])[0]["probabilities"]
    assert logits.softmax(-1)[0].tolist() == pytest.approx(expected, **NEAR)


def test_every_kind_is_exported_or_refused_with_a_reason(home, capsys):
    from tests.support.exported import table

    page = {row["kind"].strip("`"): row for row in table("kind")}
    assert sorted(page) == sorted(KINDS)
    for kind, row in page.items():
        if kind in ANSWERING:
            assert row["loads with"] == f"`{ANSWERING[kind].auto_class}`"
            assert (ANSWERING[kind].pipeline or "none") in row["pipeline"]
        else:
            assert row["loads with"] == "refused"
    assert {task.kind for task in TASKS} == set(KINDS)
    reasons = [
        "encodes its two texts separately",
        "sentence-transformers",
        "sentence-transformers",
        "marked words",
    ]
    for task, reason in zip(REFUSED, reasons, strict=True):
        arguments = ["export", str(home / "bundle"), "--task", task, "--to", "hf", "--out", str(home / "no")]
        code = run(arguments)
        instead = f"weft export {home / 'bundle'} --to onnx --out {home / 'no'}"
        expected = [f"task '{task}' cannot be exported to hf: ", reason, instead]
        assert_refused(code, capsys.readouterr(), expected)
        assert not (home / "no").exists()


def test_the_command(home, model, tmp_path, capsys):
    out = tmp_path / "x"
    arguments = ["export", str(home / "bundle"), "--task", "classify", "--to", "hf", "--out", str(out)]
    assert run([*arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts.pop("largest_difference") < 1e-5
    assert facts == {
        "out": str(out),
        "task": "classify",
        "folder": str(out),
        "class": "BertForSequenceClassification",
        "loads_with": "AutoModelForSequenceClassification",
        "pipeline": "text-classification",
        "tokenizer": True,
    }
    # again: an earlier export is replaced
    assert run(arguments) == 0
    assert (
        "as BertForSequenceClassification; its logits differ from weft's by at most"
        in capsys.readouterr().out
    )
    # nothing of this machine in the folder
    texts = [file.read_text(encoding="utf-8") for file in out.iterdir() if file.suffix in (".json", ".md")]
    assert not any(str(home) in text for text in texts)
    settings = json.loads((out / "weft.json").read_text())
    assert settings["encoder"]["name"] == "encoder"
    assert settings["task"]["labels"] == ["no", "yes", "maybe"]
    assert json.loads((out / "tokenizer_config.json").read_text())["model_max_length"] == 24


def test_a_folder_of_something_else_is_kept(home, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "weft.json").write_text('{"exported_to": "sentence-transformers"}')
    arguments = [
        "export",
        str(home / "bundle"),
        "--task",
        "classify",
        "--to",
        "hf",
        "--out",
        str(tmp_path / "mine"),
    ]
    expected = ["mine exists and is an export to sentence-transformers; pass a folder that does not exist"]
    assert_refused(run(arguments), capsys.readouterr(), expected)
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["weft.json"]


def test_weights_that_are_not_finite_are_refused(home, tmp_path):
    model = weft.load(home / "bundle")
    with torch.no_grad():
        model.heads["classify-3"].weight[0, 0, 0] = torch.nan
    with pytest.raises(weft.WeftError, match="its head: not finite numbers"):
        weft.interop.export_hf(model, "classify", tmp_path / "x")


def test_a_class_that_computes_something_else_is_refused(model, tmp_path, monkeypatch):
    """A release of transformers may change a head: nothing is written then."""
    forward = transformers.BertForSequenceClassification.forward

    def changed(*args, **kwargs):
        output = forward(*args, **kwargs)
        output.logits = output.logits + 0.1
        return output

    monkeypatch.setattr(transformers.BertForSequenceClassification, "forward", changed)
    with pytest.raises(
        weft.WeftError, match=r"computes other logits than weft, the largest difference is 0\.1"
    ):
        weft.interop.export_hf(model, "classify", tmp_path / "x")
    assert not (tmp_path / "x").exists()
