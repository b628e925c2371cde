"""Whole runs of a tiny model, in this process: to the end, resumed, or broken off."""

from __future__ import annotations

import json

import pytest

import weft
from tests.support.tiny_run import breaking_off
from weft.config import load_run
from weft.training.run.checkpoint_files import last_checkpoint


def go(folder, out, overrides=(), resume=False, **settings):
    run = load_run(folder / "run.yaml", overrides)
    model = weft.Model(run.encoder, run.tasks, run.method, seed=run.training.seed)
    done = weft.train(
        model, run.training, out, resume=resume, resolved=run.resolved, progress=False, **settings
    )
    return model, done


def log_of(run):
    return [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()]


def stop_after(folder, out, steps, overrides=()):
    """Begin a run and break it off by an error in step `steps`."""
    with breaking_off(steps), pytest.raises(KeyboardInterrupt):
        go(folder, out, overrides)
    return last_checkpoint(out / "checkpoints")
