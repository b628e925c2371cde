"""The authors' checkpoints of CA-MTL: their own numbers (golden), base and large, and what is refused."""

from __future__ import annotations

import json

import torch
from safetensors.torch import load_file

from tests.golden import golden
from weft.interop import load_ca_mtl

NEAR = {"rtol": 0, "atol": 1e-5}


def read(name):
    folder = golden("ca_mtl")
    told = json.loads((folder / f"{name}.json").read_text())
    tensors = load_file(folder / f"{name}.safetensors")

    def part(prefix):
        return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

    return told, part


def test_golden_base_model():
    told, part = read("model_base")
    model = load_ca_mtl(part("param."), told["config"], told["tasks"])
    given, mid, out = part("in."), part("mid."), part("out.")
    inputs = [given[k] for k in ("input_ids", "attention_mask", "token_type_ids", "task_id")]
    found = model.run(*inputs, layers=True)
    for n in range(4):
        torch.testing.assert_close(found.layers[n + 1], mid[f"layer{n}"], **NEAR)
    torch.testing.assert_close(found.layers[0], mid["aligned"], **NEAR)
    torch.testing.assert_close(found.hidden, out["sequence_output"], **NEAR)
    torch.testing.assert_close(found.pooled, out["pooled"], **NEAR)
    task = given["task_id"].tolist()
    for t, name in enumerate(told["tasks"]):
        own = [logits for logits, one in zip(found.logits, task, strict=True) if one == t]
        torch.testing.assert_close(torch.stack(own), out[f"logits.{name}"], **NEAR)
    kinds = [model.tasks[t].kind for t in task]
    values = given["labels"].tolist()
    values = [v if k == "regress" else int(v) for v, k in zip(values, kinds, strict=True)]
    labels = model.collate_labels(values, given["task_id"])
    losses = model.example_losses(found, labels)
    for t in range(4):
        own = losses[given["task_id"] == t].mean()
        torch.testing.assert_close(own, out["loss_per_task"][0, t], **NEAR)
    torch.testing.assert_close(model.loss(found, labels)[None], out["loss"], **NEAR)
