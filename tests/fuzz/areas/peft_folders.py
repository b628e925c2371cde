"""Damaged LoRA folders of PEFT, for `weft import`."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path
from random import Random

from tests.fuzz.base import Base
from tests.fuzz.byte_damage import damaged_bytes
from tests.fuzz.case import Case
from tests.fuzz.folder_damage import copied, damage_folder

PATTERNS = (
    *("(a+)+$", "(x", "[", ".*", "", "(.*)*x", "a{99999}", "\\", "(?=a)", "^", "(" * 500),
    *("(?P<a>x)(?P=a)", "|" * 99),
)
CONFIGS = (
    *({"r": value} for value in (0, -1, 2**31, 10**30, "2", 2.0, None, True, [2])),
    *({"lora_alpha": value} for value in (0, -1, 1e308, float("nan"), float("inf"), "x", None, {})),
    *({"rank_pattern": {pattern: 2}} for pattern in PATTERNS),
    *({"alpha_pattern": {pattern: 2}} for pattern in PATTERNS),
    *(
        {"target_modules": value}
        for value in ("query", "(a+)+$", [], None, [1], ["x"], {}, "all-linear", "(")
    ),
    {"peft_type": "IA3"},
    {"task_type": "TOKEN_CLS"},
    {"use_dora": True},
    {"use_rslora": True},
    {"lora_bias": True},
    {"bias": "all"},
    {"fan_in_fan_out": True},
    {"base_model_name_or_path": "../../x"},
    {"base_model_name_or_path": 3},
    {"auto_mapping": []},
    {"auto_mapping": {"base_model_class": 3}},
    {"modules_to_save": ["pooler"]},
    {"lora_dropout": 2.0},
    {"layers_to_transform": [0]},
)


class _RunsCode:
    """An object whose pickle would end the process when it is read, which the fuzzer counts as a crash."""

    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return exec, ("import os, signal; os.kill(os.getpid(), signal.SIGUSR1)",)


def build_peft_folder(draw: Random, base: Base, folder: Path) -> Case:
    """A folder with odd settings, damaged files, or weights that are a pickle."""
    peft = copied(base.peft(draw.choice(["auto", "file"])), folder / "peft")
    if draw.random() < 0.5:
        config = json.loads((peft / "adapter_config.json").read_text())
        config |= draw.choice(CONFIGS)
        (peft / "adapter_config.json").write_text(json.dumps(config))
        if draw.random() < 0.5:
            (peft / "weft.json").unlink()
    if draw.random() < 0.15:
        (peft / "adapter_model.safetensors").unlink()
        (peft / "adapter_model.bin").write_bytes(_pickled(draw, base))
    if draw.random() < 0.7:
        damage_folder(draw, peft, keep=("README.md",))
    words = draw.choice(
        [(), (), ("--task", "x", "--labels", "no,yes"), ("--task", "x", "--kind", "regress"), ("--task", "")]
    )
    encoder = ("--encoder", str(base.encoder)) if draw.random() < 0.7 else ()
    kind = ("--json",) if draw.random() < 0.3 else ()
    command = ("import", "peft", "--out", "new", *encoder, *words, *kind)
    return Case(command, inputs=(peft,), json="object" if kind else None)


def _pickled(draw: Random, base: Base) -> bytes:
    """Weights as torch saved them before safetensors: sound, damaged, or with code in them."""
    import torch
    from safetensors.torch import load_file

    tensors = load_file(base.peft("auto") / "adapter_model.safetensors")
    buffer = io.BytesIO()
    torch.save(tensors, buffer)
    data = buffer.getvalue()
    match draw.randrange(5):
        case 0:
            return data
        case 1:
            return damaged_bytes(draw, data)
        case 2:
            return pickle.dumps(_RunsCode())
        case 3:
            return pickle.dumps(draw.choice([{}, [], 3, {"a": 1}, {1: 2}, None]))
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            new.writestr(name, pickle.dumps(_RunsCode()) if name.endswith("data.pkl") else old.read(name))
    return changed.getvalue()
