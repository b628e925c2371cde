"""What an export format is. Nothing here imports torch: `weft export --help` lists the formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from weft.settings import Named

if TYPE_CHECKING:
    from weft.model.model import Model


class Exporter(Named, ABC):
    """One task of a model, written for another library. Its fields are the format's options.

    `weft export BUNDLE --to NAME --out PATH [--set KEY=VALUE …]` builds it with the options, calls `check`
    before the model is loaded, then `export`, and prints what `report` says.

    Attributes:
        name: the name it is registered under, which `--to` takes.
        summary: what is written, in one line, for `weft export --help`.
    """

    summary: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.what = f"export format {cls.__dict__.get('name', cls.__name__)!r}"

    def check(self, out: Path) -> None:
        """Refuse a place that cannot be written to, before the model is loaded.

        Args:
            out: the file or folder that is to be written.
        """

    @abstractmethod
    def export(self, model: Model, task: str, out: Path) -> dict[str, Any]:
        """Write the task; returns what `--json` prints beside `task` and `out`, JSON-able.

        Args:
            model: the model, in eval mode.
            task: the task's name.
            out: the file or folder to write.
        """

    def report(self, out: Path, task: str, facts: dict[str, Any]) -> list[str]:
        """The lines that are printed where there is no `--json`.

        Args:
            out: what was written.
            task: the task's name.
            facts: what `export` gave.
        """
        return [f"{out}: task {task}, for {self.name}"]
