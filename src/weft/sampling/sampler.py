"""What every sampler is: a short file of settings that says how steps choose tasks.

Nothing here imports numpy: a run file is checked before anything is loaded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from weft.settings import Named

if TYPE_CHECKING:
    from weft.sampling.choice import Segment
    from weft.sampling.draws import Ints


class Sampler(Named, ABC):
    """A policy of choosing tasks, by the sizes of their training sets."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)  # type: ignore[arg-type]
        cls.what = f"sampler {cls.__dict__.get('name', cls.__name__)!r}"

    @abstractmethod
    def segments(self, sizes: Ints, steps: int) -> list[Segment]:
        """How the steps choose: stretches of steps that follow each other from 0 to `steps`.

        A policy that never changes is one segment; one that changes with time is piecewise constant.

        Args:
            sizes: the number of training examples of each task, all at least 1, [T].
            steps: how many steps the run has.
        """

    def spans(self, sizes: Ints) -> Ints:
        """How many examples an epoch of each task has, at least its size, [T]; by default just that.

        Args:
            sizes: the number of training examples of each task, [T].
        """
        return sizes
