"""Every method on every family: `--to hf` gives equal logits, or refuses as the page's table says."""

from __future__ import annotations

import pytest
import torch

from tests.conformance.cases import every_case, shared
from tests.conformance.table import METHODS
from tests.support.exported import CLOSE, answers_of, exact_methods, loaded
from tests.support.tiny import batch
from weft.errors import WeftError
from weft.interop import export_hf
from weft.methods import METHODS as REGISTERED
from weft.methods import build_method

EXACT = exact_methods()


def test_the_table_has_every_method():
    assert list(EXACT) == sorted(REGISTERED)
    used = {part.name for settings in METHODS.values() for part in build_method(settings).parts}
    assert used == set(REGISTERED)


@every_case
def test_a_methods_logits_are_equal_or_it_is_refused(method, family, tmp_path):
    model = shared(method, family)
    if not all(EXACT[part.name] for part in model.method.parts):
        with pytest.raises(
            WeftError, match=r"cannot be exported to hf: method .* cannot be merged: "
        ) as refused:
            export_hf(model, "b", tmp_path / "x")
        assert "weft export BUNDLE --to onnx" in str(refused.value)
        assert not (tmp_path / "x").exists()
        return
    rows = batch(model)
    export_hf(model, "b", tmp_path / "x")
    exported = loaded(tmp_path / "x", "AutoModelForSequenceClassification")
    with torch.no_grad():
        logits = exported(rows["input_ids"], attention_mask=rows["attention_mask"]).logits
    torch.testing.assert_close(logits, answers_of(model, "b", rows), **CLOSE)
    assert exported.config.id2label == {0: "x", 1: "y", 2: "z"}
