"""Real text: the tasks of GLUE from a folder, or else the built-in suite, with their tokens."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import weft
from weft.data.splits.split import Split
from weft.data.splits.subset import rows_of, share_of
from weft.data.splits.task_rows import rows_of_task
from weft.data.tokens.tokens import Tokens, tokenize
from weft.encoder.load import load_tokenizer

GLUE = ["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte"]
MAX_LENGTH = 128


class Text(NamedTuple):
    """Tasks with their rows.

    Attributes:
        source: where they are from, in words.
        tasks: the tasks.
        splits: the rows of each task's splits, as `weft.train` takes them.
        tokens: the same, tokenized.
    """

    source: str
    tasks: list[weft.Task]
    splits: dict[tuple[str, str], Split]
    tokens: dict[tuple[str, str], Tokens]

    def lengths(self, count: int) -> list[int]:
        """The token counts of `count` training rows, taken evenly from all tasks, not ordered by length."""
        every = [int(n) for (_, split), own in self.tokens.items() if split == "train" for n in own.lengths]
        stride = max(1, len(every) // count)
        found = every[::stride][:count]
        # the rows of a task are adjacent: a stride that is coprime to the count mixes the tasks
        step = next(n for n in range(count // 3 + 1, 2 * count + 2) if math.gcd(n, len(found)) == 1)
        return [found[(i * step) % len(found)] for i in range(len(found))]


def load_text(encoder: str, root: str | None, rows: int, judged: int) -> Text:
    """Read and tokenize.

    Args:
        encoder: whose tokenizer is used.
        root: the folder that holds GLUE's files; where it is missing, the built-in suite `swatch`.
        rows: about how many training rows are kept in all, every task's share as it is.
        judged: how many validation rows of each task are kept.
    """
    if root is not None and Path(root).is_dir():
        source, tasks = "GLUE", weft.load_suite("glue", root, GLUE)
    else:
        source, tasks = "swatch (built in; no --root with GLUE's files was found)", weft.load_suite("swatch")
    splits = {key: split for task in tasks for key, split in rows_of_task(task).splits.items()}
    splits = {(name, split): own for (name, split), own in splits.items() if ":" not in name}
    share = min(1.0, rows / sum(len(own) for (_, split), own in splits.items() if split == "train"))
    for (name, split), own in splits.items():
        if split == "train":
            splits[name, split] = share_of(own, share, seed=0)
        else:
            splits[name, split] = rows_of(own, range(0, len(own), max(1, len(own) // judged))[:judged])
    tokenizer = load_tokenizer(encoder)
    assert tokenizer is not None, "a random architecture has no tokenizer"
    tokens = {key: tokenize(own, tokenizer, MAX_LENGTH) for key, own in splits.items()}
    return Text(source, tasks, splits, tokens)
