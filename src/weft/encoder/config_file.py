"""Reading and checking the config.json of an encoder of any origin, before transformers sees it. No torch.

Some keys make transformers run code or read further files: `auto_map` names Python files of the folder,
`attn_implementation` may name a kernel that is downloaded and run, `quantization_config` a library,
`transformers_weights` and `configuration_files` other files. None of them describes a plain encoder, so they
are refused or left out. Sizes are limited, because a model is built before its weights are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.encoder.families import FAMILIES, check_installed
from weft.errors import WeftError, did_you_mean
from weft.utils.safe_json import read_json

CONFIG_FILE = "config.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
CUSTOM_CODE = "auto_map"
"""The key under which a folder names Python files of its own."""

ATTENTIONS = ("eager", "sdpa", "flex_attention")
"""The values of `attn_implementation` for which transformers needs no code from elsewhere."""
LEFT_OUT = (
    *(CUSTOM_CODE, "attn_implementation", "experts_implementation", "transformers_weights"),
    *("configuration_files", "fusion_config", "kernel_config", "use_kernels", "distributed_config"),
)
"""Keys that are not passed on: they say how to load or run an encoder, not what it is."""
REFUSED = {
    "quantization_config": "its weights are quantized, and weft loads plain floating-point weights",
    "per_layer_config": "its layers differ from each other, and weft's adapters need equal layers",
}
"""Keys of encoders that weft cannot load, and why."""

LARGEST_NUMBER = 2**31 - 1
"""The largest whole number of a configuration."""
LARGEST = {"num_labels": 100_000, "max_position_embeddings": 1_000_000, "num_hidden_layers": 10_000}
"""Smaller limits of some keys: transformers allocates as much memory as they say, whatever the weights, or
runs as many blocks (ALBERT's have the same weights)."""


@dataclass(frozen=True)
class EncoderConfig:
    """A checked configuration.

    Attributes:
        path: its file.
        model_type: the encoder family.
        settings: the keys that describe the encoder, without those that would run code.
        notes: what the user should know.
    """

    path: Path
    model_type: str
    settings: dict[str, Any]
    notes: tuple[str, ...]


def read_encoder_config(path: Path, name: str) -> EncoderConfig:
    """Read and check an encoder's config.json.

    Args:
        path: the file.
        name: the encoder, for messages.
    """
    contents = read_json(path, f"expected the configuration of encoder {name!r}")
    model_type = contents.get("model_type")
    if not isinstance(model_type, str):
        raise WeftError(
            f"{path}: model_type: found {_shown(model_type)}; expected the family of an encoder: "
            f"{', '.join(FAMILIES)}"
        )
    if model_type not in FAMILIES:
        raise WeftError(_unknown_family(path, model_type, CUSTOM_CODE in contents))
    try:
        check_installed(model_type)
    except WeftError as wrong:
        raise WeftError(f"{path}: {wrong}") from None
    for key, what_to_do in FAMILIES[model_type].foreign.items():
        if key in contents and "hidden_size" not in contents:
            raise WeftError(
                f"{path}: {key} is set, and hidden_size is not: this is the configuration of code that comes "
                f"with encoder {name!r}, which weft does not run\n  {what_to_do}"
            )
    for key, reason in REFUSED.items():
        if contents.get(key):
            raise WeftError(f"{path}: {key} is set: {reason}")
    _check_attention(path, contents)
    for key, value in _numbers(contents):
        last = key.rpartition(".")[2]
        limit = LARGEST.get(last, LARGEST_NUMBER)
        if not -LARGEST_NUMBER <= value <= limit:
            raise WeftError(f"{path}: {key}: found {_shown(value)}; expected a number of at most {limit:,}")
    # private keys are attributes of transformers' objects, not settings
    settings = {key: v for key, v in contents.items() if key not in LEFT_OUT and not key.startswith("_")}
    return EncoderConfig(path, model_type, settings, custom_code_notes(path.parent, name))


def check_tokenizer_config(path: Path) -> None:
    """Refuse a tokenizer_config.json that makes transformers read files outside the folder."""
    contents = read_json(path, "expected the configuration of a tokenizer")
    for key in ("gguf_file", "tokenizer_object"):
        if contents.get(key) is not None:
            raise WeftError(f"{path}: {key} is set; expected a tokenizer in the files of its folder")
    files = contents.get("fast_tokenizer_files") or []
    for file in files if isinstance(files, list) else [files]:
        if not isinstance(file, str) or Path(file).name != file:
            raise WeftError(f"{path}: fast_tokenizer_files: found {_shown(file)}; expected names of files")


def custom_code_notes(folder: Path, name: str) -> tuple[str, ...]:
    """Return a note for each file that names code of the folder; weft does not run it."""
    notes = []
    for file in (CONFIG_FILE, TOKENIZER_CONFIG_FILE):
        path = folder / file
        if path.is_file() and read_json(path, "expected JSON").get(CUSTOM_CODE):
            notes.append(
                f"{path} names Python code that comes with encoder {name!r} ({CUSTOM_CODE}); weft does not "
                "run it, and uses the classes of transformers"
            )
    return tuple(notes)


def _unknown_family(path: Path, model_type: str, custom: bool) -> str:
    code = (
        "; it comes with its own code (auto_map), which weft does not run: if you trust it, load the encoder "
        "in Python with transformers, and pass the model to weft.Model"
        if custom
        else "; to see which of them it is nearest to, load it in Python with transformers and pass the "
        "model to weft.Model"
    )
    return (
        f"{path}: model_type: encoder family {_shown(model_type)} has no anatomy, so its sites are unknown; "
        f"{did_you_mean(model_type, FAMILIES)}{code}\n  to add a family, see docs/extension.md"
    )


def _check_attention(path: Path, contents: Mapping[str, Any]) -> None:
    for key in ("attn_implementation", "_attn_implementation"):
        value = contents.get(key)
        if value is not None and value not in ATTENTIONS:
            raise WeftError(
                f"{path}: {key}: found {_shown(value)}; expected {', '.join(ATTENTIONS)}: others may be "
                "code that is loaded from elsewhere, which weft does not do"
            )


def _numbers(contents: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield every whole number of nested settings with its key."""
    waiting: list[tuple[str, Any]] = list(contents.items())
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, int) and not isinstance(value, bool):
            yield key, value
        elif isinstance(value, dict):
            waiting += [(f"{key}.{inner}", item) for inner, item in value.items()]
        elif isinstance(value, list):
            waiting += [(key, item) for item in value]


def _shown(value: object) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
