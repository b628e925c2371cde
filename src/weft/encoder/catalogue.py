"""The names of encoders, and architectures without weights (`random:bert-base`).

`random:bert-base@TOKENIZER` also names a tokenizer, with which the architecture can be trained on text.
Names are checked without loading anything. The ledger counts random architectures on the meta device,
without memory, and benchmarks run them without a download.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weft.encoder.families import check_installed
from weft.errors import WeftError, did_you_mean

RANDOM = "random:"


_BASE: dict[str, Any] = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}
_LARGE: dict[str, Any] = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}
_ROBERTA: dict[str, Any] = {
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
_DEBERTA_V3: dict[str, Any] = {
    "vocab_size": 128100,
    "relative_attention": True,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-7,
    "max_relative_positions": -1,
}
_DEBERTA_V1: dict[str, Any] = {
    "vocab_size": 50265,
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "position_biased_input": False,
}
_ESM2: dict[str, Any] = {
    "vocab_size": 33,
    "pad_token_id": 1,
    "mask_token_id": 32,
    "position_embedding_type": "rotary",
    "token_dropout": True,
    "layer_norm_eps": 1e-5,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
_DISTILBERT: dict[str, Any] = {"dim": 768, "n_layers": 6, "n_heads": 12, "hidden_dim": 3072}
_MODERNBERT_LARGE: dict[str, Any] = {
    "hidden_size": 1024,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "intermediate_size": 2624,
}
_MODERNBERT_TINY: dict[str, Any] = {  # one block in two attends to all tokens, the others in windows
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 192,
    "global_attn_every_n_layers": 2,
}


def _esm2(layers: int, width: int) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": 20,
        "intermediate_size": 4 * width,
    }


def _eurobert(layers: int, width: int, inner: int) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_attention_heads": 18,
        "num_key_value_heads": 6,
    }


ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert-base": ("bert", {**_BASE, "vocab_size": 30522}),
    "bert-base-cased": ("bert", {**_BASE, "vocab_size": 28996}),
    "bert-large": ("bert", {**_LARGE, "vocab_size": 30522}),
    "bert-large-cased": ("bert", {**_LARGE, "vocab_size": 28996}),
    "bert-tiny": (
        "bert",
        {
            "vocab_size": 30522,
            "hidden_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 512,
        },
    ),
    "minilm": (
        "bert",
        {
            "vocab_size": 30522,
            "hidden_size": 384,
            "num_hidden_layers": 6,
            "num_attention_heads": 12,
            "intermediate_size": 1536,
        },
    ),
    "roberta-base": ("roberta", {**_BASE, **_ROBERTA, "vocab_size": 50265}),
    "roberta-large": ("roberta", {**_LARGE, **_ROBERTA, "vocab_size": 50265}),
    "xlm-roberta-base": ("xlm-roberta", {**_BASE, **_ROBERTA, "vocab_size": 250002}),
    "xlm-roberta-large": ("xlm-roberta", {**_LARGE, **_ROBERTA, "vocab_size": 250002}),
    "camembert-base": ("camembert", {**_BASE, **_ROBERTA, "vocab_size": 32005}),
    "electra-small": (
        "electra",
        {
            "vocab_size": 30522,
            "embedding_size": 128,
            "hidden_size": 256,
            "num_hidden_layers": 12,
            "num_attention_heads": 4,
            "intermediate_size": 1024,
        },
    ),
    "electra-base": ("electra", {**_BASE, "vocab_size": 30522, "embedding_size": 768}),
    "electra-large": ("electra", {**_LARGE, "vocab_size": 30522, "embedding_size": 1024}),
    "distilbert-base": ("distilbert", {**_DISTILBERT, "vocab_size": 30522}),
    "mpnet-base": (
        "mpnet",
        {**_BASE, "vocab_size": 30527, "max_position_embeddings": 514, "layer_norm_eps": 1e-5},
    ),
    "deberta-v3-small": ("deberta-v2", {**_BASE, **_DEBERTA_V3, "num_hidden_layers": 6}),
    "deberta-v3-base": ("deberta-v2", {**_BASE, **_DEBERTA_V3}),
    "deberta-v3-large": ("deberta-v2", {**_LARGE, **_DEBERTA_V3}),
    "modernbert-base": ("modernbert", {}),  # the configuration's own defaults
    "modernbert-large": ("modernbert", _MODERNBERT_LARGE),
    "modernbert-tiny": ("modernbert", _MODERNBERT_TINY),
    "albert-base": ("albert", _BASE),
    "albert-large": ("albert", _LARGE),
    "albert-xxlarge": ("albert", {}),
    "data2vec-text-base": ("data2vec-text", {**_BASE, **_ROBERTA, "vocab_size": 50265}),
    "deberta-base": ("deberta", {**_BASE, **_DEBERTA_V1}),
    "deberta-large": ("deberta", {**_LARGE, **_DEBERTA_V1}),
    "ernie-base": ("ernie", {}),
    "esm2-8m": ("esm", {**_ESM2, **_esm2(6, 320)}),
    "esm2-35m": ("esm", {**_ESM2, **_esm2(12, 480)}),
    "esm2-150m": ("esm", {**_ESM2, **_esm2(30, 640)}),
    "esm2-650m": ("esm", {**_ESM2, **_esm2(33, 1280)}),
    "eurobert-210m": ("eurobert", {}),
    "eurobert-610m": ("eurobert", _eurobert(26, 1152, 4096)),
    "eurobert-2.1b": ("eurobert", _eurobert(32, 2304, 6144)),
    "gte-multilingual-base": ("gte", {}),
    "jina-embeddings-v3": ("jina_embeddings_v3", {}),
    "megatron-bert": ("megatron-bert", {}),
    "nomic-bert-base": ("nomic_bert", {}),
    "rembert": ("rembert", {}),
    "roberta-prelayernorm-large": ("roberta-prelayernorm", {**_LARGE, **_ROBERTA, "vocab_size": 50265}),
    "roformer-base": ("roformer", {}),
    "xlm-roberta-xl": ("xlm-roberta-xl", {}),
}
"""Name → (model type, settings that differ from the configuration's defaults)."""


def check_name(name: str) -> None:
    """Raise an error for a name that cannot be an encoder; hub ids are checked only when they are loaded.

    Args:
        name: anything that is not an existing folder.
    """
    if name.startswith(RANDOM):
        architecture, tokenizer = random_parts(name)
        if architecture not in ARCHITECTURES:
            raise WeftError(f"encoder {name!r} does not exist; {did_you_mean(architecture, ARCHITECTURES)}")
        check_installed(ARCHITECTURES[architecture][0])
        if tokenizer is not None and (not tokenizer or tokenizer.startswith(RANDOM)):
            raise WeftError(
                f"encoder {name!r}: expected a tokenizer after @: minilm, a folder or a hub id, as in "
                f"{RANDOM}{architecture}@minilm; found {tokenizer!r}"
            )
        if tokenizer is not None and not Path(tokenizer).is_dir():
            check_name(tokenizer)
    elif Path(name).is_file():
        raise WeftError(f"encoder {name!r} is a file; expected the folder of a checkpoint")
    elif looks_like_path(name):
        raise WeftError(f"encoder {name!r}: there is no such folder")


def random_parts(name: str) -> tuple[str, str | None]:
    """Split `random:ARCHITECTURE@TOKENIZER` into its two names; the tokenizer is None if there is no `@`."""
    architecture, at, tokenizer = name.removeprefix(RANDOM).partition("@")
    return architecture, tokenizer if at else None


def check_has_tokenizer(name: str) -> None:
    """Refuse a `random:` encoder without a tokenizer: it cannot read text."""
    if name.startswith(RANDOM) and random_parts(name)[1] is None:
        raise WeftError(
            f"encoder {name!r} has no tokenizer: it is an architecture without files. To train it on text, "
            f"name a tokenizer, a folder or a hub id: {name}@minilm"
        )


def looks_like_path(name: str) -> bool:
    """Return whether a name looks like a folder and not like a hub id."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name


def random_encoder(name: str, seed: int, meta: bool = False, tokenizer: Any = None) -> Any:
    """Build the architecture `name` with random weights that depend on `seed` only.

    Args:
        name: one of `ARCHITECTURES`.
        seed: the random seed of the weights.
        meta: build it on the meta device, without memory.
        tokenizer: the tokenizer that it is used with, whose padding has an embedding of zero; None: the
            architecture's own id of padding.
    """
    import torch
    from transformers import AutoConfig, AutoModel

    if name not in ARCHITECTURES:
        raise WeftError(f"encoder 'random:{name}' does not exist; {did_you_mean(name, ARCHITECTURES)}")
    model_type, differs = ARCHITECTURES[name]
    check_installed(model_type)
    config = AutoConfig.for_model(model_type, **differs)
    if tokenizer is not None:
        last = max(tokenizer.get_vocab().values())
        if last >= config.vocab_size:
            raise WeftError(
                f"encoder 'random:{name}': the tokenizer has ids up to {last}, and the architecture has "
                f"{config.vocab_size} embeddings; expected a tokenizer of the same family"
            )
        config.pad_token_id = tokenizer.pad_token_id
    with torch.random.fork_rng(devices=[]), torch.device("meta" if meta else "cpu"):
        torch.manual_seed(seed)
        return AutoModel.from_config(config, dtype=torch.float32, trust_remote_code=False)
