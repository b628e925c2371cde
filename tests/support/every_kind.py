"""A task of every kind with random rows of the tiny vocabulary, and models that know the answers."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

import weft
from tests.support.tiny_run import WORDS, save_encoder, write_rows
from weft.data import load_split
from weft.data.tokens.tokens import Tokens, in_memory
from weft.tasks.kinds import KINDS

MARKS = ({"text": 0, "start": "s1", "end": "e1"}, {"text": 1, "word": "w2", "phrase": "p2"})
TAGS = ("O", "B-x", "I-x", "B-y", "I-y")


def _sentence(draw: random.Random, least: int = 3, most: int = 9) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(least, most)))


def _classify(draw: random.Random) -> dict[str, Any]:
    text = _sentence(draw)
    return {"text": text, "label": "yes" if "cat" in text.split() else "no"}


def _pair(draw: random.Random) -> dict[str, Any]:
    a, b = _sentence(draw), _sentence(draw)
    same = draw.random() < 0.5
    return {"a": a, "b": a if same else b, "label": 5.0 if same else draw.randint(0, 8) / 2}


def _apart(draw: random.Random) -> dict[str, Any]:
    return {"a": _sentence(draw), "b": _sentence(draw), "label": draw.randint(0, 2)}


def _multilabel(draw: random.Random) -> dict[str, Any]:
    text = _sentence(draw)
    return {"text": text, "label": [w for w in ("cat", "dog", "bird") if w in text.split()]}


def _marked(draw: random.Random) -> dict[str, Any]:
    a, b = _sentence(draw).split(), _sentence(draw).split()
    i, j = draw.randrange(len(a)), draw.randrange(len(b))
    if draw.random() < 0.5:
        b[j] = a[i]
    start = len(" ".join([*a[:i], ""]))
    same = int(a[i] == b[j])
    places = {"s1": start, "e1": start + len(a[i]), "w2": j, "p2": b[j]}
    return {"a": " ".join(a), "b": " ".join(b), **places, "label": same}


def _span(draw: random.Random) -> dict[str, Any]:
    context = _sentence(draw, 5, 40)
    words = context.split()
    first = draw.randrange(len(words))
    answer = " ".join(words[first : first + draw.randint(1, 3)])
    start = len(" ".join([*words[:first], ""]))
    return {"q": _sentence(draw, 2, 5), "c": context, "answers": {"text": [answer], "answer_start": [start]}}


def _tag(draw: random.Random) -> dict[str, Any]:
    words = _sentence(draw, 8, 40).split()
    return {"words": words, "tags": [TAGS[1 + WORDS.index(w) % 2 * 2] if len(w) > 3 else "O" for w in words]}


def _choose(draw: random.Random) -> dict[str, Any]:
    choices = [_sentence(draw, 1, 4) for _ in range(draw.randint(2, 6))]
    right = draw.randrange(len(choices))
    return {"text": choices[right], "choices": choices, "label": right}


def _put_in(draw: random.Random) -> dict[str, Any]:
    words = _sentence(draw, 4, 6).split()
    words[draw.randrange(len(words))] = "@placeholder"
    # answers are judged by their texts without articles
    choices = draw.sample(WORDS[2:], draw.randint(3, 5))
    return {"p": _sentence(draw), "q": " ".join(words), "e": choices, "label": [0, len(choices) - 1]}


def _rank(draw: random.Random) -> dict[str, Any]:
    choices = [_sentence(draw, 1, 4) for _ in range(draw.randint(1, 5))]
    relevance = [draw.randint(0, 3) for _ in choices]
    relevance[draw.randrange(len(choices))] = 3
    return {"text": _sentence(draw), "found": choices, "label": relevance}


MAKERS = {
    "classify": _classify,
    "apart": _apart,
    "regress": _pair,
    "two": lambda draw: {"text": _sentence(draw), "x": draw.random(), "y": draw.random()},
    "multilabel": _multilabel,
    "cosine": _pair,
    "similar": _pair,
    "marked": _marked,
    "span": _span,
    "tag": _tag,
    "choose": _choose,
    "put_in": _put_in,
    "rank": _rank,
    "pairwise": _rank,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "classify": {"labels": ("no", "yes"), "class_weights": "balanced"},
    "apart": {"size": 3, "texts": ("a", "b"), "apart": True, "layers": 3, "hidden": 7},
    "regress": {"kind": "regress", "texts": ("a", "b"), "range": (0, 5), "pool": "mean"},
    "two": {"kind": "regress", "label": ("x", "y")},
    "multilabel": {"kind": "multilabel", "labels": ("cat", "dog", "bird"), "layers": 2},
    "cosine": {"kind": "similarity", "texts": ("a", "b"), "range": (0, 5)},
    "similar": {"kind": "similarity", "texts": ("a", "b"), "range": (0, 5), "compare": "head"},
    "marked": {"kind": "marked", "size": 2, "texts": ("a", "b"), "marks": MARKS, "pool": "task_pooler"},
    "span": {"kind": "span", "texts": ("q", "c"), "label": "answers", "stride": 4},
    "tag": {"kind": "tag", "labels": TAGS, "texts": ("words",), "label": "tags", "stride": 3},
    "choose": {"kind": "choose", "choices": ("choices",)},
    "put_in": {"kind": "choose", "texts": ("p", "q"), "choices": ("e",), "metrics": ("token_f1", "accuracy")},
    "rank": {"kind": "rank", "choices": ("found",)},
    "pairwise": {"kind": "rank", "choices": ("found",), "rank_loss": "pairwise", "layers": 2, "hidden": 9},
}
NAMES = tuple(SETTINGS)


def rows_of_kind(name: str, count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Rows of one of the tasks."""
    draw = random.Random(f"{name} {seed}")
    return [MAKERS[name](draw) for _ in range(count)]


