"""Records numbers of the package `adapters`: outputs and gradients of small encoders, and its names.

It runs in an environment of its own, because `adapters` needs an older transformers than weft:

    python -m venv /tmp/adapters && /tmp/adapters/bin/pip install torch adapters==1.3.0 safetensors
    /tmp/adapters/bin/python tests/golden/adapters/record.py

Each file has one BERT of random weights (`param.base.*`), the adapters of three tasks (`param.TASK.*`), token
ids, tasks and a weight of each output (`in.*`), the last hidden states (`out.hidden`) and the gradients of
Σ weight·hidden (`grad.TASK.*`).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from adapters.configuration import adapter_config
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.utils import parametrize
from transformers import BertConfig, BertModel

import adapters
from adapters import composition

HERE = Path(__file__).parent
TASKS = ("a", "b", "c")
ROWS, LENGTH, WIDTH = 6, 5, 8
SIZES = {
    "vocab_size": 20,
    "hidden_size": WIDTH,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 8,
}
SOURCE = f"adapters {adapters.__version__} from PyPI, unmodified"


@torch.no_grad()
def encoder(generator: torch.Generator) -> BertModel:
    """A BERT of random weights, larger than at the start of a training."""
    model = BertModel(BertConfig(**SIZES, attn_implementation="eager"), add_pooling_layer=False).eval()
    for parameter in model.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return model


@torch.no_grad()
def scramble(parameters: list[Tensor], generator: torch.Generator) -> None:
    """Move the adapters away from their start."""
    for parameter in parameters:
        parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.4)


def of_task(model: BertModel, task: str) -> dict[str, Tensor]:
    """The parameters of one task's adapter; what tasks share is listed for each of them."""
    parts = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        for kind in ("loras", "refts", "adapters"):
            before, dot, after = name.partition(f".{kind}.{task}.")
            if dot:
                parts[f"{before}.{after}"] = parameter
    return parts


def free(model: BertModel) -> list[Tensor]:
    """Every parameter of the adapters once, but those behind orthonormal rows, which start at random.

    Their diagonals must be 1 or -1: other values make torch's rows shorter than 1.
    """
    parts = [(key, p) for task in TASKS for key, p in of_task(model, task).items()]
    return list({id(p): p for key, p in parts if "parametriz" not in key}.values())


def record(name: str, config: Any, run: Callable[[BertModel, Tensor, Tensor], Tensor], note: str) -> None:
    """Write the numbers of one configuration.

    Args:
        name: of the files.
        config: one adapter with it is added per task.
        run: (model, token ids, tasks) → last hidden states.
        note: what is particular about it.
    """
    generator = torch.Generator().manual_seed(0)
    model = encoder(generator)
    tensors = {f"param.base.{key}": value.clone() for key, value in model.state_dict().items()}
    adapters.init(model)
    torch.manual_seed(0)
    for task in TASKS:
        model.add_adapter(task, config=config)
    if isinstance(config, adapter_config.MultiTaskConfig):
        model.share_parameters(list(TASKS))
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    model.eval()
    scramble(free(model), generator)
    ids = torch.randint(0, SIZES["vocab_size"], (ROWS, LENGTH), generator=generator)
    task = torch.tensor([2, 0, 1, 1, 0, 2])
    weight = torch.randn(ROWS, LENGTH, WIDTH, generator=generator)
    with parametrize.cached():
        hidden = run(model, ids, task)
        rotations = {f"{t}.{k}": r for t in TASKS for k, r in orthonormal(model, t).items()}
        named = {f"{t}.{k}": p for t in TASKS for k, p in of_task(model, t).items() if "parametriz" not in k}
        named |= rotations
        gradients = torch.autograd.grad((hidden * weight).sum(), list(named.values()))
    tensors |= {"in.ids": ids, "in.task": task, "in.weight": weight, "out.hidden": hidden}
    tensors |= {f"param.{key}": value for key, value in named.items()}
    tensors |= {f"grad.{key}": value for key, value in zip(named, gradients, strict=True)}
    kept = {
        key: value.detach().clone(memory_format=torch.contiguous_format) for key, value in tensors.items()
    }
    save_file(kept, HERE / f"{name}.safetensors")
    settings = {key: value for key, value in config.to_dict().items() if value is not None}
    facts = {"source": SOURCE, "note": note, "encoder": SIZES, "tasks": TASKS, "config": settings}
    (HERE / f"{name}.json").write_text(json.dumps(facts, indent=1) + "\n")


def orthonormal(model: BertModel, task: str) -> dict[str, Tensor]:
    """LoReFT's projections as the pass has computed them (inside `parametrize.cached`)."""
    return {
        f"{name.partition('.refts.')[0]}.{name.partition(f'.{task}.')[2]}.weight": module.weight
        for name, module in model.named_modules()
        if f".refts.{task}." in name and parametrize.is_parametrized(module)
    }


def mixed(model: BertModel, ids: Tensor, task: Tensor) -> Tensor:
    """One pass, in which adapters splits the batch by task."""
    model.active_adapters = composition.MultiTask(*TASKS)
    return model(ids, task_ids=[TASKS[t] for t in task.tolist()]).last_hidden_state


def in_turn(model: BertModel, ids: Tensor, task: Tensor) -> Tensor:
    """One pass per task."""
    rows: dict[int, Tensor] = {}
    for number, name in enumerate(TASKS):
        model.active_adapters = name
        chosen = (task == number).nonzero()[:, 0]
        rows |= dict(zip(chosen.tolist(), model(ids[chosen]).last_hidden_state, strict=True))
    return torch.stack([rows[row] for row in range(len(ids))])


def names() -> None:
    """Write the configurations of the package and their settings."""
    found = {
        name: sorted(field.name for field in dataclasses.fields(value))
        if dataclasses.is_dataclass(value)
        else []
        for name, value in vars(adapter_config).items()
        if isinstance(value, type) and issubclass(value, adapter_config.AdapterConfig)
    }
    abstract = {"AdapterConfig", "BnConfig", "MultiTaskConfig", "ReftConfig"}
    kept = {name: fields for name, fields in sorted(found.items()) if name not in abstract}
    facts = {"source": SOURCE, "note": "names of configurations and of their settings", "configs": kept}
    (HERE / "names.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    names()
    record(
        "mtl_lora",
        adapter_config.MTLLoRAConfig(r=3, alpha=6, n_up_projection=2, weights_sharpness=0.7),
        mixed,
        "Λ_t is diagonal; the tasks share lora_A and lora_B",
    )
    record("ia3", adapter_config.IA3Config(), in_turn, "keys, values and the output of the FFN's first map")
    record(
        "loreft",
        adapter_config.LoReftConfig(r=3, prefix_positions=LENGTH, tied_weights=True, dropout=0.0),
        in_turn,
        "every token is edited, by one set; the gradient of the projection is that of its orthonormal rows",
    )
    record(
        "double_seq_bn",
        adapter_config.DoubleSeqBnConfig(reduction_factor=2, non_linearity="relu"),
        in_turn,
        "bottlenecks after both sub-layers",
    )
