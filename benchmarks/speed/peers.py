"""PEFT with Transformers as it is commonly used: LoRA of rank 8 on query and value, eager.

Weights are float32 under bf16 autocast on a GPU, attention is sdpa, AdamW is the fused one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor
from transformers import AutoModelForSequenceClassification

from benchmarks.speed.encoders import fresh
from benchmarks.speed.machine import half_precision
from benchmarks.speed.weft_step import random_rows

RANK = 8
TARGETS = ["query", "value"]
RATE = 1e-3


def lora_config(**more: Any) -> LoraConfig:
    """Rank 8 on query and value, scaled by 1, without dropout: weft's defaults."""
    return LoraConfig(r=RANK, lora_alpha=RANK, lora_dropout=0.0, target_modules=TARGETS, **more)


def classifier(encoder: str, device: torch.device, labels: int = 2) -> Any:
    """A sequence classifier of Transformers over an encoder, with one LoRA."""
    base = fresh(encoder, device).model
    config = base.config
    config.num_labels = labels
    whole = AutoModelForSequenceClassification.from_config(config, attn_implementation="sdpa")
    setattr(whole, whole.base_model_prefix, base)
    return get_peft_model(whole, lora_config(task_type="SEQ_CLS")).to(device)


def peft_step(
    encoder: str, device: torch.device, rows: int, length: int
) -> tuple[Callable[[], None], tuple[object, ...]]:
    """A whole training step of one task on random rows, and the objects that it keeps."""
    model = classifier(encoder, device).train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, weight_decay=0.01, fused=True)
    inputs = random_rows(rows, length, 1, device)
    labels = inputs.pop("task")

    def step() -> None:
        with half_precision(device):
            loss = model(**inputs, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step, (model, optimizer)


def adapted(encoder: str, device: torch.device, tasks: int) -> Any:
    """An encoder with one LoRA per task, named t0, t1, …"""
    base = fresh(encoder, device).model
    model: Any = get_peft_model(base, lora_config(), adapter_name="t0")
    for number in range(1, tasks):
        model.add_adapter(f"t{number}", lora_config())
    return model.to(device).eval()


def adapter_names_pass(model: Any, inputs: dict[str, Tensor]) -> Callable[[], object]:
    """Mixed rows in one pass: PEFT's `adapter_names`, one name per row."""
    device = inputs["input_ids"].device
    names = [f"t{number}" for number in inputs["task"].tolist()]
    given = {name: value for name, value in inputs.items() if name != "task"}

    def run() -> object:
        with torch.no_grad(), half_precision(device):
            return model(**given, adapter_names=names)

    return run


def one_after_the_other(model: Any, inputs: dict[str, Tensor]) -> Callable[[], object]:
    """One pass per task, with its adapter activated before."""
    device = inputs["input_ids"].device
    task = inputs["task"]
    given = {name: value for name, value in inputs.items() if name != "task"}
    parts = [
        (f"t{number}", {name: value[task == number] for name, value in given.items()})
        for number in sorted(set(task.tolist()))
    ]

    def run() -> object:
        found = []
        with torch.no_grad(), half_precision(device):
            for name, part in parts:
                model.set_adapter(name)
                found.append(model(**part))
        return found

    return run
