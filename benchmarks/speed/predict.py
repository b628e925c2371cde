"""Measure public calls: `model.predict` on strings, and `evaluate` on whole validation sets.

    python -m benchmarks.speed.predict --root DATA [--minilm FOLDER] [--texts 20000] [--device cuda]
        [--only minilm bert-base]

GLUE's validation texts, tasks mixed at random. Beside LoRA stands the same pipeline with the bare encoder
(method `frozen`: heads alone), and each with captured passes off. All variants take turns, and each figure is
a median over the rounds. `parts` says where the time of a call goes: tokenizing, forward passes and making
answers, each by itself, and the time spent in Python's garbage collector. Prints a table and writes
benchmarks/out/predict-DEVICE.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import weft
from benchmarks.speed.encoders import BERT_BASE, fresh, minilm
from benchmarks.speed.machine import in_words, machine
from benchmarks.speed.predict_parts import parts_of
from benchmarks.speed.results import OUT
from benchmarks.speed.text_data import GLUE, MAX_LENGTH
from weft.data import load_split
from weft.data.tokens.tokens import tokenize
from weft.evaluation.evaluate import evaluate

METHODS = {"lora": {"use": "lora", "rank": 8}, "bare encoder": "frozen"}
SIZES = (1, 32, 1000)


def main() -> None:
    args = arguments()
    device = torch.device(args.device)
    small = minilm(args.minilm)
    tasks = weft.load_suite("glue", args.root, GLUE)
    splits = {task.name: load_split(task, "validation") for task in tasks}
    requests = [
        (name, texts if len(texts) > 1 else texts[0]) for name, own in splits.items() for texts in own.texts
    ]
    random.Random(0).shuffle(requests)
    found: dict[str, Any] = {"machine": machine(device), "texts": min(args.texts, len(requests)), "rows": []}
    print(in_words(found["machine"]))
    settings = {
        "minilm": (small, "float32"),
        "minilm-bf16": (small, "bf16"),
        "bert-base": (BERT_BASE, "bf16"),
    }
    for encoder, precision in (settings[name] for name in args.only or settings):
        if device.type == "cpu" and (encoder != small or precision != "float32"):
            continue
        models = {name: model_of(encoder, small, tasks, method, device) for name, method in METHODS.items()}
        rows = predictions(models, requests[: args.texts], precision, args.rounds, device)
        found["rows"] += [{"encoder": Path(encoder).name, "precision": precision, **row} for row in rows]
        show(found["rows"][-len(rows) :])
        for name, model in models.items():
            model.captures.enabled = True
            parts = parts_of(model, requests[: args.texts], precision, args.rounds)
            found.setdefault("parts", []).append(
                {"encoder": Path(encoder).name, "precision": precision, "model": name, **parts}
            )
            show(found["parts"][-1:])
        if device.type == "cuda" and encoder == small and precision == "float32":
            tokenizer = models["lora"].tokenizer
            tokens = {n: tokenize(own, tokenizer, MAX_LENGTH) for n, own in splits.items()}
            found["evaluate"] = evaluations(models["lora"], tokens, args.rounds)
            print(json.dumps(found["evaluate"]))
    out = args.out or OUT.parent / f"predict-{device.type}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(found, indent=1) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", required=True, help="folder with GLUE's files")
    parser.add_argument("--minilm", help="folder with MiniLM's files; default: the installed package")
    parser.add_argument("--texts", type=int, default=20_000, help="number of texts per call")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds per variant")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=["minilm", "minilm-bf16", "bert-base"],
        help="encoders to measure; default: all",
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    return parser.parse_args()


def model_of(
    encoder: str, tokenizer: str, tasks: list[weft.Task], method: object, device: torch.device
) -> weft.Model:
    """A model with random adapter weights; LoRA's initial update is zero."""
    loaded = fresh(encoder, device)
    if loaded.source is None:
        loaded = dataclasses.replace(loaded, source=fresh(tokenizer, torch.device("cpu")).source)
    model = weft.Model(loaded, tasks, method, max_length=MAX_LENGTH, seed=1).to(device).eval()
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.02 * torch.randn_like(parameter))
    return model


