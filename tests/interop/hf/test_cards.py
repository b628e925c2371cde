"""What a README says is so: templates, choices with two texts, truncation, numbers in other libraries."""

from __future__ import annotations

import re

import pytest
import torch
import transformers

import weft
from tests.support.every_kind import TAGS
from tests.support.tiny import scramble
from tests.support.tiny_run import save_encoder
from weft.interop import export_hf

TEXT = "the old cat sees a red dog"
OTHER = "a bird likes the dog here"
LONG = " ".join([TEXT] * 6)
NEAR = {"rel": 1e-5, "abs": 1e-5}

TASKS = [
    weft.Task("one", labels=("no", "yes"), texts="the bird : {text}"),
    weft.Task("pair", labels=("no", "yes"), texts=("old {a}", "{b} here")),
    weft.Task("mean", labels=("no", "yes"), pool="mean"),
    weft.Task("raw", "regress", texts=("a", "b"), label="score"),
    weft.Task("rank", "rank", texts=("old {q}",), choices=("c",), label="relevance"),
    weft.Task("two", "choose", texts=("p", "red {q}"), choices=("c",)),
    weft.Task("span", "span", texts=("old {q}", "a {c}"), label="answers"),
    weft.Task("tag", "tag", labels=TAGS, texts=("words",), label="tags"),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("cards")


@pytest.fixture(scope="module")
def model(home):
    model = weft.Model(save_encoder(home / "encoder"), TASKS, {"use": "lora", "rank": 2}, max_length=24)
    with torch.no_grad():
        model.heads["tag-5"].weight.mul_(20)  # so that tags differ from word to word
    return scramble(model).eval()


@pytest.fixture(scope="module")
def folder(home, model):
    """The folder of a task, exported once."""

    def of(task):
        out = home / task
        return out if out.exists() else export_hf(model, task, out)

    return of


def run_readme(out, monkeypatch, **words):
    """Run the code of a README with other texts; return what it printed."""
    (code,) = re.findall(r"```python\n(.*?)```", (out / "README.md").read_text(encoding="utf-8"), re.S)
    for before, after in words.items():
        assert before.replace("_", " ") in code
        code = code.replace(before.replace("_", " "), after)
    monkeypatch.chdir(out)
    printed: list = []
    exec(code, {"print": printed.append})
    return printed[0]


def by_label(answers):
    return {answer["label"]: answer["score"] for answer in answers}


def test_the_code_fills_templates(model, folder, monkeypatch):
    (found,) = run_readme(folder("one"), monkeypatch, the_text=TEXT)
    assert by_label(found) == pytest.approx(model.predict("one", {"text": TEXT})["probabilities"], **NEAR)
    found = run_readme(folder("pair"), monkeypatch, the_a=TEXT, the_b=OTHER)
    (expected,) = model.predict("pair", [{"a": TEXT, "b": OTHER}])
    assert by_label(found) == pytest.approx(expected["probabilities"], **NEAR)
    words = {"the_question": OTHER, "the_context_that_holds_the_answer": TEXT}
    answer = run_readme(folder("span"), monkeypatch, **words)
    assert answer == model.predict("span", [{"q": OTHER, "c": TEXT}])[0]["answer"]


def test_the_code_of_choices(model, folder, monkeypatch):
    choices = ["a very old bird", "here"]
    words = {"the_first_choice": choices[0], "the_second_choice": choices[1]}
    found = run_readme(folder("rank"), monkeypatch, the_q=TEXT, **words)
    (expected,) = model.predict("rank", [{"q": TEXT, "c": choices}])
    assert [answer["score"] for answer in found] == pytest.approx(expected["scores"], **NEAR)
    for second in (OTHER, "a @placeholder likes it"):
        found = run_readme(folder("two"), monkeypatch, the_p=TEXT, the_q=second, **words)
        (expected,) = model.predict("two", [{"p": TEXT, "q": second, "c": choices}])
        assert found[0].tolist() == pytest.approx(expected["probabilities"], **NEAR)


def test_a_cross_encoder_gives_numbers_as_they_are(model, folder):
    package = pytest.importorskip("sentence_transformers")
    score = package.CrossEncoder(str(folder("raw")), device="cpu")
    found = score.predict([(TEXT, OTHER), (OTHER, TEXT)]).tolist()
    expected = [answer["value"] for answer in model.predict("raw", [(TEXT, OTHER), (OTHER, TEXT)])]
    assert found == pytest.approx(expected, **NEAR)
    score = package.CrossEncoder(str(folder("rank")), device="cpu")
    found = score.predict([(f"old {TEXT}", choice) for choice in (OTHER, TEXT)]).tolist()
    (answer,) = model.predict("rank", [{"q": TEXT, "c": [OTHER, TEXT]}])
    assert found == pytest.approx(answer["scores"], **NEAR)
    # of several labels it gives logits, as before
    found = package.CrossEncoder(str(folder("pair")), device="cpu").predict(
        [(f"old {TEXT}", f"{OTHER} here")]
    )
    (expected,) = model.predict("pair", [{"a": TEXT, "b": OTHER}])
    chances = torch.tensor(found[0]).softmax(-1).tolist()
    assert chances == pytest.approx(list(expected["probabilities"].values()), **NEAR)


def test_a_single_number_has_the_tasks_name(folder):
    for task in ("raw", "rank"):
        config = transformers.AutoConfig.from_pretrained(folder(task))
        assert config.id2label == {0: task}


def test_no_other_export_is_advised_for_separate_encoders(tmp_path):
    """ONNX, which other messages advise, has no place for them."""
    encoder = save_encoder(tmp_path / "encoder")
    tasks = [weft.Task("near", "similarity", texts=("a", "b"))]
    for method, advised in (("separate", False), ("frozen", True)):
        model = weft.Model(encoder, tasks, method, max_length=24)
        with pytest.raises(weft.WeftError, match="no class of transformers compares them") as refused:
            export_hf(model, "near", tmp_path / "x")
        assert ("--to onnx" in str(refused.value)) == advised


def test_truncation_of_the_pipelines(folder):
    """The README says which pipeline takes `truncation`, and that of tags cuts texts without it."""
    tag = transformers.pipeline("token-classification", str(folder("tag")), aggregation_strategy="simple")
    with pytest.raises(TypeError, match="truncation"):
        tag(LONG, truncation=True)
    assert max(entity["end"] for entity in tag(LONG)) < len(LONG) * 3 // 4
    windows = transformers.pipeline(
        "token-classification", str(folder("tag")), aggregation_strategy="simple", stride=4
    )
    assert max(entity["end"] for entity in windows(LONG)) > len(LONG) * 3 // 4
    readmes = {
        task: (folder(task) / "README.md").read_text(encoding="utf-8")
        for task in ("tag", "span", "two", "one")
    }
    said = {task: "With `truncation=True` texts are cut" in readme for task, readme in readmes.items()}
    assert said == {"tag": False, "span": False, "two": False, "one": True}
    said = {task: "pipeline" in readme for task, readme in readmes.items()}
    assert said == {"tag": True, "span": False, "two": False, "one": True}


def test_the_warnings_of_the_mean_block_are_true(model, folder):
    """Autocast to float16 loses the mean; the README warns of it, and of int8."""
    readme = (folder("mean") / "README.md").read_text(encoding="utf-8")
    assert "under autocast to float16" in readme
    assert "--to onnx --set precision=int8" in readme
    assert "int8" not in (folder("tag") / "README.md").read_text(encoding="utf-8")
    exported = transformers.AutoModelForSequenceClassification.from_pretrained(folder("mean")).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder("mean"))
    inputs = tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        right = exported(**inputs).logits
        with torch.autocast("cpu", dtype=torch.float16):
            wrong = exported(**inputs).logits
    expected = torch.tensor(list(model.predict("mean", TEXT)["probabilities"].values()))
    torch.testing.assert_close(right.softmax(-1)[0], expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(wrong.float(), right, atol=1e-2)
