"""The commands. Nothing heavy is imported before a command needs it: `weft --help` must answer at once."""

from __future__ import annotations

import errno
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.commands import COMMANDS, Command
from weft.cli.devices import device_of
from weft.config.model_data import find_tasks, labelled_rows, tasks_with_data
from weft.errors import RunFailed, WeftError
from weft.utils import launch_env as launched

INTERRUPTED = 130
"""The parser's exit code for Ctrl-C, as a shell expects it."""

RunArgument = Annotated[str, typer.Argument(metavar="RUN.yaml", help="a run file, or a preset by name")]
Overrides = Annotated[list[str] | None, typer.Argument(metavar="key=value", help="such as train.steps=500")]
Json = Annotated[bool, typer.Option("--json", help="one JSON object on standard output")]


def train(
    source: RunArgument,
    overrides: Overrides = None,
    out: Annotated[Path, typer.Option(help="the run's folder")] = Path("runs/run"),
    resume: Annotated[bool, typer.Option("--resume", help="go on from the last checkpoint")] = False,
    with_encoder: Annotated[
        bool, typer.Option("--with-encoder", help="put the encoder into the bundle")
    ] = False,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, …; by default a GPU if there is one")] = None,
    as_json: Json = False,
) -> None:
    """Train a model as a run file says, and save the best one as a bundle."""
    from weft.config import load_run
    from weft.data.splits.split import Split
    from weft.data.splits.task_rows import rows_of_task

    run_file = load_run(source, overrides or [])
    for note in run_file.notes:
        print(f"note: {note}", file=sys.stderr)
    for warning in run_file.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    # the data before torch: a wrong row is told in a second
    splits: dict[tuple[str, str], Split] = {}
    for one in run_file.tasks:
        rows = rows_of_task(one)
        splits |= rows.splits
        for note in rows.notes:
            print(f"note: {note}", file=sys.stderr)

    from weft.cli.tables import print_scores
    from weft.config.build import model_of
    from weft.training.run import run as runs
    from weft.training.run.checkpoint import last_checkpoint

    training = run_file.training
    model = model_of(run_file)
    # a run that was killed before its first checkpoint begins anew
    if run_file.start is not None and not (resume and last_checkpoint(out / "checkpoints")):
        from weft.bundle.start import start_from

        for note in start_from(model, run_file.start):
            print(f"note: {note}", file=sys.stderr)
    done = runs.train(
        model.to(device_of(device)),
        training,
        out,
        resume=resume,
        with_encoder=with_encoder,
        resolved=run_file.resolved,
        splits=splits,
    )
    if as_json:
        print(json.dumps({"run": str(done.folder), **done.metrics}))
    else:
        print_scores(done.metrics, title=f"{done.folder}: validation, best model")
        print(f"bundle: {done.folder / 'bundle'}")


def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="RUN|BUNDLE", help="a run's folder, or a bundle")],
    tasks: Annotated[
        list[str] | None,
        typer.Option(metavar="RUN.yaml", help="where a bundle's data is; may be given repeatedly"),
    ] = None,
    split: Annotated[str, typer.Option(help="validation or test")] = "validation",
    rows: Annotated[
        int | None, typer.Option(min=1, help="look at so many examples a task, always the same; default: all")
    ] = None,
    seed: Annotated[int, typer.Option(help="of the choice of these")] = 1,
    baselines: Annotated[
        bool, typer.Option("--baselines", help="beside it a majority guess and a bag of words")
    ] = False,
    precision: Annotated[
        str, typer.Option(help="float32 or bf16; in bf16 metrics differ slightly")
    ] = "float32",
    encoder: Annotated[str | None, typer.Option(help="where the encoder is, if not where it was")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, …; by default a GPU if there is one")] = None,
    as_json: Json = False,
) -> None:
    """Evaluate a saved model on whole splits."""
    from weft.data.splits.task_rows import rows_of_task

    known = find_tasks(folder, tasks)

    from weft.bundle.load import load
    from weft.cli.tables import print_scores
    from weft.data.splits.subset import rows_of
    from weft.data.tokens.progress import tokenizing
    from weft.data.tokens.tokens import tokenize
    from weft.evaluation import baselines as peers
    from weft.evaluation.evaluate import evaluate as run_evaluation
    from weft.evaluation.evaluate import fixed_examples
    from weft.inference.precision import checked_precision, precision_context

    checked_precision(precision)
    model = load(folder, encoder=encoder, device=device_of(device))
    given = tasks_with_data(model, folder, known)
    splits = labelled_rows(given, split, folder)
    given = [one for one in given if one.name in splits]
    tokenizer = model.tokenizer
    with tokenizing(True) as told:
        data = {
            name: tokenize(own, tokenizer, model.max_length, progress=told.of((name, split), own))
            for name, own in splits.items()
        }
    watched = {name: fixed_examples(own, rows, seed, name) for name, own in data.items()}
    scores = run_evaluation(model, data, watched, precision=precision_context(model, precision))
    beside: dict[str, dict[str, dict[str, float]]] = {}
    if baselines:
        for task in (model.tasks[model.task_id(task.name)] for task in given):
            train_rows = rows_of_task(known.tasks[task.name], ["train"]).splits[task.name, "train"]
            test_rows = rows_of(splits[task.name], watched[task.name])
            for label, peer in (("majority", peers.majority), ("bag of words", peers.bag_of_words)):
                beside.setdefault(label, {})[task.name] = peer(task, train_rows, test_rows) or {}
    if as_json:
        print(json.dumps({"split": split, **scores, **({"baselines": beside} if beside else {})}))
    else:
        print_scores(scores, title=f"{folder}: {split}", beside=beside)


def build_app() -> typer.Typer:
    """The command line with every command of `COMMANDS`."""
    app = typer.Typer(
        name="weft",
        help="One pretrained text encoder, many tasks, a few extra parameters for each.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    for name in COMMANDS:
        command = COMMANDS[name]
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        elif isinstance(command, Command):
            app.command(name=name, cls=command.cls)(command.function)
        else:
            app.command(name=name)(command)
    return app


def run(arguments: list[str] | None = None) -> int:
    """Run a command line; returns the exit code and never raises for a user's mistake.

    Of processes that were started together, the first one alone speaks.
    """
    if launched.rank() > 0:
        with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
            return _run(arguments)
    return _run(arguments)


def _run(arguments: list[str] | None) -> int:
    try:
        code = build_app()(arguments, standalone_mode=False)
    except RunFailed as failed:
        # whichever process it is: the others wait for this one, and cannot know why it went
        print(failed, file=sys.__stderr__ if launched.rank() > 0 else sys.stderr)
        return 1
    except WeftError as wrong:
        print(wrong, file=sys.stderr)
        return 2
    except OSError as wrong:
        print(f"{wrong.filename or 'a file'}: {wrong.strerror or wrong}", file=sys.stderr)
        return 1 if wrong.errno in (errno.ENOSPC, errno.EIO) else 2
    except (typer.Abort, KeyboardInterrupt):
        print("stopped", file=sys.stderr)
        return 1
    except Exception as wrong:
        # the parser's own errors know how to show themselves
        if hasattr(wrong, "show") and hasattr(wrong, "exit_code"):
            wrong.show()
            return int(wrong.exit_code)
        raise
    if code == INTERRUPTED:
        given = sys.argv[1:] if arguments is None else arguments
        print(
            "stopped; the run goes on with --resume" if given[:1] == ["train"] else "stopped", file=sys.stderr
        )
    return code if isinstance(code, int) else 0


def main() -> None:
    """The `weft` command."""
    sys.exit(run())
