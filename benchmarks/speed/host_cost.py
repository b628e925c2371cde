"""Measure the CPU time of a predicted text besides the encoder's passes.

    python -m benchmarks.speed.host_cost [--bundle BUNDLE] [--rows 20000] [--rounds 3] [--out FILE]

The rows are those of `benchmarks.speed.corpora`: JSON lines of about 32 tokens. They are predicted as
`weft predict FILE --out FILE` does it, in this process, on a CPU with one thread; only that requests are not
tokenized in a second thread, so that every second belongs to one part. Everything is CPU time of the process,
so that waiting and other load count little. `encoder` is the model's forward pass; `host` is the rest, and is
divided into

    reading     reading and parsing a line, and checking it
    tokenizing
    batching    length-bucketed batches, and logits by row
    decoding    labels and probabilities
    writing     rounding, and writing a line
    other       windows, and the clock itself

Without a bundle one is made, of `random:bert-tiny@minilm`: the host's part does not depend on the encoder.
Prints milliseconds per text, medians over the rounds, and writes benchmarks/out/host-cost.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.speed.results import OUT

ENCODER = "random:bert-tiny@minilm"


def main() -> None:
    args = arguments()
    os.environ |= {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}  # before torch is imported
    from benchmarks.speed.bundles import made_bundle
    from benchmarks.speed.corpora import write

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        bundle = args.bundle or made_bundle(folder / "bundle", ENCODER, 1)[0]
        (folder / "parts").mkdir()
        write(folder / "parts", args.rows, 1, folder / "rows.jsonl")
        rounds = [measured(bundle, folder / "rows.jsonl", folder / "out.jsonl") for _ in range(args.rounds)]
    found = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    per_text = {name: round(1e3 * seconds / args.rows, 4) for name, seconds in found.items()}
    result = {"rows": args.rows, "rounds": args.rounds, "ms_per_text": per_text}
    print(json.dumps(result, indent=1))
    out = args.out or OUT / "host-cost.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bundle", type=Path, help="a bundle of one task; default: one is made")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    return parser.parse_args()


class Clock:
    """Adds up the CPU time of named parts, the tokenizer's own thread included."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def of(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose time is added to a part."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[name] += time.process_time() - began

        return timed

    def each(self, name: str, items: Iterator[Any]) -> Iterator[Any]:
        """The items; the time until each is there is added to a part."""
        following = self.of(name, lambda: next(items, None))
        while (item := following()) is not None:
            yield item


class Inline:
    """A pool of no threads: what is submitted runs at once."""

    def __init__(self, _: int) -> None:
        pass

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Run the function; the result is there already."""
        future: Future[Any] = Future()
        future.set_result(function(*args))
        return future


def measured(bundle: Path, file: Path, out: Path) -> dict[str, float]:
    """The seconds of CPU time of each part of predicting a file; the bundle is loaded before.

    Args:
        bundle: the bundle, of one task.
        file: the rows.
        out: the file of the predictions.
    """
    import torch

    from weft.inference import stream
    from weft.model.model import Model
    from weft.workflows.predict import Predictor
    from weft.workflows.prediction_output import open_output

    torch.set_num_threads(1)
    clock = Clock()
    predictor = Predictor(bundle, device="cpu")
    model = predictor.loaded()
    model.predict([(model.tasks[0].name, "the first pass is slow")])
    with ExitStack() as patches:
        for part, name in (
            ("tokenizing", "tokenize_inputs"),
            ("passes", "all_logits"),
            ("decoding", "answered"),
        ):
            timed = clock.of(part, getattr(stream, name))
            patches.enter_context(mock.patch.object(stream, name, timed))
        patches.enter_context(mock.patch.object(stream, "ThreadPoolExecutor", Inline))
        patches.enter_context(mock.patch.object(Model, "forward", _forward(clock, Model.forward)))
        rows = patches.enter_context(predictor.opened(file))
        output = open_output(out)
        began = time.process_time()
        read = rows._replace(requests=clock.each("reading", rows.requests))

        def written(window: list[Any]) -> None:
            output.write([predictor.row(request, answer) for request, answer in window])

        for window in predictor.windows(read):
            clock.of("writing", written)(window)
        clock.of("writing", output.close)(True)
        whole = time.process_time() - began
    parts = dict(clock.seconds)
    parts["batching"] = parts.pop("passes") - parts["encoder"]
    parts["host"] = whole - parts["encoder"]
    named = ("reading", "tokenizing", "batching", "decoding", "writing")
    parts["other"] = parts["host"] - sum(parts[name] for name in named)
    return {name: parts[name] for name in ("host", *named, "other", "encoder")}


def _forward(clock: Clock, plain: Callable[..., Any]) -> Callable[..., Any]:
    """The forward pass as a method, which is timed."""
    timed = clock.of("encoder", plain)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return timed(self, *args, **kwargs)

    return forward


if __name__ == "__main__":
    main()