def predictions(
    models: dict[str, weft.Model], requests: list[Any], precision: Any, rounds: int, device: torch.device
) -> list[dict[str, Any]]:
    """Seconds of calls of several sizes: cold (the first call), then medians of warm ones, in turns."""
    calls: dict[tuple[str, bool], Callable[[int, int], float]] = {}
    for name, model in models.items():
        for captured in (True, False) if device.type == "cuda" else (False,):
            calls[name, captured] = _call(model, captured, requests, precision, device)
    rows = []
    taken: dict[tuple[str, bool], dict[int, list[float]]] = {key: {} for key in calls}
    for size in (len(requests), *SIZES):
        # small calls have many shapes, each of which is captured on its third use
        for turn in range(rounds if size == len(requests) else turns_of(size, device)):
            first = turn % len(calls)  # the order rotates, so that no call always follows the slowest
            for key in [*calls][first:] + [*calls][:first]:
                taken[key].setdefault(size, []).append(calls[key](size, turn))
    for (name, captured), by_size in taken.items():
        whole = by_size[len(requests)]
        warm = whole[1:] or whole
        row: dict[str, Any] = {"model": name, "captured": captured, "first_call_s": round(whole[0], 3)}
        row["texts_per_s"] = round(len(requests) / statistics.median(warm))
        row["texts_per_s_range"] = [round(len(requests) / t) for t in (max(warm), min(warm))]
        bare = taken["bare encoder", captured][len(requests)]
        pairs = [a / b for a, b in zip(whole, bare, strict=True)][1:] or [whole[0] / bare[0]]
        row["beside_bare"] = round(statistics.median(pairs), 3)  # round by round
        for size in SIZES:
            last = sorted(by_size[size][len(by_size[size]) // 2 :])
            row[f"ms_{size}"] = round(1000 * statistics.median(last), 2)
            row[f"ms_{size}_p90"] = round(1000 * last[int(0.9 * len(last))], 2)
        rows.append(row)
    return rows


def turns_of(size: int, device: torch.device) -> int:
    """The number of calls of this size; the first half of them is not counted."""
    if device.type == "cpu":
        return 10 if size < 1000 else 2
    return 60 if size < 1000 else 12


def _call(
    model: weft.Model, captured: bool, requests: list[Any], precision: Any, device: torch.device
) -> Callable[[int, int], float]:
    def call(size: int, turn: int) -> float:
        first = 0 if size == len(requests) else (turn * size) % (len(requests) - size)
        model.captures.enabled = captured
        began = time.perf_counter()
        model.predict(requests[first : first + size], precision=precision)
        return time.perf_counter() - began

    return call


def evaluations(model: weft.Model, tokens: Any, rounds: int) -> dict[str, Any]:
    """Seconds of an evaluation of all validation sets, captured and eager, and how far metrics differ."""
    found: dict[str, Any] = {"examples": sum(map(len, tokens.values()))}
    scores: dict[str, Any] = {}
    seconds: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name in ("captured", "eager"):
            model.captures.enabled = name == "captured"
            began = time.perf_counter()
            scores[name] = evaluate(model, tokens)["tasks"]
            seconds.setdefault(name, []).append(time.perf_counter() - began)
    model.captures.enabled = True
    for name, taken in seconds.items():
        found[f"{name}_s"] = round(statistics.median(taken[1:] or taken), 3)
    found["largest_difference_of_a_metric"] = max(
        abs(value - scores["eager"][task][metric])
        for task, own in scores["captured"].items()
        for metric, value in own.items()
    )
    return found


def show(rows: list[dict[str, Any]]) -> None:
    """Print one line per variant."""
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)


if __name__ == "__main__":
    main()
