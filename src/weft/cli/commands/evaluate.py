"""`weft evaluate`: evaluate a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.errors_output import print_errors
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
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="first fit the temperature of each task that predicts probabilities, and store it in the "
            "bundle; no answer changes, only its probability",
        ),
    ] = False,
    report: Annotated[
        bool,
        typer.Option(
            "--report",
            help="also show what is wrong: precision and recall by label, kinds of errors, calibration and "
            "the most confident errors; written to errors.json (errors.test.json) of the run's folder",
        ),
    ] = False,
    report_to: Annotated[
        Path | None,
        typer.Option(
            "--report-to",
            metavar="FILE.json",
            help="write the report to this file; default: the run's folder, and for a bundle no file",
        ),
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            "--predictions",
            metavar="FILE",
            help="write one row per example with gold, predicted and probability: .csv, .tsv, .parquet, else "
            "JSON lines; default: none",
        ),
    ] = None,
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

    Example: weft evaluate runs/first --report --predictions predictions.csv
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
        calibrate=calibrate,
        report=report,
        report_to=report_to,
        predictions=predictions,
        encoder=encoder,
        device=device,
    )
    if as_json:
        print_json(scores)
    else:
        if "temperatures" in scores:
            columns = ["task", "decisions", "temperature", "NLL at 1", "NLL", "ECE at 1", "ECE"]
            table = [
                [name, x["count"], f"{x['temperature']:.3f}"]
                + [f"{x[key]:.3f}" for key in ("nll_at_one", "nll", "ece_at_one", "ece")]
                for name, x in scores["temperatures"].items()
            ]
            print_table("fitted temperatures", columns, table)
        for name, labels in scores.get("thresholds", {}).items():
            columns = ["label", "rows", "threshold", "F1 at 0.5", "F1"]
            table = [
                [x["label"], x["examples"], f"{x['threshold']:.3f}"]
                + [f"{100 * x[key]:.1f}" for key in ("f1_at_half", "f1")]
                for x in labels
            ]
            print_table(f"{name}: tuned thresholds", columns, table)
        print_scores(scores, title=f"{folder}: {split}", baselines=scores.get("baselines"))
        if "errors" in scores:
            print_errors(scores["errors"])
