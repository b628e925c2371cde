"""Compacted models in the real PEFT: ranks by site, dead sites, the way back; tiny encoders and MiniLM."""

from __future__ import annotations

import copy

import pytest
import torch
from peft import PeftModel

import weft
from tests.support.peft_twin import CLOSE, config_of, load, rows
from tests.support.tiny import TASKS, build, scramble, tiny
from weft.adapters.gate import OPEN, SHUT
from weft.encoder.load import load_encoder
from weft.interop import export_peft, load_peft
from weft.training.optim.l0 import gates_of


def shut(model, share=0.6):
    """Shut gates at random, and all of the first site's."""
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for number, gate in enumerate(gates_of(model)):
            closed = torch.rand(gate.alpha.shape, generator=generator) < (share if number else 1.1)
            gate.alpha.copy_(torch.where(closed, SHUT, OPEN))
    return model


@pytest.mark.parametrize("family", ["bert", "modernbert", "deberta-v3"])
@pytest.mark.parametrize(
    "method",
    [
        {"use": "morris", "rank": 6, "bias_rank": 3, "l0": True},
        {"use": "morris", "rank": 5, "core": "tucker", "l0": True},
        {"use": "lora", "rank": 4, "alpha": 2, "l0": True},
    ],
    ids=["morris", "tucker", "lora"],
)
def test_compacted_in_peft_and_back(method, family, tmp_path):
    gated = shut(scramble(build(family, method)))
    small = gated.compact()
    for task in TASKS:
        inputs, real, ours = rows(gated, task.name)
        export_peft(small, task.name, tmp_path / task.name, head="file")
        with torch.no_grad():
            found = load(family, tmp_path / task.name)(**inputs).last_hidden_state
        torch.testing.assert_close(found[real], ours.hidden[real], **CLOSE)
    every = [config_of(tmp_path / task.name) for task in TASKS]
    assert any(said["rank_pattern"] for said in every)  # sites differ in what is left of them
    for said in every:
        assert said["rank_pattern"] == said["alpha_pattern"]
        assert said["lora_alpha"] == said["r"]
    again = load_peft(tmp_path / "b", encoder=tiny(family)).eval()
    inputs, real, ours = rows(gated, "b")
    with torch.no_grad():
        back = again.run(**inputs)
    torch.testing.assert_close(back.hidden[real], ours.hidden[real], **CLOSE)
    torch.testing.assert_close(back.logits[0], ours.logits[0], **CLOSE)


@pytest.mark.slow
def test_minilm_compacted_in_peft(tmp_path):
    """The real encoder: gated, compacted and in PEFT, three times the same vectors of real text."""
    tasks = [weft.Task("one", labels=("no", "yes")), weft.Task("two", "regress", texts=("a", "b"))]
    model = shut(scramble(weft.Model("minilm", tasks, {"use": "morris", "rank": 12, "l0": True}).eval()), 0.8)
    small = model.compact()
    texts = ["Cats sleep all day.", "It rains; the road to the village is wet.", "Why not?"]
    inputs = dict(model.tokenizer(texts, padding=True, return_tensors="pt"))
    real = inputs["attention_mask"].bool()
    plain = load_encoder("minilm").model
    with torch.no_grad():
        bare = plain(**inputs).last_hidden_state
        for number, task in enumerate(tasks):
            ours = model.run(**inputs, task=torch.full((3,), number)).hidden
            assert float((ours - bare)[real].abs().max()) > 0.1  # the task does change the encoder
            compacted = small.run(**inputs, task=torch.full((3,), number)).hidden
            torch.testing.assert_close(compacted[real], ours[real], **CLOSE)
            merged = small.merge(task.name)(**inputs).last_hidden_state
            torch.testing.assert_close(merged[real], ours[real], **CLOSE)
            export_peft(small, task.name, tmp_path / task.name)
            twin = PeftModel.from_pretrained(copy.deepcopy(plain), str(tmp_path / task.name)).eval()
            torch.testing.assert_close(twin(**inputs).last_hidden_state[real], ours[real], **CLOSE)
