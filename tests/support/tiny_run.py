"""A tiny encoder with a tokenizer, tiny data files and a run file: a whole run in a second."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from tests.support.tiny import CONFIGS, tiny
from weft import cli
from weft.training.run.loop import Loop
from weft.training.step.microbatches import PreparedStep

WORDS = (
    *("the", "a", "cat", "dog", "bird", "sees", "likes", "fears", "red", "blue"),
    *("old", "new", "here", "there", "now", "then", "not", "very"),
)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def save_encoder(folder: Path, family: str = "bert", layers: int | None = None) -> Path:
    """A tiny encoder and a word-level tokenizer, saved as Hugging Face saves them."""
    encoder = tiny(family, layers=layers)
    encoder.save_pretrained(folder)
    vocabulary = {word: i for i, word in enumerate([*SPECIAL, *WORDS])}
    assert len(vocabulary) < CONFIGS[family][1]["vocab_size"]
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    fast.save_pretrained(folder)
    return folder


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def sentence(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(3, 9)))


def rows_of(task: str, count: int, seed: int) -> list[dict[str, Any]]:
    """Learnable rows: is there a cat; do the two share their first word; how many words are there."""
    draw = random.Random(f"{task} {seed}")
    rows: list[dict[str, Any]] = []
    for _ in range(count):
        text, other = sentence(draw), sentence(draw)
        if task == "cat":
            rows.append({"text": text, "label": "yes" if "cat" in text.split() else "no"})
        elif task == "same":
            label = draw.randint(0, 2)
            rows.append({"a": text, "b": text if label == 0 else other, "label": label})
        else:
            rows.append({"text": text, "label": len(text.split()) / 2})
    return rows


def write_run(folder: Path, layers: int | None = None, baselines: bool | None = False, **train: Any) -> Path:
    """A run file with three tasks in `folder`, with its encoder and data; returns its path.

    Baselines take a tenth of such a run and change nothing of it, so they are off; None: weft's default.
    """
    save_encoder(folder / "encoder", layers=layers)
    for task, count in (("cat", 40), ("same", 25), ("count", 9)):
        write_rows(folder / f"{task}.train.jsonl", rows_of(task, count, 1))
        write_rows(folder / f"{task}.validation.jsonl", rows_of(task, 12, 2))

    def files(task: str) -> dict[str, str]:
        return {split: f"{task}.{split}.jsonl" for split in ("train", "validation")}

    run = {
        "encoder": "encoder",
        "method": {"use": "lora", "rank": 2},
        "tasks": {
            "cat": {"labels": ["no", "yes"], **files("cat")},
            "same": {"texts": ["a", "b"], "labels": ["x", "y", "z"], **files("same")},
            "count": {"kind": "regress", **files("count")},
        },
        "train": {
            "steps": 20,
            "batch_size": 8,
            "max_length": 24,
            "lr": 0.01,
            "evaluate_every": 5,
            "evaluate_rows": 8,
            "checkpoint_every": 3,
            "log_every": 4,
            **({} if baselines is None else {"baselines": baselines}),
            **train,
        },
    }
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(run, sort_keys=False), encoding="utf-8")
    return path


@contextmanager
def trained_run(folder: Path, **settings: Any) -> Iterator[Path]:
    """A finished run, FOLDER/run.yaml and FOLDER/out; inside, its token cache is the one that is used."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", str(folder / "cache"))
        assert cli.run(["train", str(write_run(folder, **settings)), "--out", str(folder / "out")]) == 0
        yield folder


@contextmanager
def breaking_off(step: int) -> Iterator[None]:
    """Inside, a run is interrupted as it begins step `step`."""
    original = Loop._step

    def failing(self: Loop, prepared: PreparedStep) -> None:
        if prepared.step.number == step:
            raise KeyboardInterrupt
        original(self, prepared)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loop, "_step", failing)
        yield


TIMES = ("time", "seconds", "step_seconds", "examples_per_second")
"""The fields of log.jsonl and metrics.json that no two runs have in common."""


def untimed(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a line of the log, or of metrics.json, without times."""
    return {key: value for key, value in fields.items() if key not in TIMES}


def metrics_of(folder: Path) -> dict[str, Any]:
    """What metrics.json of a run holds, without times: it is the same for equal runs."""
    return untimed(json.loads((folder / "metrics.json").read_text(encoding="utf-8")))


def assert_refused(code: int, told: Any, messages: list[str]) -> None:
    """A user's mistake: exit 2, nothing on standard output, and every message on standard error."""
    assert (code, told.out) == (2, "")
    for message in messages:
        assert message in told.err
    assert "Traceback" not in told.err
