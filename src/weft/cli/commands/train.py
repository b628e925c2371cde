"""`weft train`: train a model from a run file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.options import Device, Json, Overrides, RunFileArgument
from weft.cli.output import print_json, print_notes, print_scores, print_text, print_warnings

if TYPE_CHECKING:
    from weft.training.settings import Training


def train(
    source: RunFileArgument,
    overrides: Overrides = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="folder to write the run to")] = Path(
        "runs/run"
    ),
    resume: Annotated[
        bool, typer.Option("--resume", help="continue the run in --out from its last checkpoint")
    ] = False,
    with_encoder: Annotated[
        bool,
        typer.Option(
            "--with-encoder",
            help="save the encoder's weights in the bundle; default: only its name and sha256",
        ),
    ] = False,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Train a model from a run file, and save it.

    Writes to --out: run.yaml (all settings), log.jsonl (losses and scores), metrics.json (the metrics of the
    best model on the whole validation splits), checkpoints/ and bundle/ (the best model). Prints the metrics
    beside a majority guess and a bag of words (train.baselines=false leaves them out).

    Example: weft train quickstart train.steps=100 --out runs/first

    Example: weft train run.yaml method.rank=4 --out runs/rank4 --resume
    """
    from weft.config import load_run
    from weft.evaluation.baselines import not_beaten
    from weft.training.run.folder import RunEnded
    from weft.training.run.interrupt import Interrupted
    from weft.workflows.train import train_run

    run_file = load_run(source, overrides or [])
    print_notes(run_file.notes)
    print_warnings(run_file.warnings)
    try:
        done = train_run(run_file, out, resume=resume, with_encoder=with_encoder, device=device)
    except RunEnded as ended:
        _print_ended(ended, out, as_json)
        return
    except Interrupted as stopped:
        print(
            f"stopped after step {stopped.step}; the checkpoint is written\n"
            "  to continue, repeat the command with --resume",
            file=sys.stderr,
        )
        if (stopped.folder / "bundle").is_dir():
            print_text(f"  to use the best weights so far: weft evaluate {stopped.folder}", sys.stderr)
        raise typer.Exit(128 + stopped.signal) from None
    warnings = [
        *_untrained(done.metrics, run_file.training),
        *not_beaten(done.metrics["tasks"], done.baselines),
    ]
    if as_json:
        print_json({"run": str(done.folder), **done.metrics, "baselines": done.baselines})
        print_warnings(warnings)
        return
    print_scores(done.metrics, title=f"{done.folder}: validation, best model", baselines=done.baselines)
    print_text(f"bundle: {done.folder / 'bundle'}")
    print_warnings(warnings)


def _untrained(metrics: Mapping[str, Any], training: Training) -> Iterator[str]:
    """A line if the best weights are those from before the first step of a run that has steps."""
    if metrics.get("step") == 0 and training.steps != 0:
        yield (
            "the best model is that of step 0, before any training, because no later evaluation was better: "
            "the adapters are untrained. Use more validation rows or train.steps, or a lower train.lr"
        )


def _print_ended(ended: Exception, out: Path, as_json: bool) -> None:
    """Report a run that had ended before; with --json its metrics, as if it had ended just now."""
    import json

    print(ended, file=sys.stderr if as_json else sys.stdout)
    if as_json:
        metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
        known = ("tasks", "rows", "of", "average")
        scores = {key: metrics[key] for key in known if key in metrics}
        print_json({"run": str(out), **scores, "baselines": metrics.get("baselines", {})})
