"""What every sampler is: a short file of settings that says how steps choose tasks.

Nothing here imports numpy: a run file is checked before anything is loaded.
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
    """A policy of choosing tasks, by the sizes of their training sets.

    Attributes:
        summary: the probability of task i, in one line: n_i is the number of its training examples, T the
            number of tasks. The table of samplers in docs/training.md has it, with the settings.
        chooses: whether the plan only gives candidates, among which the weights being trained decide.
        replacement: whether a task's examples are drawn one by one with replacement, instead of coming once
            an epoch; a sampler may have it as a setting.
    """

    summary: ClassVar[str]
    chooses: ClassVar[bool] = False
    if TYPE_CHECKING:

        @property
        def replacement(self) -> bool: ...  # noqa: D102

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)  # type: ignore[arg-type]
        cls.what = f"sampler {cls.__dict__.get('name', cls.__name__)!r}"

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Set `replacement` where it is no setting: pydantic warns of a field that hides an attribute."""
        super().__pydantic_init_subclass__(**kwargs)
        if "replacement" not in cls.model_fields:
            type.__setattr__(cls, "replacement", False)

    @abstractmethod
    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """How the steps choose: stretches of steps that follow each other from 0 to `steps`.

        A policy that never changes is one segment; one that changes with time is piecewise constant.

        Args:
            sizes: the number of training examples of each task, all at least 1, [T].
            steps: how many steps the run has.
            names: the tasks, [T]; for policies that name them.
        """

    def check(self, names: Sequence[str]) -> None:
        """Refuse settings that name other tasks than the run's; by default they name none.

        Args:
            names: the tasks of the run, [T].
        """

    def spans(self, sizes: Ints) -> Ints:
        """How many examples an epoch of each task has, at least its size, [T]; by default just that.

        Args:
            sizes: the number of training examples of each task, [T].
        """
        return sizes
