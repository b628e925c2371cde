"""Sampler: the base class of samplers, whose settings define how steps choose tasks.

This module does not import numpy: a run file is checked before anything is loaded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from weft.settings import Named

if TYPE_CHECKING:
    from weft.sampling.plan.choice import Segment
    from weft.utils.counter_rng import Ints


class Sampler(Named, ABC):
    """A policy for sampling tasks, based on the sizes of their training sets.

    Attributes:
        summary: the probability of task i in one line; n_i is the number of its training examples, T the
            number of tasks. The table of samplers in docs/reference/training.md shows it with the settings.
        chooses: whether the plan only gives candidates, among which the model being trained chooses.
        later: settings that did not exist in the first version; at their defaults they are left out of a
            plan's fingerprint, which checkpoints hold.
        replacement: whether a task's examples are drawn with replacement instead of once per epoch; a sampler
            may have it as a setting.
    """

    summary: ClassVar[str]
    chooses: ClassVar[bool] = False
    later: ClassVar[tuple[str, ...]] = ()
    if TYPE_CHECKING:

        @property
        def replacement(self) -> bool: ...  # noqa: D102

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)  # type: ignore[arg-type]
        cls.what = f"sampler {cls.__dict__.get('name', cls.__name__)!r}"

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Set `replacement` if it is not a setting: pydantic warns about a field that hides an attribute."""
        super().__pydantic_init_subclass__(**kwargs)
        if "replacement" not in cls.model_fields:
            type.__setattr__(cls, "replacement", False)

    @abstractmethod
    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """Return how steps choose tasks: consecutive segments from step 0 to `steps`.

        A constant policy is one segment; one that changes with time is piecewise constant.

        Args:
            sizes: the number of training examples of each task, all at least 1, [T].
            steps: the number of steps of the run.
            names: the names of the tasks, [T]; for policies that refer to them.
        """

    def check(self, names: Sequence[str]) -> None:
        """Refuse settings that name tasks outside the run; by default settings name no tasks.

        Args:
            names: the tasks of the run, [T].
        """

    def offered(self, batch_size: int, names: Sequence[str]) -> int:
        """The number of candidates per task and step, if the model chooses among candidates.

        Args:
            batch_size: the number of examples of a step.
            names: the names of the tasks, [T].
        """
        return batch_size

    def fingerprint(self) -> dict[str, Any]:
        """The settings that a plan's fingerprint covers."""
        fields = type(self).model_fields
        unset = [name for name in self.later if getattr(self, name) == fields[name].default]
        return {name: value for name, value in self.settings().items() if name not in unset}

    def spans(self, sizes: Ints) -> Ints:
        """Return the number of examples per epoch of each task, at least its size, [T]; default: its size.

        Args:
            sizes: the number of training examples of each task, [T].
        """
        return sizes
