"""The READMEs of exports: their code is Python whatever columns and labels are named, and fills templates."""

from __future__ import annotations

import ast
import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from tests.support.tiny import tiny
from weft.interop.cards import code_span
from weft.interop.example_code import expression, prefix_of
from weft.interop.hf import card as hf
from weft.interop.hf.classes import ANSWERING, answering
from weft.interop.peft import card as peft
from weft.interop.sentence_transformers import card as sentences
from weft.tasks.kinds import KINDS

HOSTILE = st.text(st.sampled_from("ab '\"\\`\n\r\t#%é☂\u2028$<|\0"), min_size=1, max_size=9)
"""Names of columns and labels; braces make a template of a column."""
COLUMN = st.text(st.sampled_from("ab '\"`\n#é"), min_size=1, max_size=5)
"""Names that `str.format` reads as they are."""


def task_of(kind, columns, labels):
    """A task of a kind with hostile names."""
    two = KINDS[kind].texts[0] == 2
    settings = {"texts": columns if two else columns[:1]}
    if kind in ("classify", "multilabel", "tag"):
        settings["labels"] = tuple(dict.fromkeys([*labels, "x", "y"]))
    if kind in ("choose", "rank"):
        settings |= {"choices": ("c",), "texts": columns}
    return weft.Task("it", kind, **settings)


def cards_of(task):
    """The README in every format; nothing is exported."""
    model = weft.Model(tiny("bert"), [task], "frozen", max_length=24)
    readmes = []
    if task.kind in ANSWERING:
        facts = {"note": None, "half": False, "mean_block": True, "difference": 0.0}
        exported = SimpleNamespace(answering=answering(task), model=tiny("bert"), **facts)
        readmes.append(hf.card(model, task, exported, True))
    for output in ("vectors", "logits")[: 2 if model.heads[task.head].reads == "pooled" else 1]:
        readmes.append(sentences.card(model, task, output, False))
    if task.kind in ANSWERING:
        config = {
            "base_model_name_or_path": 'it\'s "x"',
            "lora_bias": False,
            "task_type": "FEATURE_EXTRACTION",
        }
        readmes.append(peft.card(model, task, config, None))
        if task.kind in ("classify", "regress"):
            readmes.append(peft.card(model, task, config | {"task_type": "SEQ_CLS"}, "org: name"))
    return readmes


def code_of(readme):
    """The only block of code of a README."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", readme, re.M | re.S)
    return code


def texts_of(code):
    """The texts in a piece of code."""
    return {node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)}


@pytest.mark.parametrize("kind", [*ANSWERING, "similarity"])
@given(st.tuples(HOSTILE, HOSTILE), st.lists(HOSTILE, max_size=3))
def test_the_code_is_python_whatever_names_there_are(kind, columns, labels):
    task = task_of(kind, columns, labels)
    for readme in cards_of(task):
        found = texts_of(code_of(readme))
        if "PeftModel" in readme and kind == "tag":
            assert set(task.labels) <= found
        if "PeftModel" in readme and kind in ("classify", "rank"):
            assert {f"the {column}" for column in task.texts} <= found


def escape(text):
    return text.replace("{", "{{").replace("}", "}}")


AROUND = st.text(st.sampled_from("ab {}'\"\\\n:"), max_size=6)


@given(AROUND, COLUMN, AROUND, COLUMN, AROUND)
def test_a_template_is_filled_as_weft_fills_it(before, first, between, second, after):
    one = f"{escape(before)}{{{first}}}{escape(after)}"
    assert eval(expression(one, "cat")) == f"{before}cat{after}"
    assert prefix_of(one) == (None if after else before)
    two = f"{escape(before)}{{{first}}}{escape(between)}{{{second}}}{escape(after)}"
    # with several columns each is named
    assert eval(expression(two, "cat")) == f"{before}the {first}{between}the {second}{after}"
    assert prefix_of(two) is None


@given(HOSTILE)
def test_a_plain_column_is_no_template(column):
    assert eval(expression(column)) == f"the {column}"
    assert prefix_of(column) == ""


@given(HOSTILE)
def test_code_within_a_line_stays_in_it(text):
    span = code_span(text)
    fence = re.match("`+", span)[0]
    assert span.endswith(fence)
    assert not re.search(f"(?<!`){fence}(?!`)", span[len(fence) : -len(fence)])
    assert span.splitlines() == [span]


@pytest.mark.parametrize("kind", [*ANSWERING, "similarity"])
def test_templates_are_named_and_filled(kind):
    task = task_of(kind, ("query: {a}", "{b}, {c}"), ["x"])
    for readme in cards_of(task):
        assert "`query: {a}`" in readme
        assert "query: {a}" not in code_of(readme)
        prompted = "config_sentence_transformers.json" in readme
        assert ("query: " in texts_of(code_of(readme))) != prompted
        assert prompted == (
            kind in ("classify", "multilabel", "regress", "tag") and "SentenceTransformer" in readme
        )
        if len(task.texts) == 2:
            assert "the second text as `{b}, {c}`" in readme
            assert {"the b", ", ", "the c"} <= texts_of(code_of(readme))
