"""`weft show params`: the parameters of a model, by owner; or of one model per method, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.options import Basis, Json, Overrides, RunFileArgument
from weft.cli.output import print_json, print_table
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.methods import Method
    from weft.model.accounting.ledger import Ledger


def params(
    source: RunFileArgument,
    overrides: Overrides = None,
    basis: Basis = None,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            help="count these methods instead of the file's, in one table: names, or settings as in a run "
            "file; default: none",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Count the parameters of the model that a run file describes.

    Prints the parameters of the encoder, those that all tasks share, and those of each task with its head.
    With --methods it prints one row per method: how many times the encoder all tasks need together, and what
    is trained per task, with the figures of the method's paper beside them.

    Example: weft show params quickstart method=lora

    Example: weft show params quickstart --methods full,pals,low_rank,lora

    Example: weft show params quickstart --methods "lora, {use: lora, rank: 64}"
    """
    from weft.config import load_run
    from weft.config.build import ledger_of
    from weft.core.basis import parse_basis

    rounded_size = None if basis is None else parse_basis(basis)
    chosen = None if methods is None else _methods(methods)
    run = load_run(source, overrides or [])
    if chosen is not None:
        from dataclasses import replace

        ledgers = {
            name: ledger_of(replace(run, method=method), rounded_size) for name, method in chosen.items()
        }
        if as_json:
            print_json(ledgers)
        else:
            _print_methods(f"{run.encoder}, {len(run.tasks)} tasks", ledgers)
        return
    ledger = ledger_of(run, rounded_size)
    if as_json:
        print_json(ledger)
        return
    rows: list[list[Any]] = [
        ["encoder", ledger["encoder"], ""],
        ["added for all tasks", ledger["shared"], ""],
    ]
    rows += [
        [f"added for {name}", count, ledger["heads"][name]] for name, count in ledger["per_task"].items()
    ]
    print_table(
        f"{run.encoder}, {run.method.name}", ["part of the model", "parameters", "and in the head"], rows
    )
    print(f"all tasks together: {ledger['total_ratio']:.4f} times the encoder, without heads")
    print(f"trained per task: {ledger['trained_percent_per_task']:.4f}% of the encoder")
    if (paper := ledger["paper"]) is not None:
        percent = paper["trained_percent_per_task"]
        if percent is None:
            print(f"the paper reports {paper['total_ratio']:.2f} ({paper['why']})")
        else:
            print(f"as the paper counts: {paper['total_ratio']:.4f}, {percent:.4f}% ({paper['why']})")


def _methods(text: str) -> dict[str, Method]:
    """The methods of the option, by the name of their row."""
    from weft.methods import build_method
    from weft.utils.safe_yaml import YamlError, parse_yaml

    try:
        entries = parse_yaml(f"[{text}]")
    except YamlError:
        raise WeftError(f"--methods {text!r} cannot be read as YAML; expected such as lora,pals") from None
    if not entries:
        raise WeftError("--methods: expected names of methods, such as lora,pals; found nothing")
    methods: dict[str, Method] = {}
    for entry in entries:
        name = _name(entry)
        if name in methods:
            raise WeftError(f"--methods: {name} is listed twice; leave one out")
        try:
            methods[name] = build_method(entry)
        except WeftError as wrong:
            raise WeftError(f"--methods: {wrong}") from None
    return methods


def _name(entry: Any) -> str:
    """The name of a row: the method, and the settings that were passed."""
    if isinstance(entry, list):
        return " + ".join(_name(part) for part in entry)
    if not isinstance(entry, Mapping):
        return str(entry)
    settings = ", ".join(f"{key} {value}" for key, value in entry.items() if key != "use")
    return f"{entry.get('use')} ({settings})" if settings else str(entry.get("use"))


def _print_methods(title: str, ledgers: Mapping[str, Ledger]) -> None:
    columns = ["method", "shared", "per task", "all tasks", "trained"]
    if papers := any(ledger["paper"] is not None for ledger in ledgers.values()):
        columns += ["paper: all", "trained"]
    rows: list[list[object]] = []
    for name, ledger in ledgers.items():
        per_task = ledger["per_task"].values()
        row: list[object] = [
            name,
            ledger["shared"],
            round(sum(per_task) / len(per_task)),
            f"{ledger['total_ratio']:.4f}",
            f"{ledger['trained_percent_per_task']:.4f}%",
        ]
        if papers:
            paper = ledger["paper"] or {}
            ratio, percent = paper.get("total_ratio"), paper.get("trained_percent_per_task")
            row += ["-" if ratio is None else f"{ratio:.4g}", "-" if percent is None else f"{percent:.3g}%"]
        rows.append(row)
    print_table(f"{title}; parameters without heads", columns, rows)
    print("shared, per task: parameters added for all tasks together, and for each task")
    print("all tasks: parameters of all tasks together, divided by those of the encoder")
    print("trained: parameters that train, per task, in percent of the encoder")
    reasons: dict[str, list[str]] = {}
    for name, ledger in ledgers.items():
        if ledger["paper"] is not None:
            reasons.setdefault(ledger["paper"]["why"], []).append(name)
    for why, names in reasons.items():
        print(f"paper of {', '.join(names)}: {why}")
