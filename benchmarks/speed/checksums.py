"""Measure what checksums and flushing to the disk cost: saving and loading bundles, a run, the token cache.

    python -m benchmarks.speed.checksums [--rounds 5] [--only bundles runs cache]

The time inside the functions that compute checksums, and inside `os.fsync`, is measured in the calls that
users make. Of computing, CPU time is reported, which other programs on the machine do not change; of
flushing, wall time. Prints a table for each section; its figures are medians over the rounds.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

import weft
from benchmarks.speed.machine import in_words, machine
from weft.config import load_run
from weft.data.tokens import cache as tokens
from weft.training.run import checkpoint_files, loop_state
from weft.training.settings import Training

SUMS = ("file_sha256", "file_problem", "file_crc32", "start_sha256", "sealed", "is_sealed")
"""Functions of weft.utils.checksums; those that call others are counted once."""
METHODS: dict[str, Any] = {"lora": {"use": "lora", "rank": 8}, "full": "full"}
MB = 1e6


@dataclass
class Spent:
    """The seconds of one call: all of it and its checksums in CPU time, its flushes in wall time."""

    cpu: float = 0.0
    sums: float = 0.0
    fsync: float = 0.0


@contextmanager
def measured() -> Iterator[Spent]:
    """Inside, checksums and flushes are timed."""
    spent, depth = Spent(), [0]

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            depth[0] += 1
            began = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                depth[0] -= 1
                if not depth[0]:
                    spent.sums += time.process_time() - began

        return call

    def flush(handle: int, real: Callable[[int], None] = os.fsync) -> None:
        began = time.perf_counter()
        real(handle)
        spent.fsync += time.perf_counter() - began

    importlib.import_module("weft.training.run.run")
    sums = importlib.import_module("weft.utils.checksums")
    with ExitStack() as stack:
        patch = stack.enter_context
        for name in SUMS:
            wrapped, real = timed(getattr(sums, name)), getattr(sums, name)
            for module in [m for n, m in sys.modules.items() if n.startswith("weft.") and m is not None]:
                if getattr(module, name, None) is real:
                    patch(mock.patch.object(module, name, wrapped))
        patch(mock.patch.object(os, "fsync", flush))
        began = time.process_time()
        yield spent
        spent.cpu = time.process_time() - began


def median(rounds: int, call: Callable[[], object]) -> Spent:
    """The medians of several calls, after one that is not counted."""
    call()
    all_spent = []
    for _ in range(rounds):
        with measured() as spent:
            call()
        all_spent.append(spent)
    return Spent(*(statistics.median(getattr(s, key) for s in all_spent) for key in ("cpu", "sums", "fsync")))


def bundles(rounds: int) -> None:
    """Saving and loading bundles of six tasks on MiniLM."""
    print(f"{'bundle':28}{'MB':>7}{'save, s':>9}{'sums':>7}{'fsync':>7}{'load, s':>9}{'sums':>7}")
    run_file = load_run("quickstart")
    for name, method in METHODS.items():
        for included in (False, True):
            model = weft.Model("minilm", run_file.tasks, method, max_length=64)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "bundle"
                save = median(rounds, lambda m=model, p=path, i=included: m.save(p, with_encoder=i))
                load = median(rounds, lambda p=path: weft.load(p, device="cpu"))
                size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / MB
            label = f"{name}{', with the encoder' * included}"
            print(
                f"{label:28}{size:7.1f}{save.cpu:9.2f}{save.sums:7.3f}{save.fsync:7.2f}"
                f"{load.cpu:9.2f}{load.sums:7.3f}"
            )


def runs(rounds: int) -> None:
    """Writing checkpoints of the quickstart run, and resuming from one."""
    print(f"{'checkpoint':14}{'MB':>8}{'write, CPU s':>14}{'sums':>7}{'fsync':>7}{'resume: sums':>14}")
    run_file = load_run("quickstart")
    for name, method in METHODS.items():
        with tempfile.TemporaryDirectory() as folder, redirect_stderr(StringIO()):
            os.environ["WEFT_CACHE"] = f"{folder}/cache"
            # every second of `rounds` checkpoints is one that follows another
            chosen = {
                "steps": 2 * rounds + 1,
                "batch_size": 4,
                "evaluate_every": 2 * rounds,
                "evaluate_rows": 6,
            }
            settings = {**run_file.training.model_dump(), **chosen, "checkpoint_every": 2, "lr": None}
            settings |= {"last_evaluation": "subset", "baselines": False}
            out, written = Path(folder) / "run", []
            real = loop_state.save_checkpoint

            def save(*args: Any, real: Any = real, written: list[Spent] = written) -> Path:
                with measured() as spent:
                    path: Path = real(*args)
                written.append(spent)
                return path

            with mock.patch.object(loop_state, "save_checkpoint", save):
                model = weft.Model("minilm", run_file.tasks, method)
                weft.train(model, Training(**settings), out, progress=False)
            (out / "metrics.json").unlink()
            checkpoint = sorted((out / "checkpoints").glob("step-*"))[-1]
            size = sum(file.stat().st_size for file in checkpoint.iterdir()) / MB
            with measured() as resumed:
                checkpoint_files.undamaged_checkpoint(out / "checkpoints")
        spent = Spent(*(statistics.median(getattr(s, k) for s in written) for k in ("cpu", "sums", "fsync")))
        print(f"{name:14}{size:8.1f}{spent.cpu:14.2f}{spent.sums:7.3f}{spent.fsync:7.2f}{resumed.sums:14.3f}")


def cache(rounds: int) -> None:
    """Writing and opening entries of the token cache."""
    print(
        f"{'examples':>10}{'MB':>8}{'write, CPU s':>14}{'sums':>8}{'fsync':>8}{'open, CPU s':>13}{'sums':>8}"
    )
    draw = np.random.default_rng(0)
    for count in (1_000, 100_000, 1_000_000):
        lengths = draw.integers(20, 60, count)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        arrays = {"ids": draw.integers(0, 30_000, offsets[-1], dtype=np.int32), "offsets": offsets}
        arrays |= {"types": np.zeros(offsets[-1], np.int8), "full_lengths": lengths.astype(np.int32)}
        with tempfile.TemporaryDirectory() as folder:
            keys = iter(range(1_000))
            place = Path(folder)

            def write(place: Path = place, keys: Iterator[int] = keys, arrays: Any = arrays) -> None:
                tokens.write_entry(place, str(next(keys)), arrays, {})

            written = median(rounds, write)
            opened = median(rounds, lambda place=place: tokens.open_entry(place, "0"))
        size = sum(array.nbytes for array in arrays.values()) / MB
        print(
            f"{count:10,}{size:8.1f}{written.cpu:14.3f}{written.sums:8.3f}{written.fsync:8.3f}"
            f"{opened.cpu:13.3f}{opened.sums:8.3f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=["bundles", "runs", "cache"])
    args = parser.parse_args()
    print(in_words(machine(torch.device("cpu"))))
    for section in args.only:
        {"bundles": bundles, "runs": runs, "cache": cache}[section](args.rounds)
        print()


if __name__ == "__main__":
    main()
