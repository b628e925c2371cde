"""The real PEFT beside weft: exported folders loaded on bare copies of the tiny encoders, and compared."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor
from transformers import AutoModelForSequenceClassification

import weft
from tests.support.tiny import batch, tiny

WEIGHTS = "adapter_model.safetensors"
TASK = weft.Task("a", labels=("no", "yes"))
CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}
SEVERAL = (
    weft.Task("a", labels=("no", "yes")),
    weft.Task("b", labels=("x", "y", "z"), texts=("first", "second")),
    weft.Task("c", "regress", range=(0, 5)),
)

METHODS: dict[str, Any] = {
    "lora": {"use": "lora", "rank": 3, "alpha": 6},
    "lora group": {"use": "lora", "rank": 3, "share": {"both": ["a", "c"]}},
    "lora all": {"use": "lora", "rank": 2, "share": "all", "sites": ["key", "ffn_in", "ffn_out"]},
    "lora ranks": {"use": "lora", "rank": 4, "alpha": 2, "rank_pattern": {"0/query": 1, "1/value": 0}},
    "two loras": [
        {"use": "lora", "rank": 3, "alpha": 6},
        {"use": "lora", "rank": 2, "sites": "value, ffn_in"},
    ],
    "poly": {"use": "poly", "rank": 3, "skills": 4, "splits": 2},
    "lora_bitfit": {"use": "lora_bitfit", "rank": 2, "alpha": 3},
    "bitfit dense": {"use": "bitfit", "biases": "dense"},
    "morris": {"use": "morris", "rank": 5, "bias_rank": 2},
    "morris no biases": {"use": "morris", "rank": 5, "biases": "none", "sites": "query, key, ffn_out"},
    "tucker": {"use": "morris", "rank": 5, "core": "tucker", "task_rank": 2, "biases": "none"},
    "morris gates": {"use": "morris", "rank": 4, "bias_rank": 2, "l0": True},
    "tucker gates": {"use": "morris", "rank": 4, "core": "tucker", "l0": True},
    "dora": {"use": "dora", "rank": 3, "alpha": 6},
    "dora ranks": {"use": "dora", "rank": 3, "share": "all", "rank_pattern": {"0/query": 1, "1/value": 0}},
    "dora beside lora": [
        {"use": "dora", "rank": 3, "sites": "query, ffn_in"},
        {"use": "lora", "rank": 2, "sites": "value"},
    ],
    "frozen": "frozen",
}
NORMS: dict[str, Any] = {
    "lora_bitfit norms": {"use": "lora_bitfit", "rank": 2, "biases": "all"},
    "morris norms": {"use": "morris", "rank": 3, "bias_rank": 2, "biases": "all"},
    "bitfit": {"use": "bitfit", "biases": "all"},
    "task_norm": ["task_norm", {"use": "lora", "rank": 2}],
    "dora norms": [{"use": "dora", "rank": 2}, {"use": "bitfit", "sites": "norm_1"}],
}


def rows(model: weft.Model, task: str) -> tuple[dict[str, Tensor], Tensor, weft.Output]:
    """Padded rows of one task, where they have tokens, and what the model makes of them."""
    inputs = batch(model)
    inputs["task"] = torch.full_like(inputs["task"], model.task_id(task))
    with torch.no_grad():
        ours = model.run(**inputs)
    del inputs["task"]
    return inputs, inputs["attention_mask"].bool(), ours


def logits(model: weft.Model, output: weft.Output, task: str) -> Tensor:
    return output.by_shape[model.tasks[model.task_id(task)].head]


def load(family: str, folder: Path) -> Any:
    """PEFT's model of an exported encoder, on a bare copy."""
    return PeftModel.from_pretrained(tiny(family), str(folder)).eval()


def load_classifier(family: str, folder: Path, size: int) -> Any:
    """PEFT's model of an exported encoder with its head, on the family's own model with a random head."""
    return PeftModel.from_pretrained(bare_classifier(family, size), str(folder)).eval()


def bare_classifier(family: str, size: int) -> Any:
    encoder = tiny(family)
    config = copy.deepcopy(encoder.config)
    config.num_labels = size
    whole = AutoModelForSequenceClassification.from_config(config).eval()
    lacking = getattr(whole, encoder.base_model_prefix).load_state_dict(encoder.state_dict(), strict=False)
    assert not lacking.missing_keys
    return whole


def config_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "adapter_config.json").read_text())


def change_json(path: Path, **changes: Any) -> None:
    said = json.loads(path.read_text())
    path.write_text(json.dumps(said | changes))


@torch.no_grad()
def moved(twin: Any, seed: int = 5) -> Any:
    """Every trainable value away from its start."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in twin.parameters():
        if parameter.requires_grad:
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return twin.eval()


def saved(folder: Path, base: Any, **settings: Any) -> Any:
    """A folder as PEFT itself writes it, and the model it was saved from."""
    twin = moved(get_peft_model(base, LoraConfig(lora_dropout=0.0, **settings)))
    twin.save_pretrained(str(folder))
    return twin
