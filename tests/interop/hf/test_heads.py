"""Every pooling and number of layers in every family: equal logits, or refused as the page's table says."""

from __future__ import annotations

from functools import lru_cache

import pytest
import torch

import weft
from tests.support.exported import CLOSE, answers_of, loaded, table
from tests.support.tiny import CONFIGS, CORE_CONFIGS, CORE_FAMILIES, FAMILIES, batch, scramble, tiny
from weft.encoder.families import FAMILIES as REGISTERED
from weft.errors import WeftError
from weft.interop import export_hf
from weft.interop.hf.classes import ANSWERING
from weft.interop.hf.export import as_hf
from weft.interop.refusals import CannotExport

HEADS = {row["families"]: row for row in table("families")}
COLUMNS = {
    "pooler": {"pool": "pooler"},
    "cls": {"pool": "cls"},
    "mean": {"pool": "mean"},
    "task_pooler": {"pool": "task_pooler"},
    "cls, layers: 2": {"pool": "cls", "layers": 2},
}
ROWS = {name: row for names, row in HEADS.items() for name in names.split(", ")}
TYPES = {family: model_type for family, (model_type, _) in (CONFIGS | CORE_CONFIGS).items()}
EVERY = [*FAMILIES, *CORE_FAMILIES]
EVERY_TOKEN = {"tag": {"labels": ("O", "B-x", "I-x"), "texts": ("words",)}, "span": {"texts": ("q", "c")}}
NO_QUESTIONS = {"esm", "nomic_bert", "gte", "eurobert"}
NO_CHOICES = {"deberta", "esm", "nomic_bert", "gte", "jina_embeddings_v3", "eurobert", "ultrabert"}


@lru_cache(maxsize=2)
def model_of(family: str, column: str) -> weft.Model:
    settings = COLUMNS[column]
    pairs = {"texts": ("a", "b")} | settings
    tasks = [
        weft.Task("classify", labels=("x", "y", "z"), temperature=1.7, **settings),
        weft.Task("regress", "regress", range=(1, 5), **pairs),
        weft.Task("choose", "choose", choices=("c",), **settings),
        *(weft.Task(kind, kind, **more) for kind, more in EVERY_TOKEN.items()),
    ]
    return scramble(weft.Model(tiny(family), tasks, {"use": "lora", "rank": 2}, max_length=24)).eval()


def test_the_tables_have_every_family():
    assert sorted(ROWS) == sorted(REGISTERED)


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("family", EVERY)
def test_a_head_fits_or_is_refused(family, column, tmp_path):
    expected = ROWS[TYPES[family]][column]
    if expected == "-":
        with pytest.raises(WeftError, match="has no pooler"):
            model_of(family, column)
        return
    model = model_of(family, column)
    rows = batch(model)
    for task in ("classify", "regress"):
        if expected == "refused":
            with pytest.raises(WeftError, match=r"its head |its head has| normalizes the mean") as refused:
                export_hf(model, task, tmp_path / task)
            assert "--to onnx" in str(refused.value)
            continue
        export_hf(model, task, tmp_path / task)
        exported = loaded(tmp_path / task, "AutoModelForSequenceClassification")
        with torch.no_grad():
            logits = exported(rows["input_ids"], attention_mask=rows["attention_mask"]).logits
        torch.testing.assert_close(logits, answers_of(model, task, rows), **CLOSE)
        card = (tmp_path / task / "README.md").read_text(encoding="utf-8")
        assert "{" not in card.partition("```")[2].partition("```")[2], "an unfilled place in a sentence"
        words = {"a small tanh": "2⁻²⁰", "differences": "z and −z", "the norm": "final norm"}
        for way, word in (words | {"a block": "the mean of the tokens"}).items():
            assert (word in card) == (way in expected), way


@pytest.mark.parametrize("family", EVERY)
@pytest.mark.parametrize("task", ["tag", "span", "choose"])
def test_heads_of_other_classes(family, task, tmp_path):
    model = model_of(family, "cls")
    lacks = {"span": NO_QUESTIONS, "choose": NO_CHOICES}.get(task, set())
    if TYPES[family] in lacks:
        with pytest.raises(WeftError, match=r"transformers has no class for \w+ of the family"):
            export_hf(model, task, tmp_path / "x")
        return
    rows = batch(model)
    export_hf(model, task, tmp_path / "x")
    exported = loaded(tmp_path / "x", ANSWERING[task].auto_class)
    ids, mask = rows["input_ids"], rows["attention_mask"]
    expected = answers_of(model, task, rows)
    with torch.no_grad():
        if task == "choose":
            output = exported(input_ids=ids.view(2, 4, -1), attention_mask=mask.view(2, 4, -1))
            torch.testing.assert_close(output.logits, expected.view(2, 4), **CLOSE)
            return
        output = exported(ids, attention_mask=mask)
    logits = output.logits if task == "tag" else torch.stack([output.start_logits, output.end_logits], -1)
    torch.testing.assert_close(logits[mask.bool()], expected[mask.bool()], **CLOSE)


@pytest.mark.parametrize("family", ["electra", "roformer"])
def test_multiple_choice_chooses_its_function(family):
    model = model_of(family, "task_pooler")
    exported = as_hf(model, model.tasks[model.task_id("choose")])
    assert exported.model.config.summary_activation == "tanh"


def test_too_many_labels_for_differences():
    model = weft.Model(tiny("electra"), [weft.Task("many", size=17)], "frozen", max_length=24)
    with pytest.raises(CannotExport, match="for at most 16 outputs"):
        as_hf(model, model.tasks[0])
    model = weft.Model(tiny("electra"), [weft.Task("many", size=16)], "frozen", max_length=24)
    assert as_hf(model, model.tasks[0]).difference < 1e-5


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"layers": 3}, "its head has 2 hidden layers, a pooler counted; DebertaV2ForSequenceClassification"),
        ({"layers": 2, "hidden": 33}, "has width 33, and that of DebertaV2ForSequenceClassification 32"),
    ],
)
def test_heads_that_are_too_large(settings, reason):
    model = weft.Model(tiny("deberta-v3"), [weft.Task("a", size=2, **settings)], "frozen", max_length=24)
    with pytest.raises(CannotExport, match=reason):
        as_hf(model, model.tasks[0])


def test_an_encoder_without_a_pooler_gets_one(tmp_path):
    encoder = tiny("bert")
    encoder.pooler = None
    model = weft.Model(encoder, [weft.Task("a", size=2)], "lora", max_length=24)
    rows = batch(model)
    export_hf(scramble(model).eval(), "a", tmp_path / "x")
    exported = loaded(tmp_path / "x", "AutoModelForSequenceClassification")
    with torch.no_grad():
        logits = exported(rows["input_ids"], attention_mask=rows["attention_mask"]).logits
    torch.testing.assert_close(logits, answers_of(model, "a", rows), **CLOSE)


def test_bfloat16_keeps_the_small_tanh():
    model = model_of("bert", "cls")
    exported = as_hf(model, model.tasks[0]).model.bfloat16()
    rows = batch(model)
    with torch.no_grad():
        logits = exported(rows["input_ids"], attention_mask=rows["attention_mask"]).logits
    torch.testing.assert_close(logits.float(), answers_of(model, "classify", rows), rtol=0.05, atol=0.05)
