"""Exporting one task as a folder that PEFT loads; PEFT itself is not needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from weft.bundle.updates import check_finite
from weft.encoder.hub_id import hub_id, portable_name
from weft.encoder.load import weights_sha256
from weft.errors import WeftError, did_you_mean
from weft.interop.peft.card import card
from weft.interop.peft.exporter import HEADS
from weft.interop.peft.format import (
    CLASSIFIER,
    CONFIG_FILE,
    ENCODER_ALONE,
    FORMAT,
    HEAD_FILE,
    README_FILE,
    ROOT,
    SEQ_CLS,
    WEFT_FILE,
    WEIGHTS_FILE,
    classifier_of,
    classifier_tensors,
)
from weft.interop.peft.updates import Updates, filled, no_update, updates_of
from weft.methods import Dora, Lora
from weft.utils.files import new_folder, write_json, write_text
from weft.utils.tensor_files import save_file
from weft.utils.version import __version__

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.task import Task


def export_peft(
    model: Model, task: str, folder: str | Path, head: str = "auto", base: str | None = None
) -> Path:
    """Write one task as a LoRA folder of PEFT, with which `PeftModel.from_pretrained` gives equal outputs.

    Each changed linear module is a target with its own rank and α = r, so that PEFT scales by 1; every scale
    and gate is in lora_B. Added biases are those of lora_B (`lora_bias`), changed norms are saved whole
    (`modules_to_save`). `dora` is written with `use_dora`. `weft.json` holds the task's settings. The head of
    a task with a temperature is divided by it, so that probabilities are equal.

    Args:
        model: the model.
        task: the task's name.
        folder: the folder to write; an earlier export is replaced, anything else is refused.
        head: `auto` writes the family's classifier if it is the same function as the task's head, else
            `head.safetensors` beside the encoder's LoRA; `file` always writes the latter.
        base: the hub id of the encoder, for other machines. By default the one that is known, or else the
            name of the encoder's folder, without its path.
    """
    folder = Path(folder)
    if head not in HEADS:
        raise WeftError(f"head {head!r} is unknown; {did_you_mean(head, HEADS)}")
    exported = model.tasks[model.task_id(task)]
    check_place(folder)
    check_head(model, exported)
    updates = updates_of(model, task)
    check_finite(f"task {task!r} cannot be exported to PEFT: its head", *_head(model, exported).values())
    as_classifier = head == "auto" and has_own_head(model, exported, updates)
    with new_folder(folder) as work:
        name = base or portable_name(model.encoder_source)
        config, tensors = _adapter(model, exported, updates, as_classifier, name)
        _save(work / WEIGHTS_FILE, tensors)
        if not as_classifier:
            _save(work / HEAD_FILE, _head(model, exported))
        write_json(work / CONFIG_FILE, config)
        write_json(work / WEFT_FILE, _settings(model, exported, CLASSIFIER if as_classifier else HEAD_FILE))
        known = base or hub_id(model.encoder_source)
        write_text(work / README_FILE, card(model, exported, config, known))
    return folder


def check_head(model: Model, task: Task) -> None:
    """Refuse a head that is more than one linear map of a row's or a token's vector."""
    head: Any = model.heads[task.head]
    plain = head.reads in ("pooled", "tokens") and set(head.stacks) == {"weight", "bias"}
    if plain and task.pool in (None, model.pool):
        return
    raise WeftError(
        f"task {task.name!r} cannot be exported to PEFT: its head ({task.head}, pool {head.pool}) is not one "
        f"linear map of the model's pooling ({model.pool}); expected layers: 1, no texts apart, no marks "
        "and no separate pool"
    )


def check_place(folder: Path) -> None:
    """Refuse a folder that exists, unless it is an earlier export."""
    if folder.exists() and not ((folder / CONFIG_FILE).is_file() and (folder / WEFT_FILE).is_file()):
        raise WeftError(f"{folder} exists and is not an export of weft for PEFT; pass a different folder")


def has_own_head(model: Model, task: Task, updates: Updates) -> bool:
    """Whether the family's model for sequence classification computes the task's logits.

    Its head must read the encoder's pooler. If the classifier of the family has its own copy of the pooler,
    the pooler must not be updated, because the copy has no place for an update.
    """
    classifier = classifier_of(model.encoder)
    if classifier is None or model.pool != "pooler" or task.kind not in ("classify", "regress"):
        return False
    return classifier.pooler is None or not any(path.startswith("pooler.") for path in updates.blocks)


def _adapter(
    model: Model, task: Task, updates: Updates, own_head: bool, base: str
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The configuration and the tensors."""
    encoder: Any = model.encoder
    prefix = f"{encoder.base_model_prefix}." if own_head else ""
    blocks = {prefix + path: filled(block) for path, block in updates.blocks.items()}
    if not blocks:
        path, block = no_update(model)
        blocks[prefix + path] = filled(block)
    has_bias = any(block.bias.any() for block in blocks.values())
    tensors: dict[str, Tensor] = {}
    for path, block in blocks.items():
        tensors[f"{ROOT}{path}.lora_A.weight"] = block.down
        tensors[f"{ROOT}{path}.lora_B.weight"] = block.up
        if has_bias:  # for all modules or for none: PEFT has one flag
            tensors[f"{ROOT}{path}.lora_B.bias"] = block.bias
        if updates.is_dora:  # likewise
            weight = encoder.get_submodule(path.removeprefix(prefix)).weight
            tensors[f"{ROOT}{path}.lora_magnitude_vector"] = block.with_magnitude(weight)
    whole = {prefix + path: norm for path, norm in updates.norms.items()}
    if own_head:
        head = _head(model, task)
        whole[CLASSIFIER] = classifier_tensors(encoder, head["weight"], head["bias"])
    for path, values in whole.items():
        tensors |= {f"{ROOT}{path}.{name}": value for name, value in values.items()}
    ranks = {path: block.rank for path, block in blocks.items()}
    highest = max(ranks.values())
    patterns = {path: rank for path, rank in ranks.items() if rank != highest}
    config = {
        "peft_type": "LORA",
        "task_type": SEQ_CLS if own_head else ENCODER_ALONE,
        "base_model_name_or_path": base,
        "inference_mode": True,
        "r": highest,
        "lora_alpha": highest,
        "lora_dropout": max(
            (part.dropout for part in model.method.parts if isinstance(part, Lora | Dora)), default=0.0
        ),
        "target_modules": list(blocks),
        # equal, so that α / r is 1 everywhere
        "rank_pattern": patterns,
        "alpha_pattern": patterns,
        "lora_bias": has_bias,
        "modules_to_save": list(whole) or None,
        "bias": "none",
        "fan_in_fan_out": False,
        "init_lora_weights": True,
        "use_rslora": False,
        "use_dora": updates.is_dora,
    }
    return config, tensors


def _head(model: Model, task: Task) -> dict[str, Tensor]:
    """The head of the task: logits = weight·x + bias, [C, d] and [C].

    PEFT knows no temperature, so both are divided by the task's, if it has one: its softmax of the logits
    then gives the probabilities of weft.
    """
    head: Any = model.heads[task.head]
    slot = head.stacks["weight"].slots.of_task[model.task_id(task.name)]
    tensors = {name: head.get_parameter(name)[slot] for name in ("weight", "bias")}
    if task.temperature is None:
        return tensors
    return {name: tensor / task.temperature for name, tensor in tensors.items()}


def _settings(model: Model, task: Task, head: str) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "weft": __version__,
        "encoder": {"name": model.encoder_source.name, "weights_sha256": weights_sha256(model.encoder)},
        "seed": model.seed,  # the seed of a random encoder (random:ARCHITECTURE)
        "method": model.method.settings(),
        "task": replace(task, temperature=None, calibrated_on=None).settings(),  # the head has it
        "pool": model.pool,
        "max_length": model.max_length,
        "head": head,
    }


def _save(path: Path, tensors: dict[str, Tensor]) -> None:
    # copies: safetensors refuses views of one tensor
    plain = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    save_file(plain, path, {"format": "pt"})
