"""Predicting the lines of a file: the function behind `weft predict`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.inference.precision import Precision

PRECISIONS = ("float32", "bf16", "int8")


def predict_file(
    bundle: str | Path,
    file: str | Path,
    *,
    tasks: Sequence[str] | None = None,
    every_task: bool = False,
    precision: str = "float32",
    encoder: Any = None,
    device: str | None = None,
) -> list[dict[str, Any]]:
    """Return one prediction per line of a file, in the order of the lines.

    Args:
        bundle: a bundle, or a run's folder.
        file: a file with one request per line; see `weft.inference.requests`.
        tasks: predict every line for each of these tasks; the lines then name no task.
        every_task: predict every line for every task that takes its number of texts; the lines then name no
            task.
        precision: one of `PRECISIONS`; int8 runs on a CPU.
        encoder: folder or hub id of the encoder, if it has moved.
        device: cpu, cuda, …; None: a GPU if there is one.
    """
    from weft.bundle.manifest import check_encoder, check_has, find_bundle, read_manifest
    from weft.inference.requests import check_names, read_requests, read_texts
    from weft.utils.devices import check_device

    # what can be wrong is checked before torch is imported, which takes seconds
    check_device(device)
    folder = find_bundle(bundle)
    manifest = read_manifest(folder)
    for name in tasks or ():
        check_has(folder, manifest, name)
    file = Path(file)
    mixed = not every_task and tasks is None
    lines: list[Any] = read_requests(file) if mixed else read_texts(file)
    if mixed:
        check_names(lines, manifest["tasks"], file)
    check_encoder(manifest, encoder)
    from weft.bundle.load import load
    from weft.inference.requests import as_requests, as_texts
    from weft.utils.devices import device_of

    model = load(bundle, encoder=encoder, device=device_of(device))
    if precision == "int8":
        from weft.model.transforms.quantize import quantize

        model = quantize(model)
    passes: Precision = "bf16" if precision == "bf16" else "float32"
    if mixed:
        return model.predict(as_requests(lines, model.tasks, file), precision=passes)
    return model.predict_all(as_texts(lines, model, tasks, file), tasks, precision=passes)
