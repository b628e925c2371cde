"""What every way of merging gradients is: settings, and weights that follow from the gradients' products.

Nothing here imports torch: a run file is checked before anything is loaded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import PrivateAttr

from weft.errors import WeftError
from weft.settings import Named

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Merged:
    """What each present task's gradient weighs, each [P], float64.

    Attributes:
        all: where every present task runs through a parameter: the encoder, what all tasks share, and groups
            that all present tasks are in.
        some: where only some of them do: other groups.
        own: where one task owns the parameter.
    """

    all: Tensor
    some: Tensor
    own: Tensor


class Conflict(Named, ABC):
    """A way to make one gradient of several tasks' gradients: Σ_t w_t·g_t, w from the Gramian G = g·gᵀ.

    g_t is P times the gradient of task t's part of the step's loss, P the number of tasks present. The plain
    gradient is the mean of the g_t then, whatever the loss rule.

    Attributes:
        needs: the modules besides weft's own that it imports, each with the package to install.
        resumable: whether `state` holds all that a resumed run needs.
    """

    needs: ClassVar[dict[str, str]] = {}
    resumable: ClassVar[bool] = True

    _names: tuple[str, ...] = PrivateAttr(())

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)  # type: ignore[arg-type]
        cls.what = f"conflict {cls.__dict__.get('name', cls.__name__)!r}"

    @property
    def whole(self) -> bool:
        """Whether the Gramian has the tasks' own parameters in it as well: they add to its diagonal."""
        return False

    @property
    def promises(self) -> bool:
        """Whether Σ w_t·g_t has no negative product with any g_t, up to rounding, whatever they are."""
        return False

    def of(self, names: Sequence[str]) -> Self:
        """The same way for these tasks, with nothing remembered yet.

        Args:
            names: the names of the tasks that train, [T], as their numbers count them.
        """
        self.check_installed()
        fresh = type(self)(**self.model_dump())
        fresh._names = tuple(names)
        return fresh

    def check_installed(self) -> None:
        """Refuse if something that it imports is not there."""
        missing = [package for module, package in self.needs.items() if find_spec(module) is None]
        if missing:
            raise WeftError(
                f"conflict {self.name!r} needs {' and '.join(missing)}; type: "
                f"pip install {' '.join(missing)} (the extra weft[conflict] has all that conflicts need)"
            )

    @abstractmethod
    def merge(self, gramian: Tensor, tasks: Sequence[int], seed: int) -> Merged:
        """The weights of the present tasks' gradients.

        Args:
            gramian: G[i, j] = g_i·g_j over what tasks share, [P, P] float64 on the host; if `whole`, over
                every parameter that trains.
            tasks: the present tasks' numbers in ascending order, [P].
            seed: of this step, for what is drawn.
        """

    def state(self) -> dict[str, Any]:
        """What is remembered from step to step, fit for JSON."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """Remember what `state` said."""

    def _name(self, task: int) -> str:
        """The name of a task that what is remembered of it is kept by."""
        return self._names[task] if self._names else str(task)
