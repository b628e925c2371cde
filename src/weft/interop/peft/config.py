"""Checking adapter_config.json and weft.json: every value is checked before it is used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from weft.errors import WeftError
from weft.interop.peft.format import FORMAT
from weft.interop.peft.patterns import PatternError, module_pattern

POOLS = ("pooler", "cls", "mean")
"""The poolings of a head; an export never has `auto`."""

KEEPS_BASE = (True, False, None, "gaussian", "eva", "orthogonal")
"""The values of `init_lora_weights` that do not change the encoder's weights."""

REFUSED = {
    "target_parameters": "a LoRA of a parameter that is not the weight of a module has no site in weft",
    "trainable_token_indices": "weft trains no token embeddings",
    "layer_replication": "it changes the encoder's blocks",
    "use_qalora": "its input is pooled, which is not a LoRA",
    "alora_invocation_tokens": "it acts only on some tokens",
    "arrow_config": "it is a router over several adapters",
    "use_bdlora": "its factors are cut into blocks across devices",
    "kasa_config": "it has factors besides A and B, and changes the encoder's weights",
    "monteclora_config": "its update is random",
    "megatron_config": "its encoder belongs to a different library",
}
"""Settings that need more than an addition B·A to linear maps, and why they are refused."""


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_rank(value: object) -> bool:
    return isinstance(value, int) and _is_whole(value) and value >= 1


def _is_number(value: object) -> bool:
    """Whether it is a finite number; JSON as Python reads it has NaN, Infinity and integers of any size."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= sys.float_info.max


def _is_dropout(value: object) -> bool:
    return isinstance(value, int | float) and _is_number(value) and 0 <= value < 1


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _are_modules(value: object) -> bool:
    return _is_text(value) or (isinstance(value, list) and all(isinstance(name, str) for name in value))


def _is_mapping(value: object) -> bool:
    return isinstance(value, dict)


def _is_flag(value: object) -> bool:
    return value is None or isinstance(value, bool)


def _is_mapping_or_none(value: object) -> bool:
    return value is None or isinstance(value, dict)


def _is_length(value: object) -> bool:
    return isinstance(value, int) and _is_whole(value) and value >= 2


Check = tuple[Callable[[object], bool], str]
"""A test of a value, and a description of what was expected."""

RANK: Check = (_is_rank, "a whole number of at least 1")
NUMBER: Check = (_is_number, "a finite number")
TEXT: Check = (_is_text, "a text, or null")

CONFIG: dict[str, Check] = {
    "r": RANK,
    "lora_alpha": NUMBER,
    "lora_dropout": (_is_dropout, "a number from 0 on, below 1"),
    "rank_pattern": (_is_mapping_or_none, "numbers by module"),
    "alpha_pattern": (_is_mapping_or_none, "numbers by module"),
    "target_modules": (_are_modules, "a list of modules' names, one pattern, or null"),
    "auto_mapping": (_is_mapping_or_none, "a mapping, or null"),
    "base_model_name_or_path": TEXT,
    "task_type": TEXT,
    "use_rslora": (_is_flag, "true or false"),
    "use_dora": (_is_flag, "true or false"),
}
"""The checked keys of adapter_config.json; for a missing key, PEFT has a default."""

PATTERNS = {"rank_pattern": RANK, "alpha_pattern": NUMBER}

WEFT_FIELDS: dict[str, Check] = {
    "encoder": (_is_mapping, "a mapping"),
    "seed": (_is_whole, "a whole number"),
    "task": (_is_mapping, "a mapping"),
    "pool": (lambda value: isinstance(value, str) and value in POOLS, f"one of {', '.join(POOLS)}"),
    "max_length": (_is_length, "a whole number of at least 2"),
}
"""The fields that weft.json must have."""


def check_config(config: Mapping[str, Any], path: Path) -> None:
    """Refuse everything but a LoRA or a DoRA, and values that PEFT could not have written.

    Args:
        config: the contents of adapter_config.json.
        path: its path, for messages.
    """
    kind = config.get("peft_type")
    if kind != "LORA":
        raise WeftError(f"{path}: peft_type {kind!r}; weft reads only LORA")
    start = config.get("init_lora_weights", True)
    if start not in KEEPS_BASE:
        raise WeftError(
            f"{path}: init_lora_weights {start!r} may have changed the encoder's weights, which the "
            "LoRA needs; save it in PEFT with path_initial_model_for_weight_conversion, as a plain LoRA"
        )
    if (bias := config.get("bias", "none")) != "none":
        raise WeftError(
            f"{path}: bias {bias!r} has trained the biases of the encoder, which weft does not read from "
            "PEFT; expected none (lora_bias is supported)"
        )
    for name, reason in REFUSED.items():
        if config.get(name):
            raise WeftError(f"{path}: {name} is set: {reason}")
    for name, check in CONFIG.items():
        if name in config:
            _check(path, name, config[name], check)
    for name, check in PATTERNS.items():
        for key, value in (config.get(name) or {}).items():
            try:
                module_pattern(key)
            except PatternError as wrong:
                raise WeftError(f"{path}: {name}: {key!r} is not a valid pattern: {wrong}") from None
            _check(path, f"{name}: {key!r}", value, check)


def check_weft_file(settings: Mapping[str, Any], path: Path) -> None:
    """Refuse a weft.json that this version of weft could not have written.

    Args:
        settings: the contents of weft.json.
        path: its path, for messages.
    """
    if settings.get("format") != FORMAT:
        raise WeftError(
            f"{path} has format {settings.get('format')!r}; this version of weft reads format {FORMAT}"
        )
    for name, check in WEFT_FIELDS.items():
        _check(path, name, settings.get(name), check)
    for name in ("name", "weights_sha256"):
        _check(path, f"encoder.{name}", settings["encoder"].get(name), TEXT)


def _check(path: Path, name: str, value: object, check: Check) -> None:
    fits, expected = check
    if not fits(value):
        raise WeftError(f"{path}: {name}: expected {expected}; found {value!r}")
