"""Every method on every family, with all kinds in one graph: outputs equal torch's for any batch.

An export takes seconds, so `make test-all` runs a diagonal: every method once, on the families of the
conformance table in turns, and LoRA on the others. `WEFT_ONNX=all` runs every method on every family of the
table and six on the others, `WEFT_ONNX=settings` every setting of the table too.
"""

from __future__ import annotations

import os
import random
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from tests.conformance.table import METHODS
from tests.support.every_kind import task_of_kind, tokens_of
from tests.support.exported import exact_methods
from tests.support.more import some_of
from tests.support.tiny import CORE_FAMILIES, FAMILIES, build, scramble
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.data.batching.batch import make_batch
from weft.interop.onnx.graph import Graph, output_names, to_onnx
from weft.methods import METHODS as REGISTERED
from weft.tasks.kinds import KINDS

TASKS = ("classify", "apart", "regress", "multilabel", "cosine", "marked", "span", "tag", "choose", "rank")
EACH = 3
NAMES = [name for name in METHODS if name in REGISTERED and name != "separate"]
CORE = ("lora", "bitfit", "houlsby", "pals", "morris", "ca_mtl")
WHICH = os.environ.get("WEFT_ONNX", "diagonal")
TABLE = {
    "diagonal": [(name, FAMILIES[n % len(FAMILIES)]) for n, name in enumerate(NAMES)],
    "all": [(name, family) for family in FAMILIES for name in NAMES],
    "settings": [(name, family) for family in FAMILIES for name in METHODS if name != "separate"],
}[WHICH]
CASES = TABLE + [
    (name, family) for family in CORE_FAMILIES for name in (CORE[:1] if WHICH == "diagonal" else CORE)
]


@cache
def tasks():
    return tuple(task_of_kind(name, EACH) for name in TASKS)


@cache
def tokens():
    return tuple(tokens_of(task, tiny_tokenizer("words")) for task in tasks())


def method_of(name: str) -> Any:
    """The setting of the conformance table; its groups are of tasks that are here."""
    groups = {"first": ["classify", "regress"], "second": ["span"]}

    def fitted(part):
        return (
            {**part, "share": groups}
            if isinstance(part, dict) and isinstance(part.get("share"), dict)
            else part
        )

    setting = METHODS[name]
    return [fitted(part) for part in setting] if isinstance(setting, list) else fitted(setting)


def rows_of(model, count: int, seed: int) -> dict[str, torch.Tensor]:
    """The rows of some examples of mixed tasks, the rows in any order."""
    draw = random.Random(seed)
    chosen = draw.sample([(t, i) for t in range(len(TASKS)) for i in range(EACH)], count)
    given = [(tokens()[t], i) for t, i in chosen]
    inputs = dict(make_batch(model, given, np.array([t for t, _ in chosen]), torch.device("cpu")).inputs)
    rows = len(inputs["input_ids"])
    inputs.setdefault("example", torch.arange(rows))
    order = torch.tensor(draw.sample(range(rows), rows))
    return {name: value[order] for name, value in inputs.items()}


def test_every_kind_is_here():
    assert {task.kind for task in tasks()} == set(KINDS)
    assert {family for _, family in CASES} == {*FAMILIES, *CORE_FAMILIES}


def test_the_page_names_what_has_no_graph():
    exact = exact_methods("onnx")
    assert [name for name in exact if not exact[name]] == ["separate"]
    assert set(NAMES) == {name for name in exact if exact[name]}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "case"), some_of(CASES, [CASES[NAMES.index("ca_mtl")]]))
def test_one_graph_equals_torch_for_other_rows_and_lengths(name, case):
    import onnxruntime

    model = scramble(build(case, method_of(name), tasks()))
    graph = Graph(model)
    session = onnxruntime.InferenceSession(
        to_onnx(graph).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    lengths = set()
    for count, seed in ((30, 1), (11, 2), (1, 3), (2, 4)):
        inputs = rows_of(model, count, seed)
        lengths.add(tuple(inputs["input_ids"].shape))
        with torch.no_grad():
            expected = model.run(**inputs)
        zeros = torch.zeros_like(inputs["input_ids"])
        feeds = {key: inputs.get(key, zeros).numpy() for key in graph.inputs}
        found = dict(zip(output_names(graph.shapes), session.run(None, feeds), strict=True))
        real = inputs["attention_mask"].bool()
        for shape, logits in expected.by_shape.items():
            own = torch.from_numpy(found[shape])
            own = own[:count] if model.answers_by[shape] == "example" else own
            if model.answers_by[shape] == "token":
                own, logits = own[real], logits[real]
            torch.testing.assert_close(own, logits, rtol=1e-4, atol=1e-4, msg=lambda m, s=shape: f"{s}: {m}")
    assert len(lengths) >= 3  # other shapes than the traced one
