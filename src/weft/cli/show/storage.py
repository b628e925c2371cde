"""`weft show storage`: the storage that a model's tasks need, with and without the encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.cli.options import Basis, EncoderOption, Json, Overrides, RunFileOrBundle
from weft.cli.output import print_json, print_table, print_text
from weft.cli.paths import is_run_file
from weft.core.basis import parse_basis
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.bundle.files import StoredFile
    from weft.model.accounting.storage import Amount, Storage


def storage(
    source: RunFileOrBundle,
    overrides: Overrides = None,
    basis: Basis = None,
    encoder: EncoderOption = None,
    as_json: Json = False,
) -> None:
    """Show how much storage a model needs.

    Takes a saved model, or a run file before it is trained. Prints parameters and bytes of the encoder, of
    what all tasks share and of each task; then what all tasks need if the device already has the encoder
    (incremental) and if it does not (bundled); then the sizes of the files, if the model is saved.

    Example: weft show storage runs/first
    """
    rounded_size = None if basis is None else parse_basis(basis)
    files: list[StoredFile]
    if is_run_file(source):
        amounts, files = _described(source, overrides or [], encoder, rounded_size), []
    else:
        amounts, files = _saved(source, overrides or [], encoder, rounded_size)
    if as_json:
        print_json({**amounts, "files": files})
        return
    _print(source, amounts, files)


def _described(source: str, overrides: list[str], encoder: str | None, basis: int | None) -> Storage:
    """The storage of the model that a run file describes, before it is trained."""
    from weft.config import load_run
    from weft.config.build import counted_model

    changes = [] if encoder is None else [f"encoder={encoder}"]
    run_file = load_run(source, [*overrides, *changes])
    from weft.model.accounting.storage import storage as count

    return count(counted_model(run_file), basis)


def _saved(
    source: str, overrides: list[str], encoder: str | None, basis: int | None
) -> tuple[Storage, list[StoredFile]]:
    """The storage of a saved model, and its files."""
    from weft.bundle.consistent import consistently
    from weft.bundle.manifest import find_bundle

    bundle = find_bundle(source)
    if overrides:
        raise WeftError(
            f"{source} is a saved model, whose settings are fixed; found {overrides[0]!r}\n"
            "  leave it out, or pass a run file: weft show storage RUN.yaml KEY=VALUE"
        )
    from weft.bundle.files import files_of
    from weft.bundle.load import load
    from weft.model.accounting.storage import storage as count

    def read() -> tuple[Storage, list[StoredFile]]:
        model = load(bundle, encoder=encoder)
        return count(model, basis), files_of(model, bundle)

    return consistently(bundle, read)


def _print(source: str, amounts: Storage, files: list[StoredFile]) -> None:
    rows: list[list[Any]] = [
        ["encoder", *_numbers(amounts["encoder"]), ""],
        ["trained weights of it", *_numbers(amounts["trained_encoder"]), ""],
        ["shared by all tasks", *_numbers(amounts["shared"]), ""],
    ]
    tasks = {f"task {name}": task for name, task in amounts["tasks"].items()}
    for name, task in {**tasks, "one more task": amounts["one_more_task"]}.items():
        rows.append([name, *_numbers(task["total"]), task["head"]["parameters"]])
    print_table(
        f"{source}: what is stored",
        ["part of the model", "parameters", "bytes", "of these in the head"],
        rows,
    )
    paper = amounts["paper"]
    rows = []
    for name, scenario in (("incremental", "the device has the encoder"), ("bundled", "with the encoder")):
        ours: Amount = amounts[name]  # type: ignore[literal-required]
        row = [f"{name} ({scenario})", ours["parameters"], _millions(ours), ours["bytes"]]
        if paper is not None:
            row.append(_millions(paper[name]))  # type: ignore[literal-required]
        rows.append(row)
    columns = ["all tasks", "parameters", "in millions", "bytes"]
    if paper is not None:
        columns.append(f"with {paper['basis']:,} for the encoder")
    print()
    print_table("what all tasks need", columns, rows)
    if paper is not None and paper["unused_heads"]["parameters"]:
        unused = paper["unused_heads"]["parameters"]
        print(f"the last column includes {unused:,} parameters of heads that multitask LoRA keeps unused")
    if not files:
        return
    print()
    inside = sum(file["bytes"] or 0 for file in files if file["in_bundle"])
    rows = [[file["what"], "no file" if file["bytes"] is None else file["bytes"]] for file in files]
    print_table("files", ["file", "bytes"], [*rows, ["all files of the bundle", inside]])
    # outside the table, which would truncate a long path
    for file in files:
        if not file["in_bundle"]:
            print_text(f"{file['what']}, outside the bundle: {file['path']}")


def _numbers(amount: Amount) -> list[int]:
    return [amount["parameters"], amount["bytes"]]


def _millions(amount: Amount) -> str:
    return f"{amount['parameters'] / 1e6:.2f}M"
