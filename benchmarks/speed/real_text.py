"""Training on real text from end to end: data, steps, evaluations and checkpoints.

weft trains all tasks under `proportional` sampling with batches of like length. The peer is PEFT under
Transformers' Trainer as it is by default: the same rows in one pool, random batches padded to the longest,
one LoRA and one head for all of them. So both read the same texts. Both evaluate on the same
rows and write a checkpoint in every turn.
"""

from __future__ import annotations

import dataclasses
import tempfile
import unittest.mock
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

import weft
from benchmarks.speed.bench import Bench, first_line
from benchmarks.speed.encoders import fresh
from benchmarks.speed.peers import RATE, classifier
from benchmarks.speed.results import Work
from benchmarks.speed.text_data import MAX_LENGTH, Text
from benchmarks.speed.timing import Variant, spread
from benchmarks.speed.turns import Turns
from weft.data.tokens.tokens import Tokens
from weft.training.run.progress import Quiet

WORK = "training on text"
WEFT = "weft lora"
PEER = "peft lora, Trainer"
BATCH = 32


def measure(
    bench: Bench, encoder: str, tokenizer: str, text: Text, every: int, turns: int, engine: str
) -> None:
    """Both loops, in turns of `every` steps, an evaluation and a checkpoint; the first turn is the start.

    Args:
        bench: what to measure with.
        encoder: its name.
        tokenizer: the encoder that lends its tokenizer, where the first has an architecture alone.
        text: the tasks and their rows.
        every: the steps of a turn.
        turns: how many turns each has, the first not counted.
        engine: of weft.
    """
    bench.say(f"{WORK}: {text.source}, {every} steps a turn")
    steps = every * (turns + 1)
    taking = Turns([WEFT, PEER], every, bench.device)
    with tempfile.TemporaryDirectory() as folder:
        model = weft_model(encoder, tokenizer, text, bench.device)
        peer = trainer(encoder, model, text, taking, steps, every, Path(folder) / "peer", bench.device)

        def train_weft() -> None:
            training = training_of(steps, every, engine)
            told = _Told(taking)
            with unittest.mock.patch("weft.training.run.run.progress_for", return_value=told):
                weft.train(
                    model, training, Path(folder) / "weft", splits=dict(text.splits), with_bundle=False
                )

        taking.run({WEFT: train_weft, PEER: peer.train})
    work = Work("real", WORK, PEER, "speed", {"encoder": encoder, "text": text.source, "batch": BATCH})
    found = {}
    for name in (WEFT, PEER):
        if name in taking.failed:
            bench.skip(name, first_line(taking.failed[name]))
        elif len(taking.seconds[name]) > 1:
            found[name] = spread([seconds / every for seconds in taking.seconds[name][1:]])
    variants = [Variant(name, lambda: None, facts=_facts(taking, name, every)) for name in found]
    if found:
        work.add(variants, found, None)
        bench.note(work)


def weft_model(encoder: str, tokenizer: str, text: Text, device: torch.device) -> weft.Model:
    """A LoRA model for the tasks; an architecture without files uses the tokenizer of a different encoder."""
    loaded = fresh(encoder, device)
    if loaded.source is None:
        loaded = dataclasses.replace(loaded, source=fresh(tokenizer, torch.device("cpu")).source)
    return weft.Model(loaded, text.tasks, "lora", max_length=MAX_LENGTH)


def training_of(steps: int, every: int, engine: str) -> weft.Training:
    """weft's default settings, with an evaluation and a checkpoint every `every` steps."""
    return weft.Training(
        steps=steps,
        batch_size=BATCH,
        max_length=MAX_LENGTH,
        evaluate_every=every,
        evaluate_rows=None,
        last_evaluation="subset",
        checkpoint_every=every,
        engine=engine,
    )


def trainer(
    encoder: str,
    model: weft.Model,
    text: Text,
    taking: Turns,
    steps: int,
    every: int,
    folder: Path,
    device: torch.device,
) -> Trainer:
    """Transformers' Trainer with a PEFT classifier; its defaults, except for what is set as in weft."""
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=2 * BATCH,
        learning_rate=RATE,
        eval_strategy="steps",
        eval_steps=every,
        save_strategy="steps",
        save_steps=every,
        logging_steps=50,
        report_to=[],
        disable_tqdm=True,
        bf16=device.type == "cuda",
        use_cpu=device.type == "cpu",
    )
    labels = max(task.size or 1 for task in text.tasks)
    made = Trainer(
        model=classifier(encoder, device, labels),
        args=arguments,
        train_dataset=Pool([own for (_, split), own in text.tokens.items() if split == "train"]),
        eval_dataset=Pool([own for (_, split), own in text.tokens.items() if split == "validation"]),
        processing_class=model.tokenizer,
        callbacks=[_Counted(taking)],
    )
    made.remove_callback(PrinterCallback)
    return made


class Pool(Dataset):  # type: ignore[type-arg]
    """The rows of several tasks as one dataset of lists, as a tokenized dataset returns them."""

    def __init__(self, tokens: Sequence[Tokens]) -> None:
        self._places = [(own, i) for own in tokens for i in range(len(own))]

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, number: int) -> dict[str, Any]:
        own, i = self._places[number]
        row = own.rows_of(i)[0]
        ids, types, target = own.ids(row), own.types(row), own.target(i)
        return {
            "input_ids": ids.tolist(),
            "token_type_ids": [0] * len(ids) if types is None else types.tolist(),
            "labels": int(target) if isinstance(target, int | np.integer) else 0,
        }


class _Told(Quiet):
    """A progress display that reports weft's steps to `Turns`."""

    def __init__(self, taking: Turns) -> None:
        self._taking = taking

    def step(self, done: int, losses: Mapping[str, float] | None) -> None:
        self._taking.step(WEFT, done)


class _Counted(TrainerCallback):
    """A callback that reports the Trainer's steps to `Turns`."""

    def __init__(self, taking: Turns) -> None:
        self._taking = taking

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._taking.step(PEER, state.global_step)


def _facts(taking: Turns, name: str, every: int) -> dict[str, Any]:
    first, *_ = taking.seconds[name]
    return {"first_turn_s": first, "ending_s": taking.ending[name], "steps_a_turn": every}
