"""Reading a LoRA folder of PEFT: its configuration and tensors. What weft cannot load is refused by name."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from weft.bundle.updates import check_finite
from weft.errors import WeftError
from weft.interop.peft.config import check_config, check_weft_file, module_pattern
from weft.interop.peft.format import (
    CONFIG_FILE,
    HEAD_FILE,
    OLD_WEIGHTS_FILE,
    ROOT,
    SEQ_CLS,
    WEFT_FILE,
    WEIGHTS_FILE,
)

LORA = re.compile(r"(?P<path>.+)\.lora_(?P<factor>A|B)\.(?P<what>weight|bias)")


@dataclass
class PeftFolder:
    """The contents of a LoRA folder of PEFT.

    Attributes:
        folder: its path.
        config: the contents of adapter_config.json.
        tensors: the tensors, by their names without PEFT's root prefix.
        weft_settings: the contents of weft.json, if the folder is an export of weft.
        head: the tensors of head.safetensors, if there is one.
    """

    folder: Path
    config: dict[str, Any]
    tensors: dict[str, Tensor]
    weft_settings: dict[str, Any] | None
    head: dict[str, Tensor] | None

    def modules(self) -> dict[str, dict[str, Tensor]]:
        """Return the LoRA of each module: `A` [r, i], `B` [o, r] and optionally `bias` [o]; B and bias are
        scaled.

        y = W·x + s·(B·(A·x) + bias): PEFT scales the bias too. s is α/r, or α/√r with `use_rslora`.
        """
        loras: dict[str, dict[str, Tensor]] = {}
        for key, value in self.tensors.items():
            if match := LORA.fullmatch(key):
                name = match["factor"] if match["what"] == "weight" else "bias"
                loras.setdefault(match["path"], {})[name] = value.float()
        if not loras:
            raise WeftError(f"{self.folder} holds no LoRA: no tensor is named lora_A or lora_B")
        for path, parts in loras.items():
            for name in ("A", "B"):
                if name not in parts:
                    raise WeftError(f"{self.folder}: the LoRA of {path!r} has no lora_{name}.weight")
            self._check_shapes(path, parts)
            scale = self._scale(path)
            parts["B"] = parts["B"] * scale
            if "bias" in parts:
                parts["bias"] = parts["bias"] * scale
            # the scale may overflow float32
            check_finite(f"{self.folder}: the LoRA of {path!r}, times α/r ({scale:g})", *parts.values())
        return loras

    @property
    def dropout(self) -> float:
        """The dropout on the input of the updates, in training."""
        return float(self.config.get("lora_dropout", 0.0))

    @property
    def classifies_sequences(self) -> bool:
        """Whether its model classifies sequences; TOKEN_CLS has a `classifier` too."""
        model = str((self.config.get("auto_mapping") or {}).get("base_model_class", ""))
        return self.config.get("task_type") == SEQ_CLS or model.endswith("ForSequenceClassification")

    def others(self) -> dict[str, Tensor]:
        """The tensors that belong to no LoRA: those of modules that were saved whole."""
        return {key: value.float() for key, value in self.tensors.items() if not LORA.fullmatch(key)}

    def _check_shapes(self, path: str, parts: Mapping[str, Tensor]) -> None:
        rank = self._number("r", "rank_pattern", path)
        a, b = parts["A"], parts["B"]
        if a.dim() != 2 or b.dim() != 2 or a.size(0) != rank or b.size(1) != rank:
            raise WeftError(
                f"{self.folder}: the LoRA of {path!r} has A {list(a.shape)} and B {list(b.shape)}; "
                f"expected [{rank}, in] and [out, {rank}], the rank of {CONFIG_FILE}"
            )
        bias = parts.get("bias")
        if bias is not None and bias.shape != b.shape[:1]:
            raise WeftError(
                f"{self.folder}: lora_B.bias of {path!r} has shape {list(bias.shape)}; expected [{b.size(0)}]"
            )

    def _scale(self, path: str) -> float:
        rank = self._number("r", "rank_pattern", path)
        alpha = self._number("lora_alpha", "alpha_pattern", path)
        return alpha / (math.sqrt(rank) if self.config.get("use_rslora") else rank)

    def _number(self, name: str, pattern: str, path: str) -> Any:
        """A module's rank or α: of the first pattern that matches the end of its path, else the default."""
        for key, special in (self.config.get(pattern) or {}).items():
            if re.fullmatch(module_pattern(key), path):
                return special
        return self.config.get(name, 8)  # PEFT's default for both


def read_folder(folder: str | Path) -> PeftFolder:
    """Read the files, and refuse everything but a plain LoRA before anything slow is done."""
    folder = Path(folder)
    if not folder.is_dir():
        raise WeftError(f"{folder}: there is no such folder")
    config = read_json(folder / CONFIG_FILE)
    check_config(config, folder / CONFIG_FILE)
    weft_settings = read_json(folder / WEFT_FILE) if (folder / WEFT_FILE).exists() else None
    if weft_settings is not None:
        check_weft_file(weft_settings, folder / WEFT_FILE)
    head = _tensors(folder / HEAD_FILE) if (folder / HEAD_FILE).exists() else None
    tensors = {key.removeprefix(ROOT): value for key, value in _weights(folder).items()}
    for key in tensors:
        if "lora_embedding_" in key:
            module = key.split(".lora_embedding_")[0]
            raise WeftError(f"{folder}: a LoRA of the embedding {module!r} has no site in weft: {key}")
        if "lora_" in key and not LORA.fullmatch(key):
            raise WeftError(f"{folder}: {key!r} is not a LoRA factor that weft knows")
    return PeftFolder(folder, config, tensors, weft_settings, head)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object."""
    if not path.is_file():
        raise WeftError(f"{path} is missing; expected the folder of a PEFT adapter")
    try:
        contents = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as wrong:
        raise WeftError(f"{path} is not JSON: {wrong}") from None
    if not isinstance(contents, dict):
        raise WeftError(f"{path}: expected an object; found {type(contents).__name__}")
    return contents


def _weights(folder: Path) -> dict[str, Tensor]:
    for name in (WEIGHTS_FILE, OLD_WEIGHTS_FILE):
        if (folder / name).is_file():
            return _tensors(folder / name)
    raise WeftError(f"{folder / WEIGHTS_FILE} is missing; expected the folder of a PEFT adapter")


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            tensors = load_file(path)
        else:
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, UnpicklingError, RuntimeError, EOFError) as wrong:
        reason = str(wrong).split("\n")[0]
        raise WeftError(f"{path} cannot be read as a file of weights: {reason}") from None
    if not isinstance(tensors, dict) or not all(isinstance(value, Tensor) for value in tensors.values()):
        raise WeftError(f"{path}: expected tensors by name")
    for name, value in tensors.items():
        check_finite(f"{path}: {name}", value)
    return tensors
