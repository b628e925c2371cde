"""Compare tokenizing whole suites into the cache with the plain tokenizer call, in one run.

    python -m benchmarks.speed.tokenize --root DATA [--suites glue superglue squad …] [--max-length 128]

Every file of the suites is read and tokenized into an empty cache, then once more from it. The peer is a loop
of `tokenizer(texts, truncation=…)` over the same rows of plain texts (no windows, no characters), with the
ids made one array a split. Prints seconds, the cores in use (CPU time / wall time)
and the ratio to the peer.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

from weft.data.splits.split import Split, load_split
from weft.data.tokens.encode import CHUNK
from weft.data.tokens.progress import tokenizing
from weft.data.tokens.tokens import tokenize
from weft.encoder.load import load_tokenizer
from weft.suites import load_suite
from weft.tasks.kinds import KINDS

SUITES = ["glue", "superglue", "squad", "wnut17", "snli", "scitail", "cs224n"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--suites", nargs="+", default=SUITES)
    parser.add_argument("--max-length", type=int, default=128)
    args = parser.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    tokenizer = load_tokenizer("minilm")
    splits: dict[tuple[str, str], Split] = {}

    def read() -> None:
        for suite in args.suites:
            for task in load_suite(suite, args.root):
                for name in task.files:
                    splits[f"{suite}/{task.name}", name] = load_split(task, name)

    timed("read and check", read)
    print(f"{sum(map(len, splits.values())):,} examples of {len(splits)} splits")

    def all_of(chosen: dict[tuple[str, str], Split], cache: str) -> None:
        with tokenizing(True) as told:
            for key, split in chosen.items():
                tokenize(split, tokenizer, args.max_length, cache, told.of(key, split))

    plain = {k: s for k, s in splits.items() if KINDS[s.task.kind].windows is None and not s.marks}
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as other:
        timed("weft, all", lambda: all_of(splits, cache))
        timed("weft, all, again", lambda: all_of(splits, cache))
        ours = timed("weft, plain texts", lambda: all_of(plain, other))
    theirs = timed(
        "tokenizer(…), plain texts", lambda: peer(tokenizer, list(plain.values()), args.max_length)
    )
    print(f"ratio weft / tokenizer(…) on plain texts: {ours / theirs:.2f}")


def timed(name: str, work: Callable[[], object]) -> float:
    """Run a function and print its wall time and the cores that it used."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{name}: {wall:.1f} s, {cpu / wall:.2f} cores", flush=True)
    return wall


def peer(tokenizer: Any, splits: list[Split], max_length: int) -> list[Any]:
    """One array of ids per split, made by plain calls of the tokenizer on chunks of rows."""
    found = []
    for split in splits:
        rows = [row for texts in split.texts for row in KINDS[split.task.kind]().rows(split.task, texts)]
        ids: list[list[int]] = []
        for first in range(0, len(rows), CHUNK):
            columns = [list(column) for column in zip(*rows[first : first + CHUNK], strict=True)]
            ids += tokenizer(*columns, truncation="longest_first", max_length=max_length)["input_ids"]
        found.append(np.fromiter(chain.from_iterable(ids), np.int32))
    return found


if __name__ == "__main__":
    main()
