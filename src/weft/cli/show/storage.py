"""`weft show storage`: what a saved model's tasks take, beside an encoder that is there and on their own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli.options import Basis, EncoderOption, Json, RunOrBundle
from weft.cli.output import print_json, print_table
from weft.core.basis import parse_basis

if TYPE_CHECKING:
    from weft.bundle.files import StoredFile
    from weft.model.accounting.storage import Amount, Storage


def storage(
    folder: RunOrBundle, basis: Basis = None, encoder: EncoderOption = None, as_json: Json = False
) -> None:
    """What the tasks take to store, beside an encoder that is on the device already and on their own."""
    asked = None if basis is None else parse_basis(basis)
    from weft.bundle.load import find_bundle, load

    bundle = find_bundle(folder)
    from weft.bundle.files import files_of
    from weft.model.accounting.storage import storage as count

    model = load(bundle, encoder=encoder)
    found, files = count(model, asked), files_of(model, bundle)
    if as_json:
        print_json({**found, "files": files})
        return
    _print(folder, found, files)


def _print(folder: Path, found: Storage, files: list[StoredFile]) -> None:
    rows: list[list[Any]] = [
        ["encoder", *_numbers(found["encoder"]), ""],
        ["trained of it", *_numbers(found["trained_encoder"]), ""],
        ["shared", *_numbers(found["shared"]), ""],
    ]
    told = {f"task {name}": task for name, task in found["tasks"].items()}
    for name, task in {**told, "one more task": found["one_more_task"]}.items():
        rows.append([name, *_numbers(task["total"]), task["head"]["parameters"]])
    print_table(f"{folder}: what is stored", ["owner", "parameters", "bytes", "of these in the head"], rows)
    paper = found["paper"]
    rows = []
    for name, scenario in (("incremental", "beside an encoder that is there"), ("bundled", "on its own")):
        ours: Amount = found[name]  # type: ignore[literal-required]
        row = [f"{name} ({scenario})", ours["parameters"], _millions(ours), ours["bytes"]]
        if paper is not None:
            row.append(_millions(paper[name]))  # type: ignore[literal-required]
        rows.append(row)
    columns = ["all tasks", "parameters", "in millions", "bytes"]
    if paper is not None:
        columns.append(f"with {paper['basis']:,} for the encoder")
    print()
    print_table("what all tasks take", columns, rows)
    print()
    inside = sum(file["bytes"] or 0 for file in files if file["in_bundle"])
    rows = [[file["what"], "none here" if file["bytes"] is None else file["bytes"]] for file in files]
    print_table("files", ["file", "bytes"], [*rows, ["the bundle's together", inside]])
    # outside the table, which would cut a long path
    for file in files:
        if not file["in_bundle"]:
            print(f"{file['what']}, outside the bundle: {file['path']}")


def _numbers(amount: Amount) -> list[int]:
    return [amount["parameters"], amount["bytes"]]


def _millions(amount: Amount) -> str:
    return f"{amount['parameters'] / 1e6:.2f}M"
