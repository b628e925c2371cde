"""What weft relies on inside transformers and huggingface_hub, beyond what they document.

Each entry says what weft expects, which file of weft expects it, and checks it. A release that changes one of
these things fails one test, whose message names the version, the thing and the file.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.support.paths import ROOT
from tests.support.tiny import tiny
from weft.encoder.anatomy import find
from weft.encoder.families import FAMILIES, Anatomy
from weft.encoder.norms import is_norm
from weft.encoder.sites import BLOCK_NORM

PACKAGES = ("transformers", "huggingface_hub")
SOURCE = ROOT / "src" / "weft"
TINY = {"deberta-v2": "deberta-v3"}
"""The tiny encoder of a family, where its name differs."""


@dataclass(frozen=True)
class Internal:
    """One thing that weft relies on.

    Attributes:
        what: what is expected, as the message says it.
        file: the file of weft that relies on it, from `src/weft`, with or without a line.
        holds: whether it is so; an exception counts as no.
        package: the package that it is part of.
    """

    what: str
    file: str
    holds: Callable[[], object]
    package: str = "transformers"

    def problem(self) -> str | None:
        """Return the message if the expectation does not hold."""
        try:
            if self.holds():
                return None
            reason = ""
        except Exception as failed:
            reason = f" ({type(failed).__name__}: {failed})"
        return (
            f"{self.package} {version(self.package)}: expected {self.what}{reason}; see src/weft/{self.file}"
        )


def imports() -> list[Internal]:
    """Every name that weft imports from these packages, found in its source."""
    names: dict[tuple[str, str], str] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
                for alias in node.names:
                    place = f"{file.relative_to(SOURCE).as_posix()}:{node.lineno}"
                    names.setdefault((node.module or "", alias.name), place)
    return [
        Internal(
            f"the name {name} in {module}", place, lambda m=module, n=name: _has(m, n), module.split(".")[0]
        )
        for (module, name), place in sorted(names.items())
    ]


def _has(module: str, name: str) -> bool:
    if hasattr(importlib.import_module(module), name):
        return True
    return importlib.import_module(f"{module}.{name}") is not None


@cache
def encoder_of(family: str) -> Any:
    """The tiny encoder of a family."""
    return tiny(TINY.get(family, family))


def _block(family: str) -> Any:
    return encoder_of(family).get_submodule(FAMILIES[family].blocks)[-1]


def parameters_of(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def modules(family: str) -> list[Internal]:
    """The modules of a family's anatomy, and what their `forward` takes and returns."""
    anatomy: Anatomy = FAMILIES[family]
    table = "encoder/families.py"
    expected = [
        Internal(
            f"{family}: a list of blocks at {anatomy.blocks!r}", table, lambda: len(blocks_of(family)) > 0
        ),
        Internal(
            f"{family}: a block's first argument named hidden_states",
            "encoder/woven_block.py",
            lambda: parameters_of(type(_block(family)).forward)[1] == "hidden_states",
        ),
        Internal(
            f"{family}: input_ids and attention_mask as arguments of the encoder",
            "encoder/body.py",
            lambda: {"input_ids", "attention_mask"} <= {*parameters_of(type(encoder_of(family)).forward)},
        ),
        Internal(
            f"{family}: config.hidden_size, num_attention_heads and _attn_implementation",
            "encoder/anatomy.py",
            lambda: all(hasattr(encoder_of(family).config, name) for name in CONFIG),
        ),
    ]
    for kind, place in anatomy.in_block.items():
        path = place if isinstance(place, str) else place[0]
        expected.append(
            Internal(
                f"{family}: a module {path!r} in a block, for the site {kind!r}",
                table,
                lambda path=path: find(_block(family), path) is not None,
            )
        )
    for kind, place in anatomy.outside.items():
        path = place if isinstance(place, str) else place[0]
        if kind in OPTIONAL.get(family, ()):
            continue
        expected.append(
            Internal(
                f"{family}: a module {path!r}, for the site {kind!r}",
                table,
                lambda path=path: find(encoder_of(family), path) is not None,
            )
        )
    for path in anatomy.constant:
        expected.append(
            Internal(
                f"{family}: a module {path!r} that never trains",
                "encoder/trainable.py",
                lambda path=path: find(encoder_of(family), path) is not None,
            )
        )
    for kind in BLOCK_NORM:
        path = anatomy.in_block[kind]
        expected.append(
            Internal(
                f"{family}: a norm at {path!r}, for the site {kind!r}",
                "encoder/norms.py",
                lambda path=path: is_norm(_block(family).get_submodule(path)),
            )
        )
    for path, name in anatomy.from_lengths:
        expected.append(
            Internal(
                f"{family}: a method {name!r} of {path!r}",
                "encoder/from_lengths.py",
                lambda path=path, name=name: callable(getattr(encoder_of(family).get_submodule(path), name)),
            )
        )
    if not anatomy.disentangled:
        expected.append(
            Internal(
                f"{family}: an argument attention_mask of the attention at {anatomy.in_block['scores']!r}",
                "encoder/woven.py",
                lambda: "attention_mask" in parameters_of(attention_of(family).forward),
            )
        )
    return [*expected, *_passes(family)]


