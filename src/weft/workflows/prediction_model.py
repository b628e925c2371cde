"""The model of `weft predict`: a bundle, or an export to ONNX. Tasks are known before torch is imported."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from weft.bundle.manifest import check_encoder, check_has, damage_first, find_bundle, read_bundle
from weft.errors import WeftError, did_you_mean
from weft.interop.onnx.backend import backend_of, checked_export

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.task import Task


class Source(Protocol):
    """Where the model comes from."""

    def tasks(self, names: Sequence[str]) -> list[Task]:
        """Return all tasks; refuse names that none of them has."""

    def guarded(self) -> AbstractContextManager[None]:
        """Inside, a mistake is reported as damage if the files are damaged."""

    def loaded(self) -> Model:
        """Load the model."""


class BundleSource:
    """A bundle, or the folder of a run; arguments as in `source_of`."""

    def __init__(
        self,
        bundle: str | Path,
        precision: str,
        encoder: Any,
        device: str | None,
        only: list[str] | None = None,
    ) -> None:
        self._bundle, self._precision, self._encoder, self._device = bundle, precision, encoder, device
        self._only = only
        self._folder = find_bundle(bundle, only)

    def tasks(self, names: Sequence[str]) -> list[Task]:
        """See `Source`."""
        manifest, tasks = read_bundle(self._folder, verify=False, names=self._only)
        for name in names:
            check_has(self._folder, manifest, name)
        check_encoder(manifest, self._encoder)
        return list(tasks.values())

    def guarded(self) -> AbstractContextManager[None]:
        """See `Source`."""
        return damage_first(self._folder, self._only)

    def loaded(self) -> Model:
        """See `Source`."""
        from weft.bundle.load import load
        from weft.utils.devices import device_of

        model = load(self._bundle, tasks=self._only, encoder=self._encoder, device=device_of(self._device))
        if self._precision == "int8":
            from weft.model.transforms.quantize import quantize

            model = quantize(model)
        return model


class OnnxSource:
    """An export to ONNX; arguments as in `predict_rows`."""

    def __init__(self, folder: str | Path, precision: str, encoder: Any, device: str | None) -> None:
        self._exported = checked_export(folder, precision, device, encoder)

    def tasks(self, names: Sequence[str]) -> list[Task]:
        """See `Source`."""
        known = [task.name for task in self._exported.tasks]
        for name in names:
            if name not in known:
                raise WeftError(f"{self._exported.folder} has no task {name!r}; {did_you_mean(name, known)}")
        return list(self._exported.tasks)

    def guarded(self) -> AbstractContextManager[None]:
        """See `Source`; the graph is verified when it is loaded."""
        return nullcontext()

    def loaded(self) -> Model:
        """See `Source`."""
        import torch

        from weft.interop.onnx.runtime import OnnxModel

        # as many threads as torch would use: workers that share a machine have their part of it
        return cast("Model", OnnxModel(self._exported.folder, torch.get_num_threads()))


def source_of(
    bundle: str | Path,
    backend: str | None,
    precision: str,
    encoder: Any,
    device: str | None,
    only: list[str] | None = None,
) -> Source:
    """Return the source of the model; arguments as in `predict_rows`.

    Args:
        bundle: a bundle, the folder of a run, a name on the hub, or an export to ONNX.
        backend: `torch` or `onnx`; None: what the folder holds.
        precision: the precision of passes.
        encoder: the encoder, if it has moved.
        device: the device.
        only: the tasks of a bundle that are read and loaded; None: all.
    """
    if backend_of(bundle, backend) == "onnx":
        return OnnxSource(bundle, precision, encoder, device)
    return BundleSource(bundle, precision, encoder, device, only)
