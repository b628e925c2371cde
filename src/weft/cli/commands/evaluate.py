"""`weft evaluate`: evaluate a saved model."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.options import (
    Device,
    EncoderOption,
    Json,
    LabelledSplit,
    Precision,
    Rows,
    RunOrBundle,
    Seed,
    TaskFiles,
)
from weft.cli.output import print_json, print_scores, print_table


def evaluate(
    folder: RunOrBundle,
    tasks: TaskFiles = None,
    split: LabelledSplit = "validation",
    rows: Rows = None,
    seed: Seed = 1,
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines",
            help="also evaluate two baselines on the same examples: the majority label, and a bag of words",
        ),
    ] = False,
    tune_thresholds: Annotated[
        bool,
        typer.Option(
            "--tune-thresholds",
            help="first tune the threshold of each label of multi-label tasks for the best F1, and store "
            "them in the bundle",
        ),
    ] = False,
    precision: Precision = "float32",
    encoder: EncoderOption = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Evaluate a saved model on labelled data.

    Prints the metrics of each task in percent and the average of each task's first metric. A run's folder
    knows its data; for a bundle, name a run file with --tasks.

    Example: weft evaluate runs/first --split validation --baselines

    Example: weft evaluate runs/first --tune-thresholds
    """
    from weft.workflows.evaluate import evaluate as evaluate_model

    scores = evaluate_model(
        folder,
        tasks,
        split=split,
        rows=rows,
        seed=seed,
        precision=precision,
        baselines=baselines,
        tune_thresholds=tune_thresholds,
        encoder=encoder,
        device=device,
    )
    if as_json:
        print_json(scores)
    else:
        for name, labels in scores.get("thresholds", {}).items():
            columns = ["label", "rows", "threshold", "F1 at 0.5", "F1"]
            table = [
                [x["label"], x["examples"], f"{x['threshold']:.3f}"]
                + [f"{100 * x[key]:.1f}" for key in ("f1_at_half", "f1")]
                for x in labels
            ]
            print_table(f"{name}: tuned thresholds", columns, table)
        print_scores(scores, title=f"{folder}: {split}", baselines=scores.get("baselines"))
