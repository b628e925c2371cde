"""Every method compiled equals itself uncompiled; see table.py."""

from __future__ import annotations

import copy
from functools import cache

import pytest
import torch

from tests.conformance.cases import CASES, assert_near, model_of
from tests.conformance.table import METHODS
from tests.support.more import on_diagonal, some_of
from tests.support.tiny import batch, build, tiny
from weft.acceleration.compiled import blocks_of
from weft.methods import METHODS as REGISTERED

# tracing takes a second a case: further settings of a method compile in one family, of either anatomy in
# turn; one family is compiled whole, of the others one block, as the engines do it. `make test` compiles
# every sixth method, in one family
WHOLE = "bert"
EITHER = (WHOLE, "modernbert")
FURTHER = {m: EITHER[n % 2] for n, m in enumerate(m for m in METHODS if m not in REGISTERED)}
COMPILED = [c for c in CASES if c.values[0] in REGISTERED or FURTHER[c.values[0]] == c.values[1]]
KEPT = [c for c in COMPILED if c.values[0] in REGISTERED and on_diagonal(*c.values)][::6]


@cache
def compile_bare(family, layers):
    bare = tiny(family, layers=layers)
    inputs = batch(build(family, "frozen", layers=layers))
    with torch.no_grad():
        compiled = torch.compile(bare, backend="eager")
        compiled(inputs["input_ids"], attention_mask=inputs["attention_mask"])
    return compiled  # kept, and with it the graph


@pytest.mark.slow
@pytest.mark.parametrize(("method", "family"), some_of(COMPILED, KEPT))
@pytest.mark.usefixtures("many_graphs")
def test_compiled_equals_eager_after_a_bare_one_was_compiled(method, family):
    # further settings may name blocks, and ca_mtl the top half, which a single block has not
    layers = 1 if method in REGISTERED and method != "ca_mtl" else None
    model = model_of(method, family, layers=layers)
    inputs = batch(model)
    # never reset: the graphs of the bare encoder and of other methods on the same class stay at hand
    compile_bare(family, layers)
    same = copy.deepcopy(model)
    with torch.no_grad():
        if (family == WHOLE and method in REGISTERED) or method == "separate":
            compiled = torch.compile(model, backend="eager", fullgraph=method != "separate")
        else:
            compiled = model
            for block in blocks_of(model.encoder):
                block.compile(backend="eager", fullgraph=True)
        for _ in range(2):
            found, expected = compiled(**inputs), same.run(**inputs)
            assert_near(found.hidden, expected.hidden)
            assert_near(found.logits, expected.logits)
            inputs["task"] = (inputs["task"] + 1) % len(model.tasks)  # other tasks, the same graph
