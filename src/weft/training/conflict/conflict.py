"""The base class of methods that merge gradients: settings, and weights computed from the Gramian.

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
    """The weights of the present tasks' gradients, each [P], float64.

    Attributes:
        all: for parameters that every present task uses: the encoder, what all tasks share, and groups that
            contain all present tasks.
        some: for parameters that only some of them use: other groups.
        single: for parameters that one task owns.
    """

    all: Tensor
    some: Tensor
    single: Tensor


class Conflict(Named, ABC):
    """Merges the gradients of several tasks into Σ_t w_t·g_t, with w computed from the Gramian G = g·gᵀ.

    g_t is P times the gradient of task t's term in the step's loss, with P the number of tasks present. The
    plain gradient is then the mean of the g_t, whatever the loss rule.

    Attributes:
        needs: the third-party modules that it imports, each with the package to install.
        resumable: whether `state` contains all that a resumed run needs.
    """

    needs: ClassVar[dict[str, str]] = {}
    resumable: ClassVar[bool] = True

    _names: tuple[str, ...] = PrivateAttr(())

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)  # type: ignore[arg-type]
        cls.what = f"conflict {cls.__dict__.get('name', cls.__name__)!r}"

    @property
    def whole(self) -> bool:
        """Whether the Gramian includes parameters that one task owns: they add to its diagonal."""
        return False

    @property
    def promises(self) -> bool:
        """Whether Σ w_t·g_t is guaranteed to have no negative product with any g_t, up to rounding."""
        return False

    def of(self, names: Sequence[str]) -> Self:
        """The same method for these tasks, with an empty state.

        Args:
            names: the names of the tasks that train, [T]; a task's number is its position here.
        """
        self.check_installed()
        fresh = type(self)(**self.model_dump())
        fresh._names = tuple(names)
        return fresh

    def check_installed(self) -> None:
        """Raise WeftError if a package that it imports is not installed."""
        missing = [package for module, package in self.needs.items() if find_spec(module) is None]
        if missing:
            raise WeftError(
                f"conflict {self.name!r} needs {' and '.join(missing)}; type: "
                f"pip install {' '.join(missing)} (the extra weft[conflict] installs all of them)"
            )

    @abstractmethod
    def merge(self, gramian: Tensor, tasks: Sequence[int], seed: int) -> Merged:
        """Compute the weights of the present tasks' gradients.

        Args:
            gramian: G[i, j] = g_i·g_j over shared parameters, [P, P] float64 on the host; if `whole`, over
                every parameter that trains.
            tasks: the present tasks' numbers in ascending order, [P].
            seed: the seed of this step, for methods that draw random numbers.
        """

    def state(self) -> dict[str, Any]:
        """The state between steps, JSON-serializable."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """Restore the result of `state`."""

    def _name(self, task: int) -> str:
        """The name of a task, under which its state is kept."""
        return self._names[task] if self._names else str(task)
