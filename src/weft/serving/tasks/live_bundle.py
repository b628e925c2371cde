"""A copy of a bundle that changes with the server: `PUT` writes a task's file into it, `DELETE` removes it.

The bundle that was served is never changed. Every change is checked as `weft task copy` checks it: the hashes
of the encoder, of what tasks share and of the method must be those of the bundle.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load_file

from weft.bundle.load import check_tensor
from weft.bundle.manifest import (
    SHARED_FILE,
    bundle_sha256,
    find_bundle,
    matching_tasks,
    read_manifest,
    task_file,
)
from weft.bundle.one_task import groups_of, remove_task, with_task
from weft.errors import WeftError
from weft.methods import build_method
from weft.tasks.checks import NAME
from weft.utils.checksums import file_sha256

if TYPE_CHECKING:
    from torch import Tensor

    from weft.tasks.task import Task


class LiveBundle:
    """A temporary copy of a bundle.

    Args:
        bundle: the bundle, or the folder of a run.
    """

    def __init__(self, bundle: str | Path) -> None:
        source = find_bundle(bundle)
        self._temporary = Path(tempfile.mkdtemp(prefix="weft-serve-"))
        self.folder = self._temporary / "bundle"
        shutil.copytree(source, self.folder)
        self.original = self.sha256 = bundle_sha256(self.folder) or ""

    @property
    def manifest(self) -> dict[str, Any]:
        """The contents of its bundle.json."""
        return read_manifest(self.folder)

    def put(self, name: str, contents: bytes) -> tuple[Task, dict[str, Tensor]]:
        """Add a task, or replace one.

        Args:
            name: the name of the task.
            contents: the task's file, `tasks/NAME.safetensors` of a bundle.

        Returns:
            The task, and its tensors by their names in the file.
        """
        if not NAME.fullmatch(name):
            raise WeftError(f"{name[:80]!r} is not the name of a task; expected letters, digits, _ and -")
        manifest = self.manifest
        for group, members in groups_of(build_method(manifest["method"]), name).items():
            raise WeftError(
                f"task {name!r} is in the group {group!r} ({', '.join(members)}), whose parameters are not "
                "in its file"
            )
        with tempfile.TemporaryDirectory(dir=self._temporary) as work:
            path = task_file(Path(work), name)
            path.parent.mkdir()
            path.write_bytes(contents)
            try:
                shared = file_sha256(self.folder / SHARED_FILE)
                sha256 = manifest["encoder"]["sha256"]
                task = matching_tasks(Path(work), manifest, [name], sha256, shared)[name]
                tensors: dict[str, Tensor] = load_file(path)
                for key, value in tensors.items():
                    check_tensor(path, key, value)
            except (WeftError, SafetensorError) as wrong:
                # a client must not learn a path of the server
                raise WeftError(str(wrong).replace(str(path), f"{name}.safetensors")) from None
        with_task(self.folder, self.folder, task.settings(), tensors)
        self.sha256 = bundle_sha256(self.folder) or ""
        return task, tensors

    def remove(self, name: str) -> None:
        """Remove a task."""
        remove_task(self.folder, name, self.folder)
        self.sha256 = bundle_sha256(self.folder) or ""

    def restore(self, name: str, contents: bytes | None) -> None:
        """Undo a change: write the task's former file back, or remove the task if it had none."""
        if contents is None:
            self.remove(name)
        else:
            self.put(name, contents)

    def contents(self, name: str) -> bytes | None:
        """The file of a task; None if the bundle does not have it."""
        path = task_file(self.folder, name)
        return path.read_bytes() if name in self.manifest["tasks"] else None

    def close(self) -> None:
        """Delete the copy."""
        shutil.rmtree(self._temporary, ignore_errors=True)
