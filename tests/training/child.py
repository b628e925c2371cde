"""What the children of the fork server do. Imported once, in the server: a child starts in milliseconds."""

from __future__ import annotations

import os
import sys

import torch
import transformers.models.bert.modeling_bert  # noqa: F401  (loaded before the children fork)

import weft.cli
import weft.model
import weft.training.run


def train(arguments: list[str], threads: int, cache: str) -> None:
    """Run `weft train` in this process."""
    os.environ["WEFT_CACHE"] = cache
    torch.set_num_threads(threads)
    with open(os.devnull, "w") as nothing:
        sys.stdout = sys.stderr = nothing
        os._exit(weft.cli.run(["train", *arguments, "--device", "cpu"]))
