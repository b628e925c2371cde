"""Damaged folders of encoders: configuration, weights and tokenizer, and code beside them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from tests.fuzz.base import Base
from tests.fuzz.case import Case
from tests.fuzz.folder_damage import copied, damage_folder

HOSTILE_CONFIGS = (
    {
        "auto_map": {
            "AutoModel": "modeling.Model",
            "AutoConfig": "modeling.Config",
            "AutoTokenizer": "modeling.T",
        }
    },
    {"model_type": "unknown"},
    {"hidden_size": 2**40},
    {"num_hidden_layers": 10**9},
    {"max_position_embeddings": -1},
    {"torch_dtype": "os.system"},
    {"architectures": ["../x"]},
    {"quantization_config": {"quant_method": "x"}},
    {"vocab_size": 2},
    {"hidden_act": "x"},
    {"num_attention_heads": 0},
    {"is_decoder": True},
    {"chunk_size_feed_forward": 3},
    {"pad_token_id": 10**9},
    {"layer_norm_eps": "x"},
)
CODE = "import os, signal\nos.kill(os.getpid(), signal.SIGUSR1)  # a crash, which the fuzzer counts\n"


def build_encoder(draw: Random, base: Base, folder: Path) -> Case:
    """An encoder's folder with damaged files or a hostile configuration, and a command that loads it."""
    encoder = copied(base.encoder, folder / "encoder")
    if draw.random() < 0.4:
        config = json.loads((encoder / "config.json").read_text())
        config |= draw.choice(HOSTILE_CONFIGS)
        (encoder / "config.json").write_text(json.dumps(config))
        (encoder / "modeling.py").write_text(CODE)
    if draw.random() < 0.7:
        damage_folder(draw, encoder)
    if draw.random() < 0.1:
        (encoder / "1_Pooling").mkdir(exist_ok=True)
        (encoder / "1_Pooling" / "config.json").write_text(
            draw.choice(["[]", "x", '{"pooling_mode_mean_tokens": true}'])
        )
    run = str(base.run_file)
    commands = (
        *(("check", run, "encoder=encoder", "--no-estimate"),) * 3,
        ("show", "params", run, "encoder=encoder"),
        *(("train", run, "encoder=encoder", "train.steps=1", "--out", "out"),) * 2,
        *(("predict", str(base.run("ended")), "--encoder", "encoder", "--task", "cat", "--text", "the cat"),)
        * 3,
        ("import", str(base.peft("auto")), "--encoder", "encoder", "--out", "new"),
    )
    command = draw.choice(commands)
    return Case(
        command, stdin=b"yes\n" * 20, codes=(1, 2) if command[0] == "train" else (2,), inputs=(encoder,)
    )