OPTIONAL = {"nomic_bert": ("pooler",), "gte": ("pooler",), "esm": ("embeddings_norm",)}
"""Sites that only some encoders of a family have; `modules` is given one without."""

CONFIG = ("hidden_size", "num_attention_heads", "_attn_implementation", "model_type")


def blocks_of(family: str) -> Any:
    return encoder_of(family).get_submodule(FAMILIES[family].blocks)


def attention_of(family: str) -> Any:
    place = FAMILIES[family].in_block["scores"]
    assert isinstance(place, str)
    located = find(_block(family), place)
    assert located is not None
    return located[1]


def _passes(family: str) -> list[Internal]:
    """What a forward pass and gradient checkpointing do."""

    def output() -> Any:
        with torch.no_grad():
            return encoder_of(family)(input_ids=torch.full((2, 5), 7), attention_mask=torch.ones(2, 5).long())

    def block_gives_hidden_first() -> bool:
        outputs: list[Any] = []
        hook = _block(family).register_forward_hook(lambda module, inputs, out: outputs.append(out))
        try:
            output()
        finally:
            hook.remove()
        first = outputs[0] if isinstance(outputs[0], torch.Tensor) else outputs[0][0]
        return first.shape[:2] == (2, 5)

    def checkpoints() -> bool:
        encoder = tiny(TINY.get(family, family))
        if not encoder.supports_gradient_checkpointing:
            return True
        encoder.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return any("_gradient_checkpointing_func" in module.__dict__ for module in encoder.modules())

    def pools() -> bool:
        pooler = getattr(encoder_of(family), "pooler", None)
        return pooler is None or output().pooler_output.shape[0] == 2

    return [
        Internal(
            f"{family}: last_hidden_state of the encoder's output",
            "encoder/body.py",
            lambda: output().last_hidden_state.shape[:2] == (2, 5),
        ),
        Internal(f"{family}: pooler_output, if the encoder has a pooler", "encoder/body.py", pools),
        Internal(
            f"{family}: hidden states as the first output of a block",
            "encoder/woven_block.py",
            block_gives_hidden_first,
        ),
        Internal(
            f"{family}: supports_gradient_checkpointing and, if it is true, _gradient_checkpointing_func "
            "on modules after gradient_checkpointing_enable",
            "encoder/checkpointing.py",
            checkpoints,
        ),
    ]


def attention() -> list[Internal]:
    """The interface of attention functions and masks, and the activations."""
    from transformers.activations import GELUActivation
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask

    def is_gelu() -> bool:
        act = _block("bert").intermediate.intermediate_act_fn
        return isinstance(act, GELUActivation | nn.GELU)

    return [
        Internal(
            "sdpa_attention_forward(module, query, key, value, attention_mask, …)",
            "acceleration/attention.py",
            lambda: (
                parameters_of(sdpa_attention_forward)[:5]
                == ["module", "query", "key", "value", "attention_mask"]
            ),
        ),
        Internal(
            "an argument allow_is_causal_skip of sdpa_mask",
            "acceleration/masks.py",
            lambda: "allow_is_causal_skip" in parameters_of(sdpa_mask),
        ),
        Internal(
            "a mask function named 'eager' that can be replaced",
            "acceleration/masks.py",
            lambda: (
                callable(ALL_MASK_ATTENTION_FUNCTIONS["eager"])
                and hasattr(ALL_MASK_ATTENTION_FUNCTIONS, "__setitem__")
            ),
        ),
        Internal("BERT's gelu as GELUActivation or nn.GELU", "acceleration/gelu.py", is_gelu),
    ]


def loading(folder: Path) -> list[Internal]:
    """How models and tokenizers are loaded.

    Args:
        folder: a saved tiny encoder with its tokenizer.
    """
    from huggingface_hub import constants
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    def loads() -> bool:
        _, info = AutoModel.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
        return not info["missing_keys"]

    def backend() -> Any:
        return AutoTokenizer.from_pretrained(folder).backend_tokenizer

    verbosity = ("get_verbosity", "set_verbosity", "set_verbosity_error", "is_progress_bar_enabled")
    names = (
        "no_padding",
        "no_truncation",
        "enable_truncation",
        "to_str",
        "from_str",
        "get_added_tokens_decoder",
    )
    return [
        Internal(
            "missing_keys in what from_pretrained(output_loading_info=True) returns", "encoder/load.py", loads
        ),
        Internal(
            "the functions of transformers.utils.logging",
            "encoder/load.py",
            lambda: all(hasattr(logging, n) for n in verbosity),
        ),
        Internal(
            "a fast tokenizer's backend_tokenizer",
            "data/tokens/backends.py",
            lambda: all(hasattr(backend(), n) for n in names),
        ),
        Internal(
            "constants.HF_HUB_OFFLINE, ENDPOINT and HF_HOME",
            "utils/hub.py",
            lambda: all(hasattr(constants, n) for n in ("HF_HUB_OFFLINE", "ENDPOINT", "HF_HOME")),
            "huggingface_hub",
        ),
    ]