def write_every_kind(folder: Path, train: dict[str, Any], layers: int | None = None) -> Path:
    """A run file of all the tasks, with its encoder and data, in `folder`; returns its path."""
    save_encoder(folder / "encoder", layers=layers)
    tasks = {}
    for name in NAMES:
        files = {}
        for split, count, seed in (("train", 9, 1), ("validation", 5, 2)):
            files[split] = f"{name}.{split}.jsonl"
            write_rows(folder / files[split], rows_of_kind(name, count, seed))
        tasks[name] = json.loads(json.dumps(SETTINGS[name])) | files  # tuples become lists, as YAML has them
    run = {"encoder": "encoder", "method": {"use": "lora", "rank": 2}, "heads": {"pool": "cls"}}
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump({**run, "tasks": tasks, "train": train}, sort_keys=False))
    return path


def task_of_kind(name: str, train: int = 6, validation: int = 4, **changes: Any) -> weft.Task:
    """One of the tasks, with rows."""
    files = {"train": rows_of_kind(name, train, 1), "validation": rows_of_kind(name, validation, 2)}
    return weft.Task(name, **{**SETTINGS[name], "files": files, **changes})


def tokens_of(task: weft.Task, tokenizer: Any, max_length: int = 24, split: str = "train") -> Tokens:
    """The tokens of a task's rows."""
    return in_memory(load_split(task, split), tokenizer, max_length)


def perfect_logits(tokens: Tokens, sure: float = 10.0) -> list[NDArray[np.float32]]:
    """The logits of each example of a model that has learnt its targets."""
    return [_perfect(tokens, i, sure).astype(np.float32) for i in range(len(tokens))]


def _perfect(tokens: Tokens, i: int, sure: float) -> NDArray[Any]:
    task, target = tokens.split.task, tokens.target(i)
    kind = KINDS[task.kind]
    if kind.name in ("classify", "marked"):
        return sure * np.eye(task.size or 0)[target]
    if kind.name in ("regress", "similarity"):
        return np.atleast_1d(np.asarray(task.target(target), float))
    if kind.name == "multilabel":
        return np.array([sure if k in target else -sure for k in range(task.size or 0)])
    if kind.answers_by == "row":
        return sure * np.array(target)
    lengths = [tokens.row_lengths[r] for r in tokens.rows_of(i)]
    found = [np.zeros((length, task.size or 0)) for length in lengths]
    for own, answer in zip(found, target, strict=True):
        if kind.name == "span":
            own[answer[0], 0] = own[answer[1], 1] = sure
        else:
            for place, tag in enumerate(answer):
                own[place] = sure * np.eye(task.size or 0)[tag] if tag >= 0 else own[place]
    return np.concatenate(found)
