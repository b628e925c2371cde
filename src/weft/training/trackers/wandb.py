"""`wandb`: Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from weft.errors import WeftError
from weft.training.trackers.tracker import Sink, TrackedRun, Tracker
from weft.utils.notes import is_quiet


class Wandb(Tracker):
    """A run of Weights & Biases: its config is run.yaml, its history the log, its summary the last scores.

    With `mode: offline` nothing leaves the machine; `wandb sync RUN/wandb/offline-run-…` sends it later.
    """

    name = "wandb"
    package = extra = "wandb"

    project: str = Field("weft", description="the project that the run belongs to")
    entity: str | None = Field(None, description="user or team; default: that of the login")
    run: str | None = Field(None, description="the name of the run; default: the name of its folder")
    group: str | None = Field(None, description="the group of runs that this one belongs to")
    tags: tuple[str, ...] = Field((), description="tags of the run")
    mode: Literal["online", "offline"] | None = Field(
        None, description="offline writes into the run's folder alone; default: $WANDB_MODE, else online"
    )

    def open(self, run: TrackedRun) -> Sink:
        """Begin or continue the run of Weights & Biases with this run's id."""
        import wandb

        settings = wandb.Settings(
            console="off",  # the terminal belongs to weft, and its output to nobody else
            save_code=False,
            symlink=False,  # a run with links in its folder is not resumed
            disable_git=True,
            quiet=True,
            silent=is_quiet(),
        )
        mode = self.mode or wandb.setup().settings.mode
        # without a key it would ask for one, and the run would wait for an answer
        if mode == "online" and not wandb.login(prompt=False):
            raise WeftError("there is no API key; type: wandb login, or set mode: offline")
        begun = wandb.init(
            project=self.project,
            entity=self.entity,
            name=self.run or run.folder.resolve().name,
            group=self.group,
            tags=list(self.tags) or None,
            mode=self.mode,
            dir=str(run.folder),
            id=run.id,
            resume=None if run.resumed_at is None else "allow",
            config=dict(run.settings),
            reinit="create_new",  # a run of the caller's own goes on
            settings=settings,
        )
        begun.define_metric("weft_step")
        begun.define_metric("*", step_metric="weft_step")
        return _History(begun)


class _History:
    """Writes one row of the history per line of the log.

    Args:
        run: a `wandb.Run`.
    """

    def __init__(self, run: Any) -> None:
        self._run = run

    def write(self, event: str, step: int, numbers: Mapping[str, float]) -> None:
        """One row; several lines of the log may have the same step."""
        self._run.log({"weft_step": step, **numbers})

    def close(self, failed: bool) -> None:
        """Mark the run as finished or failed, and send what is left."""
        self._run.finish(exit_code=int(failed))
