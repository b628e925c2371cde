"""Reading a LoRA or DoRA folder of PEFT: its configuration and tensors. The rest is refused by name."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from weft.bundle.updates import check_finite
from weft.errors import WeftError
from weft.interop.peft.config import check_config, check_weft_file
from weft.interop.peft.format import (
    CONFIG_FILE,
    HEAD_FILE,
    OLD_WEIGHTS_FILE,
    ROOT,
    SEQ_CLS,
    WEFT_FILE,
    WEIGHTS_FILE,
)
from weft.interop.peft.patterns import module_pattern
from weft.utils.plain_files import check_plain_top
from weft.utils.safe_json import read_json
from weft.utils.weight_files import read_tensors

EXPECTED = "expected the folder of a PEFT adapter"
LONGEST_NAME = 1000
"""The longest name of a tensor; those of encoders have about 60 characters."""
LORA = re.compile(
    r"(?P<path>.+)\.lora_((?P<factor>A|B)\.(?P<what>weight|bias)|(?P<magnitude>magnitude_vector)(\.weight)?)"
)


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

        y = W·x + s·(B·(A·x) + bias): PEFT scales the bias too. s is α/r, or α/√r with `use_rslora`. With
        DoRA each has `m` [o] too, the magnitudes of the rows.
        """
        loras: dict[str, dict[str, Tensor]] = {}
        for key, value in self.tensors.items():
            if match := LORA.fullmatch(key):
                name = "m" if match["magnitude"] else match["factor"] if match["what"] == "weight" else "bias"
                loras.setdefault(match["path"], {})[name] = value.float()
        if not loras:
            raise WeftError(f"{self.folder} holds no LoRA: no tensor is named lora_A or lora_B")
        for path, parts in loras.items():
            for name in ("A", "B"):
                if name not in parts:
                    raise WeftError(f"{self.folder}: the LoRA of {path!r} has no lora_{name}.weight")
            if ("m" in parts) != self.is_dora:
                lacks = "has no lora_magnitude_vector" if self.is_dora else "has a lora_magnitude_vector"
                dora = "is set" if self.is_dora else "is not set"
                raise WeftError(f"{self.folder}: the LoRA of {path!r} {lacks}, but use_dora {dora}")
            self._check_shapes(path, parts)
            scale = self._scale(path)
            parts["B"] = parts["B"] * scale
            if "bias" in parts:
                parts["bias"] = parts["bias"] * scale
            # the scale may overflow float32
            check_finite(f"{self.folder}: the LoRA of {path!r}, times α/r ({scale:g})", *parts.values())
        return loras

    @property
    def is_dora(self) -> bool:
        """Whether the rows of the updated weights have magnitudes."""
        return bool(self.config.get("use_dora"))

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
        for key, name in (("bias", "lora_B.bias"), ("m", "lora_magnitude_vector")):
            vector = parts.get(key)
            if vector is not None and vector.shape != b.shape[:1]:
                shape = list(vector.shape)
                raise WeftError(
                    f"{self.folder}: {name} of {path!r} has shape {shape}; expected [{b.size(0)}]"
                )

    def _scale(self, path: str) -> float:
        rank = self._number("r", "rank_pattern", path)
        alpha = self._number("lora_alpha", "alpha_pattern", path)
        return alpha / (math.sqrt(rank) if self.config.get("use_rslora") else rank)

    def _number(self, name: str, pattern: str, path: str) -> Any:
        """A module's rank or α: of the first pattern that matches the end of its path, else the default."""
        for key, special in (self.config.get(pattern) or {}).items():
            if module_pattern(key)(path):
                return special
        return self.config.get(name, 8)  # PEFT's default for both


def read_folder(folder: str | Path) -> PeftFolder:
    """Read the files, and refuse everything but a plain LoRA before anything slow is done."""
    folder = Path(folder)
    if not folder.is_dir():
        raise WeftError(f"{folder}: there is no such folder")
    check_plain_top(folder, "a PEFT adapter")
    config = read_json(folder / CONFIG_FILE, EXPECTED)
    check_config(config, folder / CONFIG_FILE)
    weft_settings = read_json(folder / WEFT_FILE, EXPECTED) if (folder / WEFT_FILE).exists() else None
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


def _weights(folder: Path) -> dict[str, Tensor]:
    for name in (WEIGHTS_FILE, OLD_WEIGHTS_FILE):
        if (folder / name).is_file():
            return _tensors(folder / name)
    raise WeftError(f"{folder / WEIGHTS_FILE} is missing; {EXPECTED}")


def _tensors(path: Path) -> dict[str, Tensor]:
    tensors = read_tensors(path)
    for name, value in tensors.items():
        if not isinstance(name, str) or len(name) > LONGEST_NAME:
            raise WeftError(f"{path}: a tensor's name is not the path of a module: {str(name)[:60]!r}")
        check_finite(f"{path}: {name}", value)
    return tensors
