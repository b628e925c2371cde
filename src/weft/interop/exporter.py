"""The base class of export formats. It imports no torch, because `weft export --help` lists the formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from weft.settings import Named

if TYPE_CHECKING:
    from weft.model.model import Model


class Exporter(Named, ABC):
    """Writes one task of a model, or all, for a different library. Its fields are the options of the format.

    `weft export BUNDLE --to NAME --out PATH [--set KEY=VALUE …]` builds it with the options, calls `check`
    before the model is loaded, then `export`, and prints the lines of `report`.

    Attributes:
        name: the name it is registered under, which `--to` takes.
        summary: one line on what is written, for `weft export --help`.
        all_tasks: whether all tasks are written together; `--task` is then refused.
    """

    summary: ClassVar[str]
    all_tasks: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.what = f"export format {cls.__dict__.get('name', cls.__name__)!r}"

    def check(self, out: Path) -> None:
        """Refuse a path that cannot be written, before the model is loaded.

        Args:
            out: the file or folder to write.
        """

    @abstractmethod
    def export(self, model: Model, task: str, out: Path) -> dict[str, Any]:
        """Write the task; return what `--json` prints besides `task` and `out`, as JSON values.

        Args:
            model: the model, in eval mode.
            task: the task's name; empty if the format has `all_tasks`.
            out: the file or folder to write.
        """

    def report(self, out: Path, task: str, facts: dict[str, Any]) -> list[str]:
        """Return the lines that are printed without `--json`.

        Args:
            out: the path that was written.
            task: the task's name; empty if the format has `all_tasks`.
            facts: the result of `export`.
        """
        return [f"{out}: task {task}, for {self.name}"]
